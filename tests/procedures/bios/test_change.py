"""Changing settings for a person: conflicts, the proof of a new boot, two boots, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from harness.consent import Consent
from harness.errors import BenchError, Blame, OwnershipError, UsageMistake
from harness.limits import exactly
from harness.ports import HttpAnswer
from harness.procedures.bios.bring import look
from harness.procedures.bios.change import change_bios
from harness.procedures.bios.conflict import Conflict, parse_conflict
from harness.procedures.bios.post import forbidden, since_end
from harness.procedures.bios.preflight import JOBS
from harness.procedures.bios.story import EVENTS
from harness.procedures.handover import NOTHING, Handover

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


def is_poll(before, question):
    """A look at the job or at the host, whose state stands in two resources."""
    is_status = [each.path.endswith("GetRemoteServicesAPIStatus") for each in (before, question)]
    return "/Jobs/JID_" in question.path or is_status[1] or (is_status[0] and question.path.endswith("/System.Embedded.1"))


def test_an_apply_costs_at_most_forty_requests_beyond_polling(lab):
    machine = lab()
    change(machine, host=None)
    beyond = [question.key for before, question in pairwise(machine.lane.asked) if not is_poll(before, question)]
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


# ── whose restart it was ──────────────────────────────────────────────────────────────────────────────────────────


def restart_by_somebody(machine):
    """Somebody restarts the host as soon as our job is scheduled."""
    done = []

    def before(question):
        jobs = machine.machine.controller.jobs.jobs
        if not done and "/Jobs/JID_" in question.path and any(job.state == "Scheduled" for job in jobs):
            done.append(machine.machine.reset("ForceRestart"))

    machine.lane.before = before


def says(machine, server, *, when):
    """The BMC says ``server`` for the host's state from the moment on at which ``when`` is true of the machine."""

    def after(question, answer):
        if question.path.endswith("APIStatus") and when():
            return HttpAnswer(200, {}, answer.body | {"ServerStatus": server}, answer.at, answer.took)
        return answer

    machine.lane.after = after


def test_somebody_elses_restart_after_our_patch_is_proven_like_our_own(lab):
    machine = lab()
    restart_by_somebody(machine)
    changed = change(machine)
    assert machine.lane.resets == []
    assert changed.story.stopped == ""
    assert changed.proof[0].startswith("the Lifecycle log has 2 restarts")
    assert changed.proof[1].startswith("the operating system has a new boot id")
    assert machine.machine.status().server == "OutOfPOST"


def test_somebody_elses_restart_that_does_not_get_through_post_is_no_success(lab):
    machine = lab()
    restart_by_somebody(machine)
    says(machine, "HaltedF1/F2Prompt", when=lambda: any(job.is_finished for job in machine.machine.controller.jobs.jobs))
    changed = change(machine)
    assert machine.lane.resets == []
    assert changed.story.stop.check == EVENTS
    assert "the values are set, but POST stopped and waits for a key: HaltedF1/F2Prompt" in changed.story.stopped


def test_a_second_boot_that_turns_out_unneeded_leaves_the_first_to_be_proven(lab):
    machine = wanting(lab(), BootMode="Uefi", SecureBoot="Enabled")
    machine.machine.controller.bios.current["BootMode"] = "Bios"

    def with_it(_):
        current = machine.machine.controller.bios.current
        if current["BootMode"] == "Uefi":
            current["SecureBoot"] = "Enabled"

    machine.lane.before = with_it
    changed = change(machine, Consent(apply=True, danger=frozenset({"boot-mode", "secure-boot"})))
    assert (changed.story.stopped, changed.story.plan.is_empty, len(machine.lane.resets)) == ("", True, 1)
    assert changed.proof[0].startswith("the Lifecycle log has")
    assert machine.machine.status().server == "OutOfPOST"


def under_way(machine):
    """An earlier run staged our values, made the job and restarted the host."""
    machine.machine.controller.bios.stage({"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"})
    job = machine.machine.controller.schedule_bios_job()
    machine.machine.reset("ForceRestart")
    return job


def test_a_restart_that_an_earlier_run_asked_for_is_let_come_to_its_end(lab):
    machine = lab()
    under_way(machine)
    changed = change(machine, host=None)
    assert (changed.story.stopped, changed.story.is_settled) == ("", True)
    assert machine.lane.acts == []
    assert machine.machine.status().server == "OutOfPOST"


