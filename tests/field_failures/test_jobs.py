"""Jobs that are not made, not found, not run or not what they say: failures 1 to 7 and 19 to 23, 28."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

from harness.errors import Blame
from harness.procedures.bios.preflight import JOBS, PENDING
from harness.procedures.bios.story import BEFORE_RESET, RESULT, STATE
from harness.procedures.handover import NOTHING

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


def holds(story):
    return {name: story.values[name] for name in WANTED}


def assert_done(machine, story):
    """Everything is in effect, by one PATCH and one reset, and nothing of it is left."""
    assert story.stopped == ""
    assert (machine.patches, len(machine.resets)) == (1, 1)
    assert {name: machine.current[name] for name in WANTED} == WANTED == holds(story)
    assert (machine.pending, machine.open_jobs) == ({}, [])
    assert machine.handover.line() == NOTHING


def assert_nothing_left(machine):
    """Nothing of ours is pending or queued, and the hand-over says so."""
    assert machine.pending == {}
    assert "BIOSConfiguration" not in machine.open_jobs
    assert machine.handover.line() == NOTHING


def test_01_a_job_made_by_the_patch_is_adopted_although_it_says_sys011(failing):
    machine = failing("sys011-after-applytime")
    story = machine.bring_bios()
    assert_done(machine, story)
    assert machine.jobs_asked_for == 0


def test_02_nothing_is_restarted_for_a_job_that_nobody_ever_sees(failing):
    machine = failing("job-never-made")
    story = machine.bring_bios()
    assert story.stopped_by == BEFORE_RESET
    assert (machine.patches, machine.resets) == (1, [])
    assert_nothing_left(machine)


def test_03_no_reset_is_sent_before_a_bios_job_is_scheduled(failing):
    machine = failing("applytime-ignored")
    story = machine.bring_bios()
    assert machine.patches == 1
    assert machine.lane.queued_at_reset in ([], [["BIOSConfiguration Scheduled"]])
    assert story.stopped_by == BEFORE_RESET
    assert "no job" in story.stopped
    assert "run `bringup bios apply` again: it finds them pending, makes only their job" in story.stopped
    assert_nothing_left(machine)


def test_03_what_the_stop_says_to_do_schedules_the_values_and_goes_on(failing):
    machine = failing("applytime-ignored")
    stopped = machine.bring_bios().stopped
    place, values = re.search(r"\(PATCH (\S+) (\{.*\})\)", stopped).groups()
    machine.idrac.redfish.act("PATCH", place, json.loads(values))
    story = machine.bring_bios()
    assert story.stopped == ""
    assert (machine.patches, machine.jobs_asked_for, len(machine.resets)) == (2, 1, 1), "one PATCH by the run, one by hand"
    assert machine.lane.queued_at_reset == [["BIOSConfiguration Scheduled"]]
    assert {name: machine.current[name] for name in WANTED} == WANTED
    assert_nothing_left(machine)


def test_03_what_somebody_staged_and_no_job_would_apply_is_scheduled_by_the_command_that_the_stop_names(failing):
    machine = failing("applytime-ignored")
    take = machine.lane.lane.ask

    def ask(question, on_line=None):
        if question.path.endswith("/BiosRegistry"):  # somebody comes after this run had looked
            machine.machine.controller.bios.stage({"ProcX2Apic": "Enabled"})
        return take(question, on_line)

    machine.lane.lane.ask = ask
    story = machine.bring_bios()
    assert (story.stopped_by, story.stop.blame, machine.patches) == (PENDING, Blame.BENCH, 0)
    file = tomllib.loads(re.search(r"\(TOML: (.*?)\)", story.stopped)[1].replace(", ", "\n"))
    machine.lane.lane.ask = take
    again = machine.wanting(**file).bring_bios()
    assert again.stopped == ""
    assert (machine.patches, machine.jobs_asked_for, len(machine.resets)) == (0, 1, 1)
    assert machine.current["ProcX2Apic"] == "Enabled"


def test_04_a_200_without_location_is_no_job_and_the_queue_is_looked_at(failing):
    machine = failing("ok-without-location")
    story = machine.bring_bios()
    assert machine.lane.queued_at_reset in ([], [["BIOSConfiguration Scheduled"]])
    asked = [question.path for question, _ in machine.lane.asked]
    if machine.patches:
        after = asked[max(number for number, (each, _) in enumerate(machine.lane.asked) if each.method == "PATCH") :]
        assert any(path.endswith("/Bios/Settings") for path in after)
        assert any("/Jobs" in path for path in after)
    if story.stopped:
        assert story.stopped_by == BEFORE_RESET
    else:
        assert {name: machine.current[name] for name in WANTED} == WANTED


def test_05_values_that_show_early_are_not_taken_for_success(failing):
    machine = failing("bios-shows-pending")
    story = machine.bring_bios()
    assert_done(machine, story)
    assert story.jobs_after == ()
    assert story.job.state == "Completed"


def test_05_pending_values_that_show_as_current_are_no_success_where_the_job_never_runs(failing):
    machine = failing("bios-shows-pending", "idrac.pr30-for-ever")
    story = machine.bring_bios()
    assert story.stopped_by == STATE
    assert holds(story) != WANTED
    assert_nothing_left(machine)


def test_06_a_job_that_is_gone_when_it_ends_is_found_in_the_other_view(failing):
    machine = failing("task-gone")
    story = machine.bring_bios()
    assert_done(machine, story)
    assert 404 in [answer.status for answer in machine.lane.answers("Oem/Dell/Jobs/") if answer is not None]
    assert machine.lane.answers("/JobService/Jobs/")


class Forgetting:
    """A lane whose iDRAC knows no job any more once it has ended, in no view."""

    def __init__(self, lane, machine):
        self._lane, self._machine = lane, machine

    def ask(self, question, on_line=None):
        answer = self._lane.ask(question, on_line)
        ended = {job.id for job in self._machine.controller.jobs.jobs if job.is_finished}
        if question.path.rpartition("/")[2] in ended:
            return replace(answer, status=404, body={"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS403"}]}})
        return answer

    def close(self):
        self._lane.close()


def test_06_the_log_tells_the_end_of_a_job_that_no_view_knows_any_more(failing):
    machine = failing("task-gone")
    machine.lane.lane = Forgetting(machine.lane.lane, machine.machine)
    story = machine.bring_bios()
    assert_done(machine, story)
    assert story.job.message_id == "JCP037"


def test_06_a_job_that_nobody_tells_of_is_no_success(failing, monkeypatch):
    machine = failing("task-gone")
    machine.lane.lane = Forgetting(machine.lane.lane, machine.machine)
    add = machine.machine.controller.log.add
    monkeypatch.setattr(
        machine.machine.controller.log, "add", lambda key, *rest, **more: None if key == "JCP037" else add(key, *rest, **more)
    )
    story = machine.bring_bios()
    assert story.stopped_by == RESULT
    assert "vanished from every view" in story.stopped


def test_07_a_job_that_stays_new_ends_the_wait_and_nothing_is_restarted(failing):
    machine = failing("job-stays-new")
    story = machine.bring_bios()
    assert (story.stopped_by, story.stop.blame) == (STATE, Blame.BENCH)
    assert "JCP024" in story.stopped
    assert machine.resets == []
    assert machine.clock.now() < 600
    assert_nothing_left(machine)


def test_19_a_reboot_that_failed_ends_in_time_and_leaves_a_clean_queue(failing):
    machine = failing("reboot-failed")
    story = machine.bring_bios()
    assert story.stopped_by == STATE
    assert len(machine.resets) == 1
    assert machine.clock.now() < 1800
    assert_nothing_left(machine)


def test_20_pr30_is_a_failure_although_the_state_says_scheduled(failing):
    machine = failing("pr30-for-ever")
    story = machine.bring_bios()
    assert story.stopped_by == STATE
    assert "PR30" in story.stopped
    assert (story.job.state, story.job.phase.value) == ("Scheduled", "failed")
    assert_nothing_left(machine)


def test_21_completed_with_a_critical_status_is_a_failure(failing):
    machine = failing("completed-critical")
    story = machine.bring_bios()
    assert story.stopped_by == RESULT
    assert "JCP052" in story.stopped
    assert (story.job.state, story.job.dmtf_status) == ("Completed", "Critical")


def test_22_no_reset_is_sent_while_somebody_elses_raid_job_would_run_at_it(failing):
    machine = failing("raid-job-beside")
    story = machine.bring_bios()
    assert story.stopped_by == JOBS
    assert machine.resets == []
    assert machine.open_jobs == ["RAIDConfiguration"]
    assert_nothing_left(machine)


def test_23_an_idrac_that_restarts_and_forgets_the_job_for_a_while_is_lived_through(failing):
    machine = failing("restart-mid-job")
    story = machine.bring_bios()
    assert_done(machine, story)
    assert len(story.losses) == 1
    assert story.losses[0].seconds > 100


def test_28_a_clock_of_the_idrac_that_jumps_changes_no_duration(failing):
    machine, straight = failing("clock-jumps"), failing("bios-shows-pending")
    story, plain = machine.bring_bios(), straight.bring_bios()
    assert_done(machine, story)
    assert [job.at for job in story.history] == [job.at for job in plain.history]
