"""Secrets: referenced in files, read late, never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError

MASK = "<secret>"

NOT_SHOWN = "(not shown: a secret)"
"""What stands where the value of a setting would be that is a secret."""

_SECRETS = re.compile(r"sha256.*|.*(password(?!status)|passwd|passphrase|chapsecret).*", re.IGNORECASE)


def holds_secret(setting: str) -> bool:
    """True for a setting whose value is a password or a hash of one, whatever its capitals.

    PasswordStatus tells a state (BIOS of a recorded R750, NVIDIA/libredfish).
    """
    return _SECRETS.fullmatch(setting) is not None


class Secret:
    """A secret value whose text, repr and format are masked; ``reveal`` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled")


@dataclass(frozen=True)
class SecretReference:
    """Where a secret is: an environment variable or a file; ``where`` and ``key`` name the place that refers to it."""

    env: str = ""
    file: str = ""
    where: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"environment variable {self.env}" if self.env else f"file {self.file}"

    def read(self, environment: Mapping[str, str] | None = None) -> Secret:
        """Read the secret. Raises ConfigError, naming the reference, where it is missing or empty."""
        if self.env:
            value = (os.environ if environment is None else environment).get(self.env, "")
            if not value:
                raise ConfigError(self.where, f"the {self} is not set; export it before the run", key=self.key)
            return Secret(value)
        try:
            value = Path(self.file).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(self.where, f"cannot read the secret's {self}: {reason}", key=self.key) from None
        if not value:
            raise ConfigError(self.where, f"the secret's {self} is empty", key=self.key)
        return Secret(value)


class GivenSecret(SecretReference):
    """A secret that needs no reference: that of a machine which was made for this run."""

    def __init__(self, value: str) -> None:
        super().__init__()
        object.__setattr__(self, "_secret", Secret(value))

    def __str__(self) -> str:
        return "the virtual machine's own password"

    def read(self, environment: Mapping[str, str] | None = None) -> Secret:  # noqa: ARG002 - there is nothing to look up
        """The secret itself."""
        secret: Secret = object.__getattribute__(self, "_secret")
        return secret
