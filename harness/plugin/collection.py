"""From collected tests to ordered cases: which check, which stage, which slot."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from harness.errors import UsageMistake
from harness.limits import exactly
from harness.platform import Link, Slot, Uplink
from harness.plugin.case import Case
from harness.plugin.run import CASE, Run
from harness.procedures.stages import STAGES

OWN = "own"
"""The stage of checks that belong to none of the seven; they run after them."""

_ID = re.compile(r"[a-z0-9]+(\.[a-z0-9][a-z0-9_-]*)+")

NO_UPLINK = Uplink(name="none", path="pci0000:00/00.0", link=Link(generation=exactly(0), width=exactly(0)))
"""Stands for the uplinks of a platform that has none: what asks for one has nothing to judge."""

MARKERS = (
    "check(id): the stable id of a check, <stage>.<name>",
    "vital: when it fails, nothing that depends on the stage makes sense",
    "presence: when it fails, its part is missing for everything after it",
    "closing: runs after all stages",
)


def parametrise(metafunc: pytest.Metafunc, run: Run) -> None:
    """One case a slot or uplink, from what the platform expects, never from what is found."""
    if "slot" in metafunc.fixturenames:
        metafunc.parametrize("slot", run.slots, ids=[slot.name for slot in run.slots])
    if "uplink" in metafunc.fixturenames:
        uplinks = uplinks_of(run) or (NO_UPLINK,)
        metafunc.parametrize("uplink", uplinks, ids=[uplink.name for uplink in uplinks])


def uplinks_of(run: Run) -> tuple[Uplink, ...]:
    """The uplinks that lead to populated slots."""
    used = {slot.uplink for slot in run.slots}
    return tuple(uplink for uplink in run.platform.uplinks if uplink.name in used)


def order(items: list[pytest.Item], run: Run) -> list[pytest.Item]:
    """Give every item its case, keep the selected stages in order, and return what was left out.

    Raises UsageMistake where two checks share an id, a check names no known stage, a suite that was named has no test, or
    a waiver is about none of them.
    """
    for suite in run.settings.suites:
        if not any(item.path.is_relative_to(suite.resolve()) for item in items):
            raise UsageMistake(f"no test found in {suite}: files are named test_*.py and functions test_*")
    for item in items:
        item.stash[CASE] = _case_of(item, run)
    _refuse_doubles(items)
    if run.waiving is not None:
        run.waiving.waivers.check_names(((case.id, case.check) for case in (item.stash[CASE] for item in items)), run.platform.name)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        stage = item.stash[CASE].stage
        wanted = stage == OWN or (stage in run.stages and stage not in run.not_run)
        (kept if wanted else left_out).append(item)
    items[:] = sorted(kept, key=_place)
    return left_out


def _place(item: pytest.Item) -> tuple[bool, int]:
    stage = item.stash[CASE].stage
    return item.get_closest_marker("closing") is not None, (*STAGES, OWN).index(stage)


def _case_of(item: pytest.Item, run: Run) -> Case:
    check = _check_of(item)
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    return Case(
        check=check,
        stage=check.split(".", 1)[0],
        title=_title(item),
        param="" if callspec is None else callspec.id,
        parts=_parts_of(params.values(), run.slots),
        has_nothing=NO_UPLINK in params.values(),
        is_vital=item.get_closest_marker("vital") is not None,
        is_presence=item.get_closest_marker("presence") is not None,
    )


def _check_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("check")
    name = getattr(item, "originalname", item.name) or item.name
    if marker is None:
        return f"{OWN}.{item.path.stem.removeprefix('test_')}.{name.removeprefix('test_')}"
    check = marker.args[0] if len(marker.args) == 1 else None
    if not isinstance(check, str) or not _ID.fullmatch(check) or check.split(".", 1)[0] not in (*STAGES, OWN):
        stages = ", ".join(STAGES)
        raise UsageMistake(
            f"{item.path.name}::{name}: check takes one id, <stage>.<name> in lower case, digits and dashes, not {check!r}; "
            f"the stages are {stages}, and {OWN} for a check that belongs to none"
        )
    return check


def _refuse_doubles(items: Sequence[pytest.Item]) -> None:
    places = defaultdict(set)
    for item in items:
        places[item.stash[CASE].check].add(item.nodeid.split("[", 1)[0])
    for check, nodes in places.items():
        if len(nodes) > 1:
            raise UsageMistake(f"check id {check!r} stands twice: {', '.join(sorted(nodes))}")


def _title(item: pytest.Item) -> str:
    documented = getattr(getattr(item, "function", None), "__doc__", None) or ""
    return documented.strip().split("\n", 1)[0]


def _parts_of(values: Iterable[object], slots: Sequence[Slot]) -> tuple[str, ...]:
    for value in values:
        if isinstance(value, Slot):
            return (value.name,)
        if isinstance(value, Uplink):
            return tuple(slot.name for slot in slots if slot.uplink == value.name)
    return ()
