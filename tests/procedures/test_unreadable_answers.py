"""Every answer of a bring-up spoiled, one at a time: nothing unforeseen is raised, nothing is written on what could not be read,
and the session ends. An answer that cannot be read is neither an empty one nor a free machine.

    good run ─▶ every distinct answer ─▶ each spoiled in each way, from its first time on ─▶ judged
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.errors import BringupError
from harness.ports import HttpAnswer
from harness.procedures.bios import bring_bios
from harness.procedures.boot import bring_up
from harness.procedures.contact import make_contact

WHOLE: dict[str, tuple[int, Any]] = {
    "HTML": (200, "<html><body>busy</body></html>"),
    "nothing": (200, None),
    "an empty object": (200, {}),
    "a list": (200, [1, 2]),
    "a number": (200, 7),
    "an error with status 200": (200, {"error": {"@Message.ExtendedInfo": [{"MessageId": "SYS446", "Severity": "Critical"}]}}),
    "an odd error": (500, {"error": {"@Message.ExtendedInfo": {"MessageId": 5, "MessageArgs": None}}}),
    "a bad request": (400, None),
    "not found": (404, "gone"),
    "cut off": (200, '{"@odata.id": "/redfish/v1/Sys'),
}
"""Ways to spoil an answer as a whole. JSON that is cut off comes from a lane as text."""

PARTS: dict[str, Any] = {"missing": ..., "null": None, "text": "odd", "a number": 7, "a list": [5, None], "an object": {"odd": [1]}}
"""Ways to spoil one value in it."""

BIOS_ONLY = {
    "GET /redfish/v1/Systems/System.Embedded.1/Bios": (("Attributes",),),
    "GET /redfish/v1/Systems/System.Embedded.1/Bios/Settings": (("Attributes",),),
    "GET /redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/iDRAC.Embedded.1": (("Attributes",),),
}
"""The reads without which no setting may be written, and what they must tell. A restart alone applies nothing without a job."""

ALWAYS = {
    "GET /redfish/v1/Systems/System.Embedded.1": (("SKU",), ("PowerState",)),
    "GET /redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/Jobs?$expand=*($levels=1)": (("Members",),),
    "POST /redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellLCService/Actions/DellLCService.GetRemoteServicesAPIStatus": (
        ("LCStatus",),
        ("ServerStatus",),
    ),
}
"""The reads without which nothing may be written at all, and what they must tell."""


def paths(body: Any, depth: int) -> Iterator[tuple[str | int, ...]]:
    """The way to each value, down to ``depth``; of a list the first entry, of a big table the first few."""
    if depth == 0:
        return
    items: list[tuple[Any, Any]] = []
    if isinstance(body, dict):
        items = list(body.items()) if len(body) < 40 else list(body.items())[:4]
    elif isinstance(body, list):
        items = list(enumerate(body[:1]))
    for key, value in items:
        yield (key,)
        yield from ((key, *rest) for rest in paths(value, depth - 1))


def spoil(body: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of ``body`` with the value at ``path`` replaced; ``...`` takes it away."""
    copy = json.loads(json.dumps(body))
    at = copy
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return copy


def everything(machine: Any) -> tuple[str, list[str]]:
    """Contact, BIOS and boot, as a run does them; the errors that were raised by name."""
    tag, errors, stopped = machine.tag, [], ""
    for step in (
        lambda: make_contact(machine.idrac, tag).check,
        lambda: bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=tag).stopped,
        lambda: (
            bring_up(
                machine.idrac, machine.host, machine.console, machine.platform, machine.apply, machine.handover, expected_tag=tag
            ).stopped
        ),
    ):
        try:
            stopped += step()
        except BringupError as error:
            errors.append(str(error))
    machine.lane.close()
    return stopped, errors


@pytest.fixture(scope="module")
def answers() -> Callable[[Any], dict[str, Any]]:
    """The last body by question of a run in which all is well."""
    seen: dict[str, Any] = {}

    def collect(machine: Any) -> dict[str, Any]:
        if not seen:
            machine.lane.after = lambda question, answer: (seen.setdefault(question.key, answer.body) and answer) or answer
            everything(machine)
        return seen

    return collect


def cases(bodies: dict[str, Any]) -> list[tuple[str, str, int, Any]]:
    found = []
    for key, body in bodies.items():
        found += [(key, name, status, spoilt) for name, (status, spoilt) in WHOLE.items()]
        for path in paths(body, 4):
            found += [(key, f"{'.'.join(map(str, path))} {name}", 200, spoil(body, path, value)) for name, value in PARTS.items()]
    return found


