"""The plan as a page for a person: what would change, in what order, what stands against it, what could go wrong. Pure.

what would change ─▶ why in that order ─▶ what the BIOS changes itself ─▶ what the registry forbids ─▶ dangers to name
                  ─▶ what stands in the way on the machine ─▶ boots and resets ─▶ risks ─▶ the way back
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.platform import Boot
from harness.procedures.bios.plan import Plan
from harness.procedures.bios.preflight import judge
from harness.procedures.bios.stage import ONE_STEP
from harness.procedures.bios.story import BiosStory
from harness.procedures.stop import Stop
from harness.units import duration


def outline(story: BiosStory, limits: Boot, *, has_fabric: bool) -> list[str]:
    """The page, a line an entry; a story of a mere look with everything that stands against writing (``look(every=True)``)."""
    plan = story.plan
    stops = judge(story.preflight, plan.values, writes=not plan.is_empty)
    if plan.is_empty:
        yields = ["nothing would change: every setting is as wanted, and applying would send no write"]
        return [*yields, *_section("all the same", (f"{stop.check}: {_first(stop)}" for stop in stops))]
    lines: list[str] = []
    if plan.is_locked_down:
        lines.append("nothing can change: system lockdown mode is on. Without it this would hold:")
    if plan.changes:
        lines += _section(f"would change ({_size(plan)})", _changes(plan))
    lines += _section("depends on", iter(plan.needs))
    lines += _section(
        "the BIOS itself would change", (f"{n} -> {v}, because {plan.because.get(n)}" for n, v in plan.forced.items())
    )
    lines += _section("the BIOS forbids", _gaps(plan))
    lines += _section("must be named", _dangers(plan))
    lines += _section("cannot be judged", iter(plan.warnings))
    lines += _section("stands in the way", (f"{stop.check}: {_first(stop)}" for stop in stops))
    if plan.changes:
        lines += _section("restarts", _restarts(story, limits))
        lines += _section("could go wrong", _risks(story))
        lines += _section("ways back", _rescue(plan, has_fabric=has_fabric))
    return [*lines, _verdict(plan, stops)]


def _section(title: str, entries: Iterator[str]) -> list[str]:
    listed = [f"  {entry}" for entry in entries]
    return [f"{title}:", *listed] if listed else []


def _size(plan: Plan) -> str:
    count = len(plan.changes)
    return f"{count} setting{'s' * (count != 1)}, {len(plan.gaps)} that cannot be changed" if plan.gaps else f"{count} of them"


def _changes(plan: Plan) -> Iterator[str]:
    steps = plan.steps or (plan.changes,)
    for number, step in enumerate(steps, 1):
        for change in step:
            when = f"boot {number}: " if len(steps) > 1 else ""
            yield f"{when}{change.attribute}: {change.current} -> {change.target}   (wanted: {change.limit})"


def _gaps(plan: Plan) -> Iterator[str]:
    for gap in plan.gaps:
        yield f"{gap.attribute} = {gap.limit}: {gap.reason}" if gap.is_mistake else str(gap)


def _dangers(plan: Plan) -> Iterator[str]:
    for change, danger in plan.refused:
        by_itself = " (by the BIOS itself)" if change.attribute in plan.forced else ""
        yield f"--danger {danger.name}: {change}{by_itself}: {danger.why}"


def _restarts(story: BiosStory, limits: Boot) -> Iterator[str]:
    boots = max(1, len(story.plan.steps))
    how = "one PATCH with OnReset makes the job" if ONE_STEP in story.before.apply_times else "a PATCH, then a job of its own"
    yield f"{boots} by us ({how}{', for each boot' * (boots > 1)}), and up to {limits.extra_resets} more by each BIOS job itself"
    yield f"a start may take {duration(limits.within)}; {duration(limits.no_progress)} without a new POST stage counts as stuck"


def _risks(story: BiosStory) -> Iterator[str]:
    plan = story.plan
    yield from story.preflight.warnings
    yield "a job that stays Scheduled (PR30), fails at 100 % (PR31) or succeeds without effect: then what is ours is taken back"
    yield "a start that halts, loops (UEFI0256) or does not end: then no BIOS job can put the old values back"
    if len(plan.steps) > 1:
        yield "the first boot passes and the second change is refused: the machine stays between the two"
    for change, danger in plan.refused:
        yield f"{change.attribute}: {danger.why}"


def _rescue(plan: Plan, *, has_fabric: bool) -> Iterator[str]:
    old = " ".join(f"{change.attribute}={change.current}" for change in plan.changes)
    yield f"where the host can start: put back {old} (`bringup bios export` first keeps all of them)"
    detach = "detaches the GPUs through the fabric" if has_fabric else "needs hands to power the expansion chassis down"
    yield f"where it cannot: `bringup rescue` saves evidence, switches off, {detach}, starts bare"


def _verdict(plan: Plan, stops: Sequence[Stop]) -> str:
    if plan.gaps:
        return "result: nothing would be written, because a part of it cannot be"
    if plan.refused:
        return "result: nothing would be written until every danger is named"
    if stops:
        return f"result: nothing would be written as the machine stands ({stops[0].check})"
    return "result: can be applied"


def _first(stop: Stop) -> str:
    return stop.text.splitlines()[0]
