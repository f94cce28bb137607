"""The bench: where a machine is and how to reach it. Secrets only by reference, never which tests run."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from harness.config import Model, load
from harness.errors import ConfigError
from harness.platform import Platform, Slot
from harness.secret import SecretReference

_PIN = re.compile(r"sha256:[0-9a-f]{64}")


class Reference(Model):
    """Where a secret is: ``{ env = "NAME" }`` or ``{ file = "path" }``."""

    env: str = ""
    file: str = ""

    @model_validator(mode="after")
    def _is_one(self) -> Reference:
        if bool(self.env) == bool(self.file):
            raise ValueError('a secret is either { env = "NAME" } or { file = "PATH" }')
        return self


class Bmc(Model):
    """The management controller. ``pin`` is the SHA-256 of its certificate (DER), ``ca`` a PEM file; one of them is needed."""

    url: str
    user: str
    password: Reference
    pin: str = ""
    ca: str = ""

    @field_validator("url")
    @classmethod
    def _is_https(cls, value: str) -> str:
        if not re.fullmatch(r"https://[^/@\s]+/?", value):
            raise ValueError(f"{value!r} is not https://HOST[:PORT] without user or path")
        return value.rstrip("/")

    @field_validator("pin")
    @classmethod
    def _is_pin(cls, value: str) -> str:
        plain = value.replace(":", "").removeprefix("sha256").lower()
        pin = f"sha256:{plain}" if value else ""
        if pin and not _PIN.fullmatch(pin):
            raise ValueError("a pin is sha256: and 64 hex digits, as `openssl x509 -fingerprint -sha256` prints it")
        return pin

    @model_validator(mode="after")
    def _is_trusted(self) -> Bmc:
        if not self.pin and not self.ca:
            raise ValueError("give pin (the certificate's SHA-256) or ca (a PEM file): an unchecked certificate is refused")
        return self


class Console(Model):
    """The serial console: a pyserial URL, or a command whose terminal it is."""

    url: str = ""
    command: str = ""
    baud: int = 115200

    @model_validator(mode="after")
    def _is_one(self) -> Console:
        if bool(self.url) == bool(self.command):
            raise ValueError("a console is either url or command")
        return self


class Host(Model):
    """The host's operating system: how to run a command there, and what runs the GPU workers.

    ``user`` and ``password`` are for the login prompt of a console.
    """

    via: Literal["local", "ssh", "console"]
    address: str = ""
    user: str = ""
    password: Reference | None = None
    python: str = "python3"
    wrapper: str = ""

    @model_validator(mode="after")
    def _is_complete(self) -> Host:
        if self.password is not None and not self.user:
            raise ValueError("a password needs the user that it belongs to")
        return self


class Fabric(Model):
    """The composable fabric's controller (read only)."""

    url: str
    machine: str


class Lab(Model):
    """A machine of the virtual lab instead of a real one."""

    grade: Literal["model", "qemu"]


class Bench(Model):
    """Where a machine is: live endpoints or a lab, never both."""

    schema_version: int = Field(1, alias="schema")
    name: str
    platform: str
    service_tag: str = ""
    populated: tuple[str, ...] | None = None
    bmc: Bmc | None = None
    console: Console | None = None
    host: Host | None = None
    fabric: Fabric | None = None
    lab: Lab | None = None

    @field_validator("name", "platform")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(f"{value!r} is not a name of letters, digits, dot, dash and underscore")
        return value

    @model_validator(mode="after")
    def _is_reachable(self) -> Bench:
        live = [name for name in ("bmc", "console", "host", "fabric") if getattr(self, name) is not None]
        if self.lab is not None and live:
            raise ValueError(f"[lab] and [{live[0]}] exclude each other: a bench is a real machine or a simulated one")
        if self.lab is None and not live:
            raise ValueError("nothing to reach: give [bmc], [host] or [console], or a [lab]")
        if self.bmc is not None and not self.service_tag:
            raise ValueError("service_tag is missing: it pins the one machine that may be written to")
        if self.host is not None and self.host.via == "console" and self.console is None:
            raise ValueError('host.via = "console" needs a [console]')
        return self

    @property
    def is_live(self) -> bool:
        """True where the bench has endpoints of a real machine."""
        return self.lab is None

    def password(self, where: str) -> SecretReference | None:
        """The reference to the BMC password, naming ``where`` in its errors."""
        if self.bmc is None:
            return None
        reference = self.bmc.password
        return SecretReference(reference.env, reference.file, where, "bmc.password")

    def host_password(self, where: str) -> SecretReference | None:
        """The reference to the password of the host's user, naming ``where`` in its errors."""
        if self.host is None or self.host.password is None:
            return None
        reference = self.host.password
        return SecretReference(reference.env, reference.file, where, "host.password")

    def slots(self, platform: Platform, where: str) -> tuple[Slot, ...]:
        """The populated slots. Raises ConfigError for a name the platform does not have."""
        known = {slot.name for slot in platform.slots}
        for name in self.populated or ():
            if name not in known:
                raise ConfigError(where, f"platform {platform.name} has no slot {name!r}", key="populated")
        chosen = platform.populated(self.populated)
        if not chosen:
            raise ConfigError(where, "no slot is populated, so nothing could be missing", key="populated")
        return chosen


def load_bench(text: str, where: str) -> Bench:
    """Read a bench file. Raises ConfigError with one line."""
    return load(Bench, text, where)