def judge(lab: Any, key: str, status: int, body: Any, *, once: bool) -> Any:
    """Run everything with one answer spoiled, for good or once; what must hold however it ends."""
    machine = lab()
    left = [1 if once else 1_000_000]

    def tamper(question: Any, answer: HttpAnswer) -> HttpAnswer:
        if question.key == key and left[0] > 0:
            left[0] -= 1
            return HttpAnswer(status, answer.headers, body, answer.at, answer.took)
        return answer

    machine.lane.after = tamper
    everything(machine)
    assert machine.sessions == 0
    assert all(question.path.startswith("/") and "//" not in question.path for question in machine.lane.asked)
    assert len(machine.lane.sent("PATCH")) <= 1
    return machine


@pytest.mark.parametrize("name", WHOLE)
def test_a_safety_read_that_says_nothing_lets_nothing_be_written(lab, name):
    status, body = WHOLE[name]
    for key in (*BIOS_ONLY, *ALWAYS):
        machine = judge(lab, key, status, body, once=False)
        assert machine.lane.sent("PATCH") == [], key
        assert key in BIOS_ONLY or machine.lane.acts == [], key
        assert (machine.pending, machine.open_jobs) == ({}, []), key


@pytest.mark.parametrize("value", PARTS.values(), ids=PARTS)
def test_a_safety_read_that_lacks_what_it_must_tell_lets_nothing_be_written(lab, answers, value):
    bodies = answers(lab())
    for key, musts in (BIOS_ONLY | ALWAYS).items():
        for path in musts:
            machine = judge(lab, key, 200, spoil(bodies[key], path, value), once=False)
            is_told = (path, value) == (("LCStatus",), "odd")  # a word, if an odd one: enough for a restart, not for a setting
            is_without_lockdown = "DellAttributes" in key and isinstance(value, dict)  # as firmware that has no such mode
            assert not machine.lane.resets or key in BIOS_ONLY or is_told, (key, path)
            assert path == ("PowerState",) or is_without_lockdown or machine.lane.sent("PATCH") == [], (key, path)
            assert (machine.pending, machine.open_jobs) == ({}, []), (key, path)


@pytest.mark.parametrize("part", ["Id", "JobState", "JobType"])
@pytest.mark.parametrize("value", PARTS.values(), ids=PARTS)
def test_a_queue_with_an_unreadable_job_is_not_a_free_one(lab, part, value):
    machine = lab("bios.preflight-jobs")
    jobs = next(key for key in ALWAYS if "/Jobs" in key)

    def tamper(question, answer):
        if question.key != jobs:
            return answer
        return HttpAnswer(200, {}, spoil(answer.body, ("Members", 0, part), value), answer.at, answer.took)

    machine.lane.after = tamper
    everything(machine)
    assert machine.lane.acts == []


@pytest.mark.parametrize("once", [True, False])
def test_a_sample_of_all_spoiled_answers_raises_nothing_unforeseen_and_closes_the_session(lab, answers, once):
    every = cases(answers(lab()))
    assert len(every) > 2000
    for key, _, status, body in random.Random(4).sample(every, 40):
        judge(lab, key, status, body, once=once)


@pytest.mark.slow
@pytest.mark.parametrize("once", [True, False])
def test_no_spoiled_answer_raises_anything_unforeseen_or_leaves_a_session(lab, answers, once):
    """Every sixth of them: all take four minutes, and were tried."""
    for key, name, status, body in list(cases(answers(lab())))[int(once) :: 6]:
        try:
            judge(lab, key, status, body, once=once)
        except Exception as error:
            raise AssertionError(f"{key}: {name}") from error


@pytest.mark.parametrize("turn", ["itself", "in a circle", "on for ever"])
@pytest.mark.parametrize("what", ["Jobs?", "Lclog/Entries"])
def test_pages_that_never_end_are_one_clear_error(lab, turn, what):
    machine = lab()
    count = iter(range(10**6))

    def tamper(question, answer):
        if what not in question.path:
            return answer
        onward = {"itself": question.path, "in a circle": f"{question.path.partition('#')[0]}#{next(count) % 3}"}
        place = onward.get(turn, f"{question.path.partition('#')[0]}#{next(count)}")
        return HttpAnswer(200, {}, answer.body | {"Members@odata.nextLink": place}, answer.at, answer.took)

    machine.lane.after = tamper
    with pytest.raises(BringupError, match=r"lead (in a circle|on for ever)"):
        machine.idrac.jobs() if "Jobs" in what else machine.idrac.lc_log(0)
    assert len(machine.lane.asked) <= 1002
