"""The plan: what differs from the platform, what would be written, and what cannot or may not be. Pure.

wanted limit ─┬─ holds ───────────────────────────── nothing to do
              └─ differs ─┬─ can be written ─┬────── Change
                          │                  └────── Change in a danger class: refused until named
                          └─ cannot ─┬────────────── Gap
                                     └────────────── Gap by mistake: this BIOS knows no such name or value, whatever its state
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

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
    """One attribute that differs and cannot be written, and why.

    ``is_mistake``: the platform file asks for a name or a value that this BIOS does not know, so the file is wrong.
    """

    attribute: str
    current: Value | None
    limit: Limit
    reason: str
    is_mistake: bool = False

    def __str__(self) -> str:
        now = "which this BIOS does not show" if self.current is None else f"which is {self.current}"
        if self.is_mistake:
            return f"[bios.attributes] of the platform asks for {self.attribute} = {self.limit}: {self.reason}"
        return f"cannot set {self.attribute}, {now}, to {self.limit}: {self.reason}"


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
    def mistakes(self) -> tuple[Gap, ...]:
        """The gaps that are mistakes of the platform file."""
        return tuple(gap for gap in self.gaps if gap.is_mistake)

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
        refused = [change for change, _ in self.refused]
        if free := [change for change in self.changes if change not in refused]:
            yield f"would change {', '.join(str(change) for change in free)}"
        if self.forced:
            yield "the BIOS itself would change " + ", ".join(f"{name} -> {value}" for name, value in self.forced.items())
        for gap in self.gaps:
            yield str(gap)
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
        target = targets[name]
        mistake = _mistake(name, target, current, registry)
        reason = mistake or _reason_against(name, target, current, after, registry)
        if reason or target is None:
            gaps.append(Gap(name, current.get(name), limit, reason, bool(mistake)))
        else:
            changes.append(Change(name, current.get(name), limit, target))
    refused = [(change, danger) for change in changes for danger in unnamed(change.attribute, change.target, named)]
    beside = {name: value for name, value in registry.forced(after).items() if changes and name not in known}
    return Plan(tuple(changes), tuple(gaps), tuple(refused), beside)


def differing(current: Mapping[str, Value | None], wanted: Mapping[str, Limit]) -> dict[str, Limit]:
    """The limits that do not hold; an attribute that is not there holds none."""
    good = (Outcome.PASS, Outcome.MARGINAL)
    return {name: limit for name, limit in wanted.items() if limit.judge(current.get(name)) not in good}


def _mistake(name: str, target: Value | None, current: Mapping[str, Value | None], registry: Registry) -> str:
    """What this BIOS does not know of what the platform file asks for, in any state; nothing where it knows name and value."""
    attribute = registry.attributes.get(name)
    if attribute is None:
        if name in current or not registry.attributes:
            return ""
        near = get_close_matches(name, registry.attributes, n=1)
        return f"this BIOS has no attribute {name}{f'; did you mean {near[0]!r}?' if near else ''}"
    if target is None:
        choices = f" of {', '.join(attribute.choices)}" if attribute.choices else ""
        return f"this BIOS takes no such value{choices}"
    objection = attribute.objection(target)
    return f"it {objection}" if objection else ""


def _reason_against(
    name: str, target: Value | None, before: Mapping[str, Value | None], after: Mapping[str, Value | None], registry: Registry
) -> str:
    """Why it cannot be written, or nothing. What ``/Bios`` does not show must not be written, whatever the registry says."""
    attribute = registry.attributes.get(name)
    if name not in before or attribute is None:
        return "this BIOS has no such attribute, or does not show it"
    if registry.is_read_only(name, before, after):
        return "it is read-only as things stand (another attribute decides, or lockdown)"
    if attribute.type == "Enumeration" and target not in registry.choices(name, after):
        return f"another attribute leaves it only {', '.join(registry.choices(name, after)) or 'no value'}"
    return ""


def _target(limit: Limit, attribute: Attribute | None) -> Value | None:
    """The value to write: the first that satisfies the limit and that the BIOS takes, the nearest bound of a range.

    None: the BIOS takes none of them.
    """
    candidates: tuple[Value, ...]
    match limit.kind:
        case "matches":
            candidates = tuple(word for word in (attribute.choices if attribute else ()) if limit.judge(word) is not Outcome.FAIL)
        case _:
            ends = () if attribute is None else (attribute.low, attribute.high)
            beside = tuple(end for end in ends if end is not None and limit.judge(end) is not Outcome.FAIL)
            candidates = (*(_whole(bound) for bound in limit.bounds), *beside)
    if attribute is None or limit.kind == "exactly":
        return candidates[0] if candidates else None
    return next((candidate for candidate in candidates if not attribute.objection(candidate)), None)


def _whole(value: Value) -> Value:
    return int(value) if isinstance(value, float) and value.is_integer() else value