def test_a_restart_that_came_before_the_first_look_is_told_by_its_job(lab):
    """A job that ends after POST does, with no further restart that the log would show."""
    machine = lab()
    jobs, job = machine.machine.controller.jobs, under_way(machine)
    while jobs.find(job.id).state == "Scheduled":
        machine.clock.sleep(10)
        machine.machine.settle()

    def over_and_unlogged(question, answer):
        if question.path.endswith("APIStatus") and not jobs.find(job.id).is_finished:
            return HttpAnswer(200, {}, answer.body | {"ServerStatus": "OutOfPOST", "LCStatus": "Ready"}, answer.at, 0.1)
        if question.path.endswith("Lclog/Entries"):
            members = [entry for entry in answer.body["Members"] if "SYS1003" not in entry["MessageId"]]
            return HttpAnswer(200, {}, answer.body | {"Members": members}, answer.at, answer.took)
        return answer

    machine.lane.after = over_and_unlogged
    changed = change(machine, host=None)
    assert (changed.story.stopped, changed.story.is_resumed, machine.lane.acts) == ("", True, [])
    assert changed.proof[0].startswith(f"{job.id} BIOSConfiguration Completed")


# ── a start that does not go on ───────────────────────────────────────────────────────────────────────────────────


def test_a_halt_in_post_ends_the_wait_for_the_job_at_once(lab):
    machine = lab()
    says(machine, "HaltedF1/F2Prompt", when=lambda: bool(machine.lane.resets))
    changed = change(machine, host=None)
    assert "POST stopped and waits for a key: HaltedF1/F2Prompt" in changed.story.stopped
    assert changed.story.stop.blame is Blame.PRODUCT
    assert machine.clock.now() - changed.story.reset.at < 60


def test_a_post_that_stands_still_ends_the_wait_for_the_job(lab):
    machine = lab("idrac.memory-halt")
    changed = change(machine, host=None)
    assert "no progress in POST for 15" in changed.story.stopped
    assert changed.story.stop.blame is Blame.PRODUCT
    assert machine.open_jobs == []
    assert machine.pending == {}


def test_a_host_that_was_halted_before_may_show_it_until_it_obeys(lab):
    machine = lab()
    seen = []

    def halted():
        seen.append(machine.clock.now())
        return not machine.lane.resets or machine.clock.now() - reset_at(machine) < 20

    says(machine, "HaltedF1/F2Prompt", when=halted)
    changed = change(machine, host=None)
    assert seen
    assert changed.story.stopped == ""


def reset_at(machine):
    machine.reset_at = getattr(machine, "reset_at", None) or machine.clock.now()
    return machine.reset_at


# ── what is left, at each moment ──────────────────────────────────────────────────────────────────────────────────


def test_the_hand_over_stops_offering_to_delete_a_job_once_the_restart_is_asked_for(lab):
    machine = lab()
    lines = []
    machine.handover = Handover(lines.append)
    change(machine, host=None)
    before, after = split(lines, "a restart was asked for")
    assert any("applies at the next reboot by anyone" in line or "is to apply them" in line for line in before)
    assert after
    assert not [line for line in after if "undo: DELETE" in line]
    assert "once it has ended, set MmioAbove4Gb=Disabled" in after[0]
    assert lines[-1] == NOTHING


def split(lines, mark):
    first = next(number for number, line in enumerate(lines) if mark in line)
    return lines[:first], lines[first:]


# ── a colleague between two looks ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_colleague_stages_once_the_job_is_deleted_is_not_cleared_with_its_values(lab):
    machine = lab()
    job = foreign(machine)

    def stage_beside(question, answer):
        if question.method == "DELETE":
            machine.machine.controller.bios.stage({"ProcX2Apic": "Enabled"})
        return answer

    machine.lane.after = stage_beside
    with pytest.raises(OwnershipError, match="ProcX2Apic"):
        change(machine, conflict=Conflict("replace", job))
    assert machine.pending == {"NumLock": "Off", "ProcX2Apic": "Enabled"}
    assert not machine.lane.sent("POST", "ClearPending")
    assert "NumLock" in machine.handover.line()


def test_waiting_does_not_wait_for_the_job_that_an_earlier_run_left(lab):
    machine = lab()
    wanted = look(machine.idrac.located(), machine.platform, machine.apply).plan.values
    machine.machine.controller.bios.stage(wanted)
    left = machine.machine.controller.schedule_bios_job()
    changed = change(machine, conflict=parse_conflict("wait"), host=None)
    assert (changed.story.stopped, changed.story.job_id, changed.story.patches) == ("", left.id, 0)


