"""The plan: what differs from the platform, what would be written, and what cannot or may not be. Pure.

wanted limit ─┬─ holds ───────────────────────────── nothing to do
              └─ differs ─┬─ can be written ─┬────── Change
                          │                  └────── Change in a danger class: refused until named
                          └─ cannot ──────────────── Gap
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from harness.devices.bios_registry import Attribute, Registry
from harness.limits import Limit, Outcome, Value
from harness.ports import Json
from harness.procedures.bios.danger import Danger, unnamed


@dataclass(frozen=True)
class Change:
    """One attribute to write: its value now, what is wanted, and the value that will be written."""

    attribute: str
    current: Value | None
    limit: Limit
    target: Value

    def __str__(self) -> str:
        return f"{self.attribute} {self.current} -> {self.target}"


@dataclass(frozen=True)
class Gap:
    """One attribute that differs and cannot be written, and why."""

    attribute: str
    current: Value | None
    limit: Limit
    reason: str

    def __str__(self) -> str:
        return f"{self.attribute} is {self.current}, wanted {self.limit}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """What is to be done. ``refused`` pairs changes with the danger class nobody named; ``forced`` is what the BIOS changes beside.

    Nothing is written while there is a gap or a refusal: a PATCH is all or nothing, and half a plan is no platform.
    """

    changes: tuple[Change, ...] = ()
    gaps: tuple[Gap, ...] = ()
    refused: tuple[tuple[Change, Danger], ...] = ()
    forced: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True where the machine is as wanted."""
        return not self.changes and not self.gaps

    @property
    def can_be_written(self) -> bool:
        """True where something is to be written and nothing stands against it."""
        return bool(self.changes) and not self.gaps and not self.refused

    @property
    def values(self) -> dict[str, Value]:
        """What the one PATCH carries."""
        return {change.attribute: change.target for change in self.changes}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.is_empty:
            yield "the BIOS is as the platform wants it"
            return
        if self.changes:
            yield f"would change {', '.join(str(change) for change in self.changes)}"
        if self.forced:
            yield "the BIOS itself would change " + ", ".join(f"{name} -> {value}" for name, value in self.forced.items())
        for gap in self.gaps:
            yield f"cannot change {gap}"
        for change, danger in self.refused:
            yield f"may not change {change}: {danger.why}; name it with --danger {danger.name}"


def make_plan(
    current: Mapping[str, Value | None],
    wanted: Mapping[str, Limit],
    registry: Registry,
    named: Collection[str] = (),
    *,
    is_locked_down: bool = False,
) -> Plan:
    """Compare and decide. ``registry`` may be empty where nothing differs.

    Under lockdown the registry calls nearly everything read-only (598 of 687 attributes of a recorded R750): only its rules count.
    """
    if is_locked_down:
        registry = registry.unlocked()
    wrong = differing(current, wanted)
    targets = {name: _target(limit, registry.attributes.get(name)) for name, limit in wrong.items()}
    known = {name: target for name, target in targets.items() if target is not None}
    after = {**current, **known}
    changes, gaps = [], []
    for name, limit in wrong.items():
        reason = _reason_against(name, targets[name], current, after, registry)
        target = targets[name]
        if reason or target is None:
            gaps.append(Gap(name, current.get(name), limit, reason))
        else:
            changes.append(Change(name, current.get(name), limit, target))
    refused = [(change, danger) for change in changes for danger in unnamed(change.attribute, change.target, named)]
    beside = {name: value for name, value in registry.forced(after).items() if changes and name not in known}
    return Plan(tuple(changes), tuple(gaps), tuple(refused), beside)


def differing(current: Mapping[str, Value | None], wanted: Mapping[str, Limit]) -> dict[str, Limit]:
    """The limits that do not hold; an attribute that is not there holds none."""
    good = (Outcome.PASS, Outcome.MARGINAL)
    return {name: limit for name, limit in wanted.items() if limit.judge(current.get(name)) not in good}


def _reason_against(
    name: str, target: Value | None, before: Mapping[str, Value | None], after: Mapping[str, Value | None], registry: Registry
) -> str:
    """Why it cannot be written, or nothing. What ``/Bios`` does not show must not be written, whatever the registry says."""
    attribute = registry.attributes.get(name)
    if name not in before or attribute is None:
        return "this BIOS has no such attribute, or does not show it"
    if target is None:
        return "the limit names no single value that this BIOS takes; set it by hand"
    if objection := attribute.objection(target):
        return f"it {objection}"
    if registry.is_read_only(name, before, after):
        return "it is read-only as things stand (another attribute decides, or lockdown)"
    if attribute.type == "Enumeration" and target not in registry.choices(name, after):
        return f"another attribute leaves it only {', '.join(registry.choices(name, after)) or 'no value'}"
    return ""


def _target(limit: Limit, attribute: Attribute | None) -> Value | None:
    """The value to write: the first that satisfies the limit and that the BIOS takes, the nearest bound of a range."""
    candidates: tuple[Value, ...]
    match limit.kind:
        case "matches":
            candidates = tuple(word for word in (attribute.choices if attribute else ()) if limit.judge(word) is not Outcome.FAIL)
        case _:
            candidates = tuple(_whole(bound) for bound in limit.bounds)
    if attribute is None or limit.kind == "exactly":
        return candidates[0] if candidates else None
    return next((candidate for candidate in candidates if not attribute.objection(candidate)), None)


def _whole(value: Value) -> Value:
    return int(value) if isinstance(value, float) and value.is_integer() else value
