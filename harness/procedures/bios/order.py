"""In which order settings must be written: one request where possible, two boots where one locks or unlocks another. Pure.

all in one request ─┬─ nothing locked, nothing forced away ──────────────── one step
                    └─ something is ─┬─ without what is locked ──┐
                                     └─ without what locks it ───┴─ one step, a boot, then the rest
                                                                    (no way in two boots: blocked, with the reason)

Two boots are for real: SecureBoot=Enabled makes BootMode read-only and BootMode=Bios makes SecureBoot read-only, so from Bios to
Uefi with Secure Boot it is BootMode, a boot, SecureBoot (rules of the registry of an R750, NVIDIA/libredfish tests/mockups/dell).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.devices.bios_registry import Registry, Rule, Values
from harness.limits import Value

MOST = 2
"""Boots that one plan may take; what needs more is for a person to think about."""


@dataclass(frozen=True)
class Order:
    """``steps`` are names, one request each. ``blocked`` says why a name cannot be written at all.

    ``forced`` has for each setting that the BIOS changes by itself its value at the end and why; ``needs`` says what waits
    for what.
    """

    steps: tuple[tuple[str, ...], ...] = ()
    blocked: Mapping[str, str] = field(default_factory=dict)
    forced: Mapping[str, tuple[Value, str]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def arrange(targets: Mapping[str, Value], before: Values, registry: Registry) -> Order:
    """Order ``targets`` from ``before`` on. Names that the registry does not know are under no rule."""
    rules = registry.freed(before)
    steps = _sequence(targets, before, rules, MOST)
    if steps is None:
        return Order(blocked=_blocked(targets, before, rules), forced=_forced((tuple(targets),), targets, before, rules))
    warnings = () if _is_settled(steps, targets, before, rules) else ("its rules chase each other, so their end cannot be told",)
    needs = tuple(_needs(steps, before, rules))
    return Order(steps, {}, _forced(steps, targets, before, rules), needs, warnings)


def _sequence(left: Mapping[str, Value], before: Values, registry: Registry, boots: int) -> tuple[tuple[str, ...], ...] | None:
    """The steps that bring ``left`` about in at most so many boots, None where there are none."""
    if not left:
        return ()
    if boots == 0:
        return None
    for request in _requests(left, before, registry):
        after = registry.settle(before, request).values
        rest = {name: value for name, value in left.items() if after.get(name) != value}
        if len(rest) == len(left):
            continue
        others = _sequence(rest, after, registry, boots - 1)
        if others is not None and _keeps(left, request, others, before, registry):
            return (tuple(request), *others)
    return None


def _keeps(
    left: Mapping[str, Value], request: Mapping[str, Value], others: tuple[tuple[str, ...], ...], before: Values, registry: Registry
) -> bool:
    """True where no later step undoes what an earlier one has set."""
    values = registry.settle(before, request).values
    for step in others:
        values = registry.settle(values, {name: left[name] for name in step}).values
    return all(values.get(name) == value for name, value in left.items())


def _requests(left: Mapping[str, Value], before: Values, registry: Registry) -> Iterator[dict[str, Value]]:
    """The requests worth trying: everything, everything but what is locked, everything but what locks."""
    for leave_out in (_locked_ones, _lockers):
        request = dict(left)
        while request and (blocked := _blocked(request, before, registry)):
            out = leave_out(request, blocked, before, registry)
            if not out:
                break
            request = {name: value for name, value in request.items() if name not in out}
        if request and not _blocked(request, before, registry):
            yield request


def _locked_ones(_request: Mapping[str, Value], blocked: Mapping[str, str], _before: Values, _registry: Registry) -> set[str]:
    return set(blocked)


def _lockers(request: Mapping[str, Value], blocked: Mapping[str, str], before: Values, registry: Registry) -> set[str]:
    """The members of the request that the locking rules ask about, the locked ones themselves left in."""
    found: set[str] = set()
    effects = registry.settle(before, request)
    for name in blocked:
        for rule in _against(name, before, request, registry):
            asked = {condition.attribute for condition in rule.conditions}
            asked |= {cause.attribute for each in asked & set(effects.forced) for cause in effects.forced[each].conditions}
            found |= asked & set(request)
    return found - set(blocked)


def _blocked(request: Mapping[str, Value], before: Values, registry: Registry) -> dict[str, str]:
    """Why members of a request cannot be part of it; nothing of those that can."""
    direct = {**before, **request}
    effects = registry.settle(before, request)
    reasons = {name: _reason(name, value, before, direct, registry) for name, value in request.items()}
    for name in request:
        rule = registry.lock(name, effects.values)
        if not reasons[name] and rule is not None:
            reasons[name] = f"it becomes read-only by what the BIOS changes itself, because {rule.reason()}"
        if not reasons[name] and name in effects.against:
            rule = effects.against[name]
            reasons[name] = f"the BIOS itself sets it to {rule.result}, because {rule.reason()}"
    return {name: reason for name, reason in reasons.items() if reason}


def _against(name: str, before: Values, request: Mapping[str, Value], registry: Registry) -> Iterator[Rule]:
    """The rules that stand against a member of a request."""
    effects = registry.settle(before, request)
    for values in ({**before, **request}, effects.values):
        if (rule := registry.lock(name, values)) is not None:
            yield rule
    if name in effects.against:
        yield effects.against[name]


def _reason(name: str, target: Value, before: Values, after: Values, registry: Registry) -> str:
    attribute = registry.attributes.get(name)
    if attribute is None:
        return ""
    if (rule := registry.lock(name, after)) is not None:
        return f"it is read-only as things stand, because {rule.reason()}"
    if registry.is_read_only(name, before, after):
        return "it is read-only as things stand (another attribute decides, or lockdown)"
    if attribute.type == "Enumeration" and target not in (left := registry.choices(name, after)):
        return f"another attribute leaves it only {', '.join(left) or 'no value'}"
    return ""


def _forced(
    steps: tuple[tuple[str, ...], ...], targets: Mapping[str, Value], before: Values, registry: Registry
) -> dict[str, tuple[Value, str]]:
    """What the BIOS will have changed by itself at the end of all steps."""
    values: Values = before
    because: dict[str, str] = {}
    for step in steps:
        effects = registry.settle(values, {name: targets[name] for name in step})
        because |= {name: rule.reason() for name, rule in effects.forced.items()}
        values = effects.values
    found = {}
    for name, reason in because.items():
        value = values[name]
        if value is not None and value != before.get(name) and name not in targets:
            found[name] = (value, reason)
    return found


def _is_settled(steps: tuple[tuple[str, ...], ...], targets: Mapping[str, Value], before: Values, registry: Registry) -> bool:
    values = before
    for step in steps:
        effects = registry.settle(values, {name: targets[name] for name in step})
        if not effects.is_settled:
            return False
        values = effects.values
    return True


def _needs(steps: tuple[tuple[str, ...], ...], before: Values, registry: Registry) -> Iterator[str]:
    for number, step in enumerate(steps):
        for name in step:
            rule = registry.lock(name, before)
            if rule is None:
                continue
            with_it = sorted({condition.attribute for condition in rule.conditions} & set(step) - {name})
            how = (
                f"goes with {', '.join(with_it)} in one request"
                if with_it
                else f"goes after boot {number}"
                if number
                else "is free then"
            )
            yield f"{name} is read-only while {rule.reason()}: it {how}"
