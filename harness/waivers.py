"""Waivers: what somebody answers for until a date, although the machine does not pass it.

    [[waiver]]                                  a case that failed as the product's, or was not measured
    check = "pcie.width[jbogA/slot03]"          by its check or by its own id
    platform = "lqd8360"                        on machines of this platform
    bios = "2.21.*"                             with firmware within these ranges (bios, idrac, driver; harness.versions)
    reason, ticket, owner                       said wherever the waiver is used
    expires = 2027-01-31                        its last day

A waiver lets a case go; it passes nothing, and no gate opens by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from harness.config import Model, load
from harness.errors import ConfigError
from harness.versions import VersionRange, range_from_toml

NEVER = frozenset(("bmc.auth", "bmc.identity", "bmc.tls", "verdict", "harness"))
"""What keeps the harness off the wrong machine, and what it says of itself: nobody can answer for these."""

FIRMWARE = ("bios", "idrac", "driver")
"""What a waiver may be bound to, by the names of the record's identity."""


def _day(value: object) -> object:
    """A date as TOML has it, and nothing that pydantic would make one of: 86400 is no 2 January 1970."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise ValueError("takes a date without quotes and time, such as 2027-01-31")


_Words = Annotated[str, Field(min_length=1, pattern=r"\S")]
_Day = Annotated[date, BeforeValidator(_day)]
_Versions = Annotated[VersionRange, BeforeValidator(range_from_toml), PlainSerializer(str)]


class Waiver(Model):
    """One entry. ``check`` is a check's id or a case's, ``expires`` the last day on which it holds."""

    check: _Words
    platform: _Words
    reason: _Words
    ticket: _Words
    owner: _Words
    expires: _Day
    bios: _Versions | None = None
    idrac: _Versions | None = None
    driver: _Versions | None = None

    def covers(self, case: str, check: str) -> bool:
        """True where it names the case or its check."""
        return self.check in (case, check)

    def objections(self, platform: str, identity: Mapping[str, str], today: date) -> list[str]:
        """Why it does not hold here and today; empty where it does."""
        told = [f"it is for platform {self.platform}"] if platform != self.platform else []
        ranges: dict[str, VersionRange | None] = {"bios": self.bios, "idrac": self.idrac, "driver": self.driver}
        for name, within in ranges.items():
            if within is None:
                continue
            version = identity.get(name)
            if not version:
                told.append(f"it is for {name} {within}, and the machine has not told its own")
            elif not within.holds(version):
                told.append(f"it is for {name} {within}, and the machine has {version}")
        return [*told, f"it expired after {self.expires}"] if today > self.expires else told

    def __str__(self) -> str:
        return f"{self.ticket} ({self.owner}, until {self.expires}): {self.reason}"


class _File(Model):
    schema_: int = Field(default=1, alias="schema")
    waivers: tuple[Waiver, ...] = Field(default=(), alias="waiver")


@dataclass(frozen=True)
class Waivers:
    """The entries of one file. ``where`` names it."""

    entries: tuple[Waiver, ...] = ()
    where: str = ""

    def for_case(self, case: str, check: str, platform: str) -> Waiver | None:
        """The entry about a case on this platform; ``load_waivers`` sees to it that there is but one."""
        return next((entry for entry in self.entries if entry.platform == platform and entry.covers(case, check)), None)

    def check_names(self, cases: Iterable[tuple[str, str]], platform: str) -> None:
        """Raise ConfigError for an entry about what no run has; ``cases`` are the ids of all cases with those of their checks.

        Another platform has cases of its own: of an entry for one, only the check must be known here.
        """
        known = {name for pair in cases for name in pair}
        for number, entry in enumerate(self.entries, 1):
            name = entry.check if entry.platform == platform else _check_of(entry)
            if name not in known:
                near = get_close_matches(name, known, n=1)
                raise ConfigError(self.where, f"no check or case {name!r}", key=_key(number), nearest=near[0] if near else "")


def load_waivers(text: str, where: str) -> Waivers:
    """Read a file of waivers. Raises ConfigError with one line, also for two about one case and for one that no file may hold."""
    entries = load(_File, text, where).waivers
    for number, entry in enumerate(entries, 1):
        if _check_of(entry) in NEVER or entry.check.startswith("harness."):
            why = "it keeps runs honest and off other machines"
            raise ConfigError(where, f"{entry.check} is never waived: {why}", key=_key(number))
    _refuse_doubles(entries, where)
    return Waivers(entries, where)


def _refuse_doubles(entries: Sequence[Waiver], where: str) -> None:
    """A case has one waiver: nobody shall have to guess which of two is the one that counts."""
    taken: dict[tuple[str, str], int] = {}
    for number, entry in enumerate(entries, 1):
        check = _check_of(entry)
        is_case, any_case = entry.check != check, f"{check}["
        also = check if is_case else any_case
        other = taken.get((entry.platform, entry.check)) or taken.get((entry.platform, also))
        if other is not None:
            both = f"{entry.check} of {entry.platform}" if entries[other - 1].check == entry.check else f"cases of {check}"
            raise ConfigError(where, f"waivers {other} and {number} are both about {both}; keep one", key=_key(number))
        taken[entry.platform, entry.check] = number
        if is_case:
            taken.setdefault((entry.platform, any_case), number)


def unused(waivers: Waivers, used: Collection[Waiver], platform: str, identity: Mapping[str, str], today: date) -> list[str]:
    """One sentence for each entry that let nothing go, with what there is to say of it."""
    told = []
    for entry in waivers.entries:
        if entry in used:
            continue
        why = ", ".join(entry.objections(platform, identity, today)) or "nothing that it could let go came up"
        told.append(f"waiver of {entry.check} was not used: {why}; {entry}")
    return told


def _check_of(entry: Waiver) -> str:
    """The check that it is about, whole or in part."""
    return entry.check.partition("[")[0]


def _key(number: int) -> str:
    return f"waiver {number}: check"
