"""Somebody else's job at the worst moments of a boot: the host is neither restarted nor switched off under it."""

from __future__ import annotations

import pytest

from harness.procedures.boot import bring_up
from harness.procedures.boot.story import LOOP


def bring(machine, **more):
    handles = {"host": machine.host, "console": machine.console} | more
    return bring_up(
        machine.idrac,
        handles["host"],
        handles["console"],
        machine.platform,
        machine.apply,
        machine.handover,
        expected_tag=machine.tag,
    )


def add_job(machine, state):
    return machine.machine.controller.jobs.add("FirmwareUpdate", "update", state=state)


@pytest.mark.parametrize("state", ["Scheduled", "Running", "New"])
def test_a_job_that_appears_after_the_first_look_forbids_the_restart(lab, state):
    machine = lab()
    made = []

    def interfere(question, answer):
        if "Lclog" in question.path and not made:
            made.append(add_job(machine, state))
        return answer

    machine.lane.after = interfere
    story = bring(machine)
    assert made
    assert machine.lane.acts == []
    assert made[0].id in story.refusal


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_looping_host_is_not_switched_off_while_a_job_is_at_work_or_that_cannot_be_told(lab, is_readable):
    machine = lab("boot.loop")
    made = []

    def interfere(question, answer):
        if machine.lane.resets and not made:
            made.append(add_job(machine, "Running"))
        if made and "/Jobs" in question.path and not is_readable:
            return type(answer)(200, {}, {"Name": "Job Queue"}, answer.at, answer.took)
        return answer

    machine.lane.after = interfere
    story = bring(machine)
    assert story.stopped_by == LOOP
    assert machine.lane.resets == ["ForceRestart"]
    assert "hands are needed" in story.rescue
    assert ("is at work" if is_readable else "cannot be told") in machine.handover.line()