def test_a_queue_that_somebody_took_first_is_the_bench_s_and_says_whose_job_it_is(lab):
    machine = lab()
    taken = []

    def race(question, answer):
        if question.method != "PATCH":
            return answer
        machine.machine.controller.bios.clear()
        for job in machine.machine.controller.jobs.jobs:
            machine.machine.controller.jobs.remove(job.id)
        machine.machine.controller.bios.stage({"NumLock": "Off"})
        taken.append(machine.machine.controller.jobs.add("BIOSConfiguration", "somebody's").id)
        body = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS011", "Severity": "Warning"}]}}
        return HttpAnswer(400, {}, body, answer.at, 0.1)

    machine.lane.after = race
    changed = change(machine, host=None)
    assert changed.story.stop.blame is Blame.BENCH
    assert taken[0] in changed.story.stopped
    assert machine.open_jobs == taken


@pytest.mark.parametrize("body", [[], "text", None, {"RegistryEntries": []}, {"RegistryEntries": {"Attributes": 3}}])
def test_a_registry_that_is_rubbish_degrades_with_a_warning(lab, body):
    machine = lab()

    def rubbish(question, answer):
        return answer if "BiosRegistry" not in question.path else HttpAnswer(200, {}, body, answer.at, answer.took)

    machine.lane.after = rubbish
    changed = change(machine, host=None)
    assert changed.story.stopped == ""
    assert "registry" in changed.story.plan.warnings[0]
    assert machine.machine.controller.bios.current["MmioAbove4Gb"] == "Enabled"


def test_a_power_cycle_of_the_whole_machine_has_to_be_named(lab):
    machine = wanting(lab(), PowerCycleRequest="FullPowerCycle")
    machine.machine.controller.bios.current["PowerCycleRequest"] = "None"
    changed = change(machine, host=None)
    assert "--danger power-cycle" in changed.story.stopped
    assert machine.lane.acts == []


# ── what the first start with the new settings logs ───────────────────────────────────────────────────────────────


def test_what_the_start_with_the_old_settings_logged_is_not_held_against_the_new_ones(lab):
    machine = lab()
    story = change(machine, host=None).story
    assert "UEFI0134" in [entry.message_id for entry in story.log]
    assert "UEFI0134" not in [entry.message_id for entry in since_end(story)]
    assert forbidden(story, {"UEFI0134", "UEFI0080"}) == ()


def test_what_the_start_with_the_new_settings_logged_is_found(lab):
    machine = lab("bios.events")
    story = change(machine, host=None).story
    assert story.stopped == ""
    assert [entry.message_id for entry in forbidden(story, machine.platform.bios.forbidden_events)] == ["UEFI0080"]


def test_without_the_end_of_the_job_in_the_log_the_last_restart_counts(lab):
    machine = lab("bios.events")
    story = change(machine, host=None).story
    untold = replace(story, log=tuple(entry for entry in story.log if story.job_id not in entry.arguments))
    assert [entry.message_id for entry in forbidden(untold, {"UEFI0080", "UEFI0134"})] == ["UEFI0080"]


def test_each_of_two_boots_is_judged(lab):
    machine = wanting(lab("bios.events"), BootMode="Uefi", SecureBoot="Enabled")
    machine.machine.controller.bios.current["BootMode"] = "Bios"
    story = change(machine, Consent(apply=True, danger=frozenset({"boot-mode", "secure-boot"})), host=None).story
    assert [entry.message_id for entry in forbidden(story, {"UEFI0080"})] == ["UEFI0080"] * 2


# ── what a person is told before anything is written ──────────────────────────────────────────────────────────────


def test_a_platform_of_another_system_is_warned_about(lab):
    machine = lab()
    machine.platform = machine.platform.model_copy(update={"system": "PowerEdge R750"})
    story = look(machine.idrac.located(), machine.platform, machine.apply)
    assert story.plan.warnings[0].startswith("platform lqd8360 is for a PowerEdge R750, and this is a PowerEdge R640")
    machine.platform = machine.platform.model_copy(update={"system": "PowerEdge R640"})
    assert look(machine.idrac.located(), machine.platform, machine.apply).plan.warnings == ()


def test_values_that_somebody_staged_come_with_the_way_to_schedule_just_them(lab):
    machine = lab()
    machine.machine.controller.bios.stage({"NumLock": "Off"})
    stopped = change(machine, host=None).story.stopped
    assert '(TOML: NumLock = "Off") and run `bringup bios apply --attributes FILE`' in stopped
    scheduled = change(wanting(machine, NumLock="Off"), host=None).story
    assert (scheduled.stopped, scheduled.patches) == ("", 0)
    assert machine.machine.controller.bios.current["NumLock"] == "Off"


def test_a_password_that_somebody_staged_is_offered_in_no_file(lab):
    machine = lab()
    machine.machine.controller.bios.pending["SetupPassword"] = "hunter2"
    stopped = change(machine, host=None).story.stopped
    assert "TOML" not in stopped
    assert "by whoever staged it alone" in stopped
