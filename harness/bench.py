"""The bench: where a machine is and how to reach it. Secrets only by reference, never which tests run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from harness.config import Model, first_of, kind_of, load
from harness.errors import ConfigError
from harness.platform import Platform, Slot
from harness.secret import SecretReference

PLACEHOLDER = "CHANGE-ME"
"""What a draft says where only a person knows better."""

NO_PIN = "sha256:" + "0" * 64
"""The pin of a draft."""

_PIN = re.compile(r"[0-9a-f]{64}")
_PIN_PREFIX = re.compile(r"sha-?256(\s+fingerprint)?\s*[:=]\s*", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER = 'a password never stands in the file: give { env = "NAME" } or { file = "PATH" }'


class Reference(Model):
    """Where a secret is: ``{ env = "NAME" }`` or ``{ file = "path" }``. What is wrong with it is said without quoting it."""

    env: str = ""
    file: str = ""

    @model_validator(mode="before")
    @classmethod
    def _is_no_secret(cls, value: object) -> object:
        if not isinstance(value, Mapping | Reference):
            raise ValueError(_NEVER)
        return value

    @field_validator("env")
    @classmethod
    def _is_variable(cls, value: str) -> str:
        if value and not _VARIABLE.fullmatch(value):
            raise ValueError("takes the name of an environment variable; the password itself never stands in the file")
        return value

    @model_validator(mode="after")
    def _is_one(self) -> Reference:
        if bool(self.env) == bool(self.file):
            raise ValueError('a secret is either { env = "NAME" } or { file = "PATH" }')
        return self


def _without_credentials(value: str) -> str:
    if "@" in value:
        raise ValueError("a user or password never stands in a URL, so there is no @ in it")
    return value


def _has_host(url: str) -> bool:
    """Whether a URL names a host and, if any, a port that can be."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:
        return False


def _as_pin(value: str) -> str:
    if not value:
        return ""
    plain = _PIN_PREFIX.sub("", value.strip(), count=1).replace(":", "").lower()
    if not _PIN.fullmatch(plain):
        raise ValueError("a pin is sha256: and 64 hex digits, or what `openssl x509 -noout -fingerprint -sha256` prints")
    return f"sha256:{plain}"


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
        _without_credentials(value)
        if not re.fullmatch(r"https://[^/?#\s]+/?", value):
            raise ValueError("takes https://HOST[:PORT] without user, path or query")
        if not _has_host(value):
            raise ValueError("takes https://HOST[:PORT] with a host and a port from 1 to 65535")
        return value.rstrip("/")

    @field_validator("pin")
    @classmethod
    def _is_pin(cls, value: str) -> str:
        return _as_pin(value)

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

    @field_validator("url")
    @classmethod
    def _has_no_credentials(cls, value: str) -> str:
        return _without_credentials(value)

    @model_validator(mode="after")
    def _is_one(self) -> Console:
        if bool(self.url) == bool(self.command):
            raise ValueError("a console is either url or command")
        return self


class Host(Model):
    """The host's operating system: how to run a command there, and what runs the GPU workers.

    ``address`` is for ssh: ``user@host`` or an alias of ~/.ssh/config, which also says port, key and jump hosts. ``user`` and
    ``password`` are for the login prompt of a console.
    """

    via: Literal["local", "ssh", "console"]
    address: str = Field("", validate_default=True)
    user: str = ""
    password: Reference | None = None
    python: str = "python3"
    wrapper: str = ""

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str, known: ValidationInfo) -> str:
        if known.data.get("via") == "ssh" and not value:
            raise ValueError('missing: via = "ssh" needs user@host, or an alias of ~/.ssh/config')
        if value.startswith("-") or not value.isprintable() or " " in value:
            raise ValueError(f"{value!r} is not user@host or an alias of ~/.ssh/config")
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Host:
        if self.password is not None and not self.user:
            raise ValueError("a password needs the user that it belongs to")
        return self


class Fabric(Model):
    """The composable fabric's controller, which is only read; ``machine`` is the name that it gives this machine.

    ``https`` needs ``pin`` or ``ca``, as the BMC does; a login (HTTP Basic) is only ever sent over it.
    """

    url: str
    machine: str
    user: str = ""
    password: Reference | None = None
    pin: str = ""
    ca: str = ""

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        _without_credentials(value)
        if not re.fullmatch(r"https?://[^/?#\s]+/?", value) or not _has_host(value):
            raise ValueError("takes http://HOST[:PORT] or https://HOST[:PORT] without user, path or query")
        return value.rstrip("/")

    @field_validator("pin")
    @classmethod
    def _is_pin(cls, value: str) -> str:
        return _as_pin(value)

    @model_validator(mode="after")
    def _is_trusted(self) -> Fabric:
        is_secure = self.url.startswith("https://")
        if is_secure and not self.pin and not self.ca:
            raise ValueError("give pin (the certificate's SHA-256) or ca (a PEM file): an unchecked certificate is refused")
        if not is_secure and (self.user or self.password is not None):
            raise ValueError("a login is sent over https only; leave user and password out, or give an https URL")
        if bool(self.user) != (self.password is not None):
            raise ValueError("user and password belong together")
        return self


class Lab(Model):
    """A machine of the virtual lab instead of a real one. ``host`` is the way to the operating system of one in QEMU."""

    grade: Literal["model", "qemu"]
    host: Literal["console", "ssh"] = "console"

    @model_validator(mode="after")
    def _has_a_network(self) -> Lab:
        if self.host == "ssh" and self.grade != "qemu":
            raise ValueError('host = "ssh" needs grade = "qemu": the model has no network')
        return self


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

    @field_validator("populated", mode="before")
    @classmethod
    def _is_list(cls, value: object) -> object:
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            got = kind_of(value) if not isinstance(value, list | tuple) else "a list of other things"
            raise ValueError(f'takes a list of slot names, as in ["jbogA/slot01"], not {got}')
        return value

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
    def host_is_on_console(self) -> bool:
        """True where the console is the only way to the operating system."""
        if self.lab is not None:
            return self.lab.grade == "qemu" and self.lab.host == "console"
        return self.host is not None and self.host.via == "console"

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

    def fabric_password(self, where: str) -> SecretReference | None:
        """The reference to the password of the fabric's user, naming ``where`` in its errors."""
        if self.fabric is None or self.fabric.password is None:
            return None
        reference = self.fabric.password
        return SecretReference(reference.env, reference.file, where, "fabric.password")

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


def placeholders(bench: Bench, where: str) -> tuple[ConfigError, ...]:
    """What still says what a draft says, one error a key."""
    return tuple(ConfigError(where, f"still the draft's placeholder: {what}", key=key) for key, what in _placeholders(bench))


def _placeholders(bench: Bench) -> Iterator[tuple[str, str]]:
    if PLACEHOLDER in bench.service_tag.upper():
        yield "service_tag", "give the machine's own; it pins the only one that may be written to"
    if bench.bmc is None:
        return
    if PLACEHOLDER in bench.bmc.url.upper():
        yield "bmc.url", "give the address of the management controller"
    if bench.bmc.pin == NO_PIN:
        yield "bmc.pin", "give the certificate's SHA-256, as the comment beside it shows, or ca instead"


def load_bench(text: str, where: str) -> Bench:
    """Read a bench file. Raises ConfigError with one line, also for a draft that nobody has completed."""
    bench = load(Bench, text, where)
    left = placeholders(bench, where)
    if left:
        raise first_of(left)
    return bench
