"""Changing settings for a person: conflicts, the proof of a new boot, two boots, and what it costs."""

from __future__ import annotations

import pytest

from harness.consent import Consent
from harness.errors import BenchError, OwnershipError, UsageMistake
from harness.limits import exactly
from harness.procedures.bios.change import change_bios
from harness.procedures.bios.conflict import Conflict, parse_conflict
from harness.procedures.bios.preflight import JOBS
from harness.procedures.handover import NOTHING

MOST = 40


def change(machine, consent=None, **more):
    more.setdefault("host", machine.host)
    return change_bios(
        machine.idrac, machine.platform, consent or machine.apply, machine.handover, expected_tag=machine.tag, **more
    )


def wanting(machine, **attributes):
    wanted = {name: exactly(value) for name, value in attributes.items()}
    bios = machine.platform.bios.model_copy(update={"attributes": wanted})
    machine.platform = machine.platform.model_copy(update={"bios": bios})
    return machine


def test_it_ends_with_a_new_boot_that_log_and_operating_system_show(lab):
    machine = lab()
    changed = change(machine)
    assert changed.story.stopped == ""
    log, system = changed.proof
    assert log.startswith("the Lifecycle log has 2 restarts, the last SYS1003")
    assert system == f"the operating system has a new boot id, {machine.machine.boot_id}"
    assert machine.machine.status().server == "OutOfPOST"
    assert (machine.pending, machine.open_jobs) == ({}, [])
    assert machine.handover.line() == NOTHING


def test_what_is_as_wanted_sends_no_write_at_all(lab):
    machine = lab()
    change(machine)
    machine.lane.asked.clear()
    changed = change(machine)
    assert changed.story.plan.is_empty
    assert machine.lane.acts == []
    assert len(machine.lane.asked) < 30


def test_an_apply_costs_at_most_forty_requests_beyond_polling(lab):
    machine = lab()
    change(machine, host=None)
    polls = ("/Jobs/JID_", "GetRemoteServicesAPIStatus")
    beyond = [question.key for question in machine.lane.asked if not any(poll in question.path for poll in polls)]
    assert len(machine.lane.sent("PATCH")) == 1
    assert len(beyond) <= MOST, beyond


def test_without_a_restart_the_job_is_left_and_the_hand_over_says_how_to_undo_it(lab):
    machine = lab()
    changed = change(machine, restarts=False)
    assert changed.story.stop is None
    assert machine.lane.resets == []
    (job,) = machine.open_jobs
    line = machine.handover.line()
    assert f"{job} Scheduled: applies at the next reboot by anyone; undo: DELETE " in line
    assert "ClearPending" in line
    assert machine.pending == changed.story.plan.values


def test_two_settings_that_lock_each_other_take_two_boots(lab):
    machine = wanting(lab(), BootMode="Uefi", SecureBoot="Enabled")
    machine.machine.controller.bios.current["BootMode"] = "Bios"
    changed = change(machine, Consent(apply=True, danger=frozenset({"boot-mode", "secure-boot"})), host=None)
    assert changed.story.stopped == ""
    assert [patch.body["Attributes"] for patch in machine.lane.sent("PATCH")] == [{"BootMode": "Uefi"}, {"SecureBoot": "Enabled"}]
    assert len(machine.lane.resets) == 2
    assert [list(story.plan.values) for story in (*changed.story.earlier, changed.story)] == [["BootMode"], ["SecureBoot"]]
    current = machine.machine.controller.bios.current
    assert (current["BootMode"], current["SecureBoot"]) == ("Uefi", "Enabled")
    assert machine.handover.line() == NOTHING


def test_a_registry_that_cannot_be_read_degrades_with_a_warning(lab):
    machine = lab()

    def broken(question, answer):
        return answer if "BiosRegistry" not in question.path else type(answer)(404, {}, None, answer.at, answer.took)

    machine.lane.after = broken
    changed = change(machine, host=None)
    assert changed.story.stopped == ""
    assert "registry cannot be read" in changed.story.plan.warnings[0]
    assert machine.machine.controller.bios.current["MmioAbove4Gb"] == "Enabled"


def foreign(machine, kind="BIOSConfiguration"):
    controller = machine.machine.controller
    if kind == "BIOSConfiguration":
        controller.bios.stage({"NumLock": "Off"})
    return controller.jobs.add(kind, "Configure: somebody's").id


def test_a_foreign_job_is_refused_unless_told_otherwise(lab):
    machine = lab()
    job = foreign(machine)
    changed = change(machine, conflict=Conflict())
    assert changed.story.stopped_by == JOBS
    assert machine.lane.acts == []
    assert machine.open_jobs == [job]


def test_the_named_job_is_replaced_with_its_values(lab):
    machine = lab()
    job = foreign(machine)
    changed = change(machine, conflict=parse_conflict(f"replace {job}"))
    assert changed.story.stopped == ""
    current = machine.machine.controller.bios.current
    assert (current["NumLock"], current["MmioAbove4Gb"]) == ("On", "Enabled")
    assert f"{job} was deleted on request; it was to apply NumLock=Off" in machine.handover.line()


@pytest.mark.parametrize(("kind", "named"), [("BIOSConfiguration", "JID_1"), ("RAIDConfiguration", "")])
def test_only_a_waiting_bios_job_of_that_name_is_replaced(lab, kind, named):
    machine = lab()
    job = foreign(machine, kind)
    with pytest.raises(OwnershipError, match="nothing was deleted"):
        change(machine, conflict=Conflict("replace", named or job))
    assert machine.lane.acts == []


def test_a_job_at_work_is_never_replaced(lab):
    machine = lab()
    job = foreign(machine)
    machine.machine.controller.jobs.change(job, state="Running", message_id="PR20", percent=20)
    with pytest.raises(OwnershipError, match="must not be cut off"):
        change(machine, conflict=Conflict("replace", job))
    assert machine.lane.acts == []


def test_others_are_waited_for(lab):
    machine = lab()
    job = foreign(machine)
    controller = machine.machine.controller

    def gone(_):
        if machine.clock.now() > 600 and controller.jobs.find(job) is not None:
            controller.jobs.remove(job)
            controller.bios.clear()

    machine.lane.before = gone
    changed = change(machine, conflict=parse_conflict("wait"))
    assert changed.story.stopped == ""
    assert machine.lane.acts[0].method == "PATCH"
    assert machine.clock.now() > 600


def test_a_job_that_never_goes_ends_the_waiting_as_the_bench_s(lab):
    machine = lab()
    job = foreign(machine)
    with pytest.raises(BenchError, match=f"{job} .*nothing was written"):
        change(machine, conflict=parse_conflict("wait"))
    assert machine.lane.acts == []


@pytest.mark.parametrize("text", ["", "force", "replace", "replace 12", "replace JID_1 JID_2"])
def test_a_conflict_that_names_nothing_is_a_mistake(text):
    with pytest.raises(UsageMistake, match="--on-conflict takes"):
        parse_conflict(text)
