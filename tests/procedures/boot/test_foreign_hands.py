"""Somebody else's job at the worst moments of a boot: the host is neither restarted nor switched off under it."""

from __future__ import annotations

import pytest

from harness.errors import AuthRefused
from harness.procedures.boot import bring_up
from harness.procedures.boot.story import LOOP
from harness.procedures.handover import NOTHING


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


def test_a_reset_that_was_not_sent_is_not_handed_over_as_one(lab):
    machine = lab()

    def refuse(question):
        if "ComputerSystem.Reset" in question.path:
            raise AuthRefused("the session had ended; it was not sent again")

    machine.lane.before = refuse
    with pytest.raises(AuthRefused):
        bring(machine)
    assert machine.handover.line() == NOTHING


@pytest.mark.parametrize("server", ["EnteredF2Setup", "InPOST", "SomethingNew"])
def test_a_host_that_changes_right_before_the_restart_is_not_restarted(lab, server):
    machine = lab()
    logged = []

    def change(question, answer):
        logged.append("Lclog/Entries" in question.path)
        if any(logged) and question.path.endswith("APIStatus"):
            return type(answer)(200, {}, answer.body | {"ServerStatus": server}, answer.at, answer.took)
        return answer

    machine.lane.after = change
    story = bring(machine)
    assert machine.lane.acts == []
    assert server in story.refusal
