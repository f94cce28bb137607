"""The plan: what differs from the platform, what would be written, and what cannot or may not be. Pure.

wanted limit ─┬─ holds ───────────────────────────── nothing to do
              └─ differs ─┬─ can be written ─┬────── Change
                          │                  └────── Change in a danger class: refused until named
                          └─ cannot ─┬────────────── Gap
                                     └────────────── Gap by mistake: this BIOS knows no such name or value, whatever its state

changes ─▶ order: one request where possible, two boots where one locks or unlocks the other ─▶ steps
        ─▶ what the BIOS changes by itself then, held to the same danger classes
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from harness.devices.bios_registry import Attribute, Registry
from harness.limits import Limit, Outcome, Value, exactly
from harness.ports import Json
from harness.procedures.bios.danger import Danger, unnamed
from harness.procedures.bios.order import arrange
from harness.procedures.bios.requests import without_done
from harness.secret import NOT_SHOWN


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

    ``steps`` are the changes in the order in which they must be written, one PATCH, one job and one boot each; ``needs`` says why.
    ``because`` says for each forced change which setting forces it, ``warnings`` what could not be judged. Nothing is written while
    there is a gap or a refusal: a PATCH is all or nothing, and half a plan is no platform.
    """

    changes: tuple[Change, ...] = ()
    gaps: tuple[Gap, ...] = ()
    refused: tuple[tuple[Change, Danger], ...] = ()
    forced: Mapping[str, Json] = field(default_factory=dict)
    steps: tuple[tuple[Change, ...], ...] = ()
    needs: tuple[str, ...] = ()
    because: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    is_locked_down: bool = False

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
        """All that is to be written."""
        return {change.attribute: change.target for change in self.changes}

    def step(self, number: int) -> Plan:
        """The part of the plan that one PATCH, one job and one boot carry out; the whole where it has no steps."""
        changes = self.steps[number] if self.steps else self.changes
        return replace(self, changes=changes, steps=(changes,))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.is_empty:
            yield "the BIOS is as the platform wants it"
            return
        if self.is_locked_down:
            yield "nothing can change: system lockdown mode is on; without it this would hold:"
        refused = [change for change, _ in self.refused]
        if free := [change for change in self.changes if change not in refused]:
            yield f"would change {', '.join(str(change) for change in free)}"
        if len(self.steps) > 1:
            yield "in this order, each with a boot of its own: " + ", then ".join(
                " and ".join(change.attribute for change in step) for step in self.steps
            )
        if self.forced:
            yield "the BIOS itself would change " + ", ".join(f"{name} -> {value}" for name, value in self.forced.items())
        for gap in self.gaps:
            yield str(gap)
        yield from self.warnings
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
    rules = registry.unlocked() if is_locked_down else registry
    wrong = differing(current, wanted)
    targets = {name: _target(limit, rules.attributes.get(name)) for name, limit in wrong.items()}
    mistakes = {name: _mistake(name, targets[name], current, rules) for name in wrong}
    unknown = {name: _unshown(name, targets[name], current, rules) for name in wrong}
    sound = {name: target for name, target in targets.items() if target is not None and not mistakes[name] and not unknown[name]}
    order = arrange(sound, current, rules)
    changes, gaps = [], []
    for name, limit in wrong.items():
        reason = mistakes[name] or unknown[name] or order.blocked.get(name, "")
        if reason or name not in sound:
            gaps.append(_gap(name, current.get(name), limit, reason, is_mistake=bool(mistakes[name]), registry=rules))
        else:
            changes.append(Change(name, current.get(name), limit, sound[name]))
    by_name = {change.attribute: change for change in changes}
    forced = order.forced if changes else {}
    beside = [Change(name, current.get(name), exactly(value), value) for name, (value, _) in forced.items()]
    return Plan(
        tuple(changes),
        tuple(gaps),
        tuple((change, danger) for change in (*changes, *beside) for danger in unnamed(change.attribute, change.target, named)),
        {name: value for name, (value, _) in forced.items()},
        tuple(tuple(by_name[name] for name in step) for step in order.steps) if not gaps else (),
        order.needs,
        {name: reason for name, (_, reason) in forced.items()},
        (*_warnings(sound, current, rules), *order.warnings),
        is_locked_down,
    )


def _gap(name: str, now: Value | None, limit: Limit, reason: str, *, is_mistake: bool, registry: Registry) -> Gap:
    """What the registry calls a password is told by name only, whatever that name is."""
    if registry.is_password(name):
        return Gap(name, NOT_SHOWN, exactly(NOT_SHOWN), reason, is_mistake)
    return Gap(name, now, limit, reason, is_mistake)


def differing(current: Mapping[str, Value | None], wanted: Mapping[str, Limit]) -> dict[str, Limit]:
    """The limits that do not hold; an attribute that is not there holds none, a request only until its effects are there."""
    good = (Outcome.PASS, Outcome.MARGINAL)
    wrong = {name: limit for name, limit in wanted.items() if limit.judge(current.get(name)) not in good}
    return without_done(wrong, current, wanted)


def _mistake(name: str, target: Value | None, current: Mapping[str, Value | None], registry: Registry) -> str:
    """What this BIOS does not know of what the platform file asks for, in any state; nothing where it knows name and value."""
    attribute = registry.attributes.get(name)
    if attribute is None:
        if name in current or not registry.attributes:
            return ""
        near = nearest(name, registry.attributes)
        return f"this BIOS has no attribute {name}{f'; did you mean {near!r}?' if near else ''}"
    if target is None:
        choices = f" of {', '.join(attribute.choices)}" if attribute.choices else ""
        return f"this BIOS takes no such value{choices}"
    objection = attribute.objection(target)
    return f"it {objection}" if objection else ""


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is most like ``name``, the same but for its capitals first; empty where none is near. Never a guess."""
    same = [each for each in known if each.lower() == name.lower()]
    return (same or get_close_matches(name, known, n=1) or [""])[0]


def _unshown(name: str, target: Value | None, current: Mapping[str, Value | None], registry: Registry) -> str:
    """Why it must not be written whatever the rules say: not shown by ``/Bios``, or nobody can tell whether it takes the value."""
    if name not in current:
        return "this BIOS has no such attribute, or does not show it"
    if name in registry.attributes:
        return ""
    now = current[name]
    if target is None or type(target) is not type(now):
        return f"no registry tells its type, it is {now!r} now, and {target!r} is of another kind"
    return ""


def _warnings(wanted: Mapping[str, Value], current: Mapping[str, Value | None], registry: Registry) -> Iterator[str]:
    """What the registry leaves open of what is to be written."""
    missing = [name for name in wanted if name not in registry.attributes]
    if missing and not registry.attributes:
        yield f"the BIOS has no attribute registry that can be read: {', '.join(missing)} cannot be checked before it is written"
    elif missing:
        yield f"the registry has no entry for {', '.join(missing)}: only the kind of the present value was checked"
    if hidden := [name for name in wanted if name in registry.attributes and registry.attributes[name].is_hidden]:
        yield f"the setup menu hides {', '.join(hidden)}: it is shown over Redfish, and may be refused"
    dangling = {
        condition.attribute
        for rule in registry.rules
        if rule.target in wanted
        for condition in rule.conditions
        if condition.attribute not in current
    }
    if dangling:
        yield f"rules about these settings ask for {', '.join(sorted(dangling))}, not shown by this BIOS: they were passed over"


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
