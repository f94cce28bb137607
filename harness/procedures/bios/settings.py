"""The BIOS settings of a machine as a file, and two or more of them beside each other. Pure.

name shown by any ─┬─ the same everywhere
                   ├─ read-only or of one unit alone ── identity   (serial numbers, addresses, asset tags)
                   ├─ read-only, shared by some ─────── state      (sizes, versions, what is fitted)
                   └─ writable ──────────────────────── setting    with the odd one out, where there is one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.devices.bios_registry import Registry
from harness.devices.idrac_facts import BiosState
from harness.limits import Value
from harness.secret import holds_secret


@dataclass(frozen=True)
class Unit:
    """The settings of one machine. ``facts`` are the names that it only tells and nobody sets, ``redacted`` those left out."""

    name: str
    identity: Mapping[str, str]
    values: Mapping[str, Value]
    facts: frozenset[str] = frozenset()
    redacted: tuple[str, ...] = ()


class Kind(StrEnum):
    """What a difference is about."""

    SETTING = "setting"
    STATE = "state"
    IDENTITY = "identity"


@dataclass(frozen=True)
class Difference:
    """One name whose values differ; None for a unit that does not show it. ``odd`` is the unit that differs from all others."""

    name: str
    kind: Kind
    values: Mapping[str, Value | None]
    odd: str = ""

    def __str__(self) -> str:
        told = ", ".join(f"{unit} {'does not show it' if value is None else repr(value)}" for unit, value in self.values.items())
        return f"{self.name}: {told}{f'; the odd one is {self.odd}' if self.odd else ''}"


def take_unit(name: str, identity: Mapping[str, str], state: BiosState, registry: Registry) -> Unit:
    """The settings in effect, without secrets. What a rule makes read-only for now is a setting all the same."""
    free = registry.freed(state.attributes)
    secrets = {key for key in state.attributes if holds_secret(key) or registry.is_password(key)}
    values = {key: value for key, value in state.attributes.items() if value is not None and key not in secrets}
    facts = frozenset(key for key in values if key in free.attributes and free.attributes[key].is_read_only)
    return Unit(name, identity, values, facts, tuple(sorted(secrets)))


def compare(units: Sequence[Unit]) -> tuple[Difference, ...]:
    """Every name that differs, settings first. Learned from what the units show: two or more of them."""
    names = sorted({name for unit in units for name in unit.values})
    return tuple(sorted(_differences(units, names), key=lambda each: (list(Kind).index(each.kind), each.name)))


def _differences(units: Sequence[Unit], names: Sequence[str]) -> Iterator[Difference]:
    for name in names:
        values = {unit.name: unit.values.get(name) for unit in units}
        if len({(type(value), value) for value in values.values()}) == 1:
            continue
        kind = _kind(name, values, units)
        yield Difference(name, kind, values, _odd(values) if kind is Kind.SETTING else "")


def _kind(name: str, values: Mapping[str, Value | None], units: Sequence[Unit]) -> Kind:
    """Text that is another one in each unit names the unit; with two units only what nobody can set counts as such."""
    is_fact = any(name in unit.facts for unit in units)
    shown = [value for value in values.values() if value is not None]
    is_unique = len(shown) == len(set(map(str, shown))) and all(isinstance(value, str) and value for value in shown)
    if is_fact:
        return Kind.IDENTITY if is_unique and len(shown) == len(values) else Kind.STATE
    words = {value for value in shown if isinstance(value, str) and value.isalpha()}
    return Kind.IDENTITY if is_unique and len(shown) > 2 and not words else Kind.SETTING


def _odd(values: Mapping[str, Value | None]) -> str:
    """The one unit that differs where all others agree: with two units there is none."""
    if len(values) < 3:
        return ""
    counts = Counter(map(repr, values.values()))
    if len(counts) != 2 or min(counts.values()) != 1:
        return ""
    return next(unit for unit, value in values.items() if counts[repr(value)] == 1)
