from __future__ import annotations

import re

import pytest

from harness.consent import Consent
from harness.devices.jobs import Phase
from harness.errors import AuthRefused, BenchError, Blame, Unreachable
from harness.limits import exactly
from harness.ports import HttpAnswer
from harness.procedures.bios import bring_bios
from harness.procedures.bios.story import ATTRIBUTES, BEFORE_RESET, READBACK, RECONCILE, RESULT, STATE
from harness.procedures.handover import NOTHING

DIFFERING = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
SETTINGS = "Bios/Settings"


def bring(machine, consent=None, **more):
    more.setdefault("expected_tag", machine.tag)
    return bring_bios(machine.idrac, machine.platform, consent or machine.apply, machine.handover, **more)


def wanting(machine, **attributes):
    bios = machine.platform.bios.model_copy(update={"attributes": attributes})
    machine.platform = machine.platform.model_copy(update={"bios": bios})
    return machine


# ── the good way ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_differs_is_applied_with_one_patch_one_job_and_one_reset(lab):
    machine = lab()
    story = bring(machine)
    assert (story.stopped, story.stopped_by) == ("", "")
    assert story.plan.values == DIFFERING
    (patch,) = machine.lane.sent("PATCH")
    assert patch.body == {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": DIFFERING}
    assert machine.lane.resets == ["ForceRestart"]
    assert len(machine.lane.acts) == 2
    assert {name: story.values[name] for name in DIFFERING} == DIFFERING
    assert (machine.pending, machine.open_jobs, story.after.pending) == ({}, [], {})
    assert machine.handover.line() == NOTHING


def test_the_story_has_the_jobs_way_with_times(lab):
    story = bring(lab())
    phases = [job.phase for job in story.history]
    assert phases[0] is Phase.SCHEDULED
    assert phases[-1] is Phase.SUCCEEDED
    assert (story.job.state, story.job.dmtf_state, story.job.message_id) == ("Completed", "Completed", "PR19")
    assert story.first_in(Phase.SCHEDULED) < story.reset.at <= story.restarted_at < story.first_in(Phase.RUNNING)
    assert 400 < story.seconds_to(Phase.RUNNING) < 700
    assert 60 < story.seconds_at_work() < 300


def test_the_session_ends_with_the_lane(lab):
    machine = lab()
    bring(machine)
    assert machine.sessions == 1
    machine.lane.close()
    assert machine.sessions == 0


def test_a_second_run_writes_nothing(lab):
    machine = lab()
    bring(machine)
    before = len(machine.lane.acts)
    story = bring(machine)
    assert len(machine.lane.acts) == before
    assert (story.patches, story.stopped, story.plan.is_empty) == (0, "", True)


def test_without_consent_the_plan_is_told_and_nothing_is_written(lab):
    machine = lab()
    story = bring(machine, machine.look)
    assert machine.lane.acts == []
    assert (story.stopped_by, story.patches) == (ATTRIBUTES, 0)
    assert "would change MmioAbove4Gb Disabled -> Enabled, OsWatchdogTimer Enabled -> Disabled" in story.stopped
    assert "--apply" in story.stopped


def test_a_machine_that_is_off_is_switched_on(lab):
    machine = lab()
    machine.machine.reset("ForceOff")
    story = bring(machine)
    assert story.stopped == ""
    assert machine.lane.resets == ["On"]


def test_a_post_that_is_under_way_is_let_end_first(lab):
    machine = lab()
    machine.machine.reset("ForceRestart")
    story = bring(machine)
    assert story.stopped == ""
    assert story.reset.at > 500


# ── danger and gaps ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dangerous_change_writes_nothing_until_it_is_named(lab):
    machine = wanting(lab(), BootMode=exactly("Bios"), MmioAbove4Gb=exactly("Enabled"))
    story = bring(machine)
    assert machine.lane.acts == []
    assert story.stopped_by == ATTRIBUTES
    assert "--danger boot-mode" in story.stopped
    assert "--apply" not in story.stopped
    named = bring(machine, Consent(apply=True, danger=frozenset({"boot-mode"})))
    assert named.stopped == ""
    assert named.values["BootMode"] == "Bios"


def test_an_attribute_that_the_bios_does_not_show_writes_nothing(lab):
    machine = wanting(lab(), PcieBusCustomization=exactly("PcieBusCustomOpt3"), MmioAbove4Gb=exactly("Enabled"))
    story = bring(machine)
    assert machine.lane.acts == []
    assert story.stopped_by == ATTRIBUTES
    assert "cannot set PcieBusCustomization, which this BIOS does not show, to PcieBusCustomOpt3: " in story.stopped
    assert story.stop.blame is Blame.PRODUCT


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"MmioAbove4GB": exactly("Enabled")}, "did you mean 'MmioAbove4Gb'?"),
        ({"OsWatchdogTimer": exactly("Off")}, "OsWatchdogTimer = Off: it takes one of Enabled, Disabled, not 'Off'"),
    ],
)
@pytest.mark.parametrize("is_consented", [True, False])
def test_a_mistake_of_the_platform_file_is_the_benchs_and_writes_nothing(lab, wanted, says, is_consented):
    machine = wanting(lab(), **wanted)
    story = bring(machine, Consent(apply=is_consented))
    assert machine.lane.acts == []
    assert (story.stopped_by, story.stop.blame) == (ATTRIBUTES, Blame.BENCH)
    assert says in story.stopped
    assert "--apply" not in story.stopped
    with pytest.raises(BenchError):
        story.reached(ATTRIBUTES)


# ── only this machine, and only when it is free ───────────────────────────────────────────────────────────────────


def test_another_machine_is_never_written_to(lab):
    machine = lab("bmc.identity")
    with pytest.raises(BenchError, match="MODEL99, the bench pins MODEL01"):
        bring(machine)
    assert machine.lane.acts == []
    assert machine.handover.line() == NOTHING


@pytest.mark.parametrize("at", ["PATCH", "POST"])
def test_a_machine_that_is_exchanged_meanwhile_is_not_written_to(lab, at):
    machine = lab()
    stranger = {"changed": False}

    def exchange(question, answer):
        if at == "PATCH" and "BiosRegistry" in question.path:
            stranger["changed"] = True
        if at == "POST" and question.method == "PATCH":
            stranger["changed"] = True
        if stranger["changed"] and question.method == "GET" and question.path.endswith("System.Embedded.1"):
            body = answer.body | {"SKU": "STRANGE"}
            return HttpAnswer(answer.status, answer.headers, body, answer.at, answer.took)
        return answer

    machine.lane.after = exchange
    story = bring(machine)
    assert "STRANGE" in story.stopped
    assert story.stop.blame is Blame.BENCH
    assert machine.lane.resets == []
    assert len(machine.lane.acts) == (0 if at == "PATCH" else 1)
    assert (machine.handover.line() == NOTHING) == (at == "PATCH")


@pytest.mark.parametrize("check", ["bios.preflight-lockdown", "bios.preflight-lc", "bios.preflight-pending", "bios.preflight-jobs"])
def test_a_machine_that_is_not_free_is_not_written_to(lab, check):
    machine = lab(check)
    pending, jobs = machine.pending, machine.open_jobs
    story = bring(machine)
    assert machine.lane.acts == []
    assert (story.stopped_by, story.patches, story.stop.blame) == (check, 0, Blame.BENCH)
    assert (machine.pending, machine.open_jobs) == (pending, jobs)
    assert machine.handover.line() == NOTHING


def test_a_host_in_use_is_not_written_to(lab):
    class Busy:
        def observe(self, *argv, timeout=60.0):
            return "ann pts/0 2026-01-05 08:00\n" if argv == ("who",) else ""

    machine = lab()
    story = bring(machine, host=Busy())
    assert machine.lane.acts == []
    assert "ann logged in" in story.stopped


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "check", "resets"),
    [
        ("bios.reconcile", RECONCILE, 0),
        ("bios.job-before-reset", BEFORE_RESET, 0),
        ("bios.job-state", STATE, 1),
        ("bios.job-result", RESULT, 1),
        ("bios.readback", READBACK, 1),
    ],
)
def test_every_fault_stops_at_its_check_and_leaves_nothing_of_ours(lab, fault, check, resets):
    machine = lab(fault)
    story = bring(machine)
    assert story.stopped_by == check
    assert len(machine.lane.sent("PATCH")) == story.patches == 1
    assert len(machine.lane.resets) == resets
    assert (machine.pending, machine.open_jobs) == ({}, [])
    assert machine.handover.line() == NOTHING
    assert not machine.lane.sent("POST", "JobQueue")


def test_a_stuck_job_is_named_with_its_id_and_age(lab):
    story = bring(lab("bios.job-state"))
    assert story.job_id in story.stopped
    assert re.search(r"Scheduled \(PR30, 1 %\), 5\d\d s old", story.stopped)
    assert "now: MmioAbove4Gb is Disabled, wanted Enabled" in story.stopped
    assert "nothing of ours is pending or queued" in story.stopped
    assert story.restarted_at is not None


def test_a_hundred_percent_with_pr31_is_a_failure_in_both_views(lab):
    story = bring(lab("bios.job-result"))
    assert story.job.percent == 100
    assert "CompletedWithErrors (PR31, 100 %), Exception Critical in the JobService" in story.stopped


def test_a_value_that_did_not_change_is_named(lab):
    assert "OsWatchdogTimer is Enabled, wanted Disabled" in bring(lab("bios.readback")).stopped


def test_a_lost_answer_is_found_by_looking_and_not_sent_again(lab):
    machine = lab("benign.patch-answer-lost")
    story = bring(machine)
    assert story.stopped == ""
    assert story.lost_answer
    assert story.job_id
    assert len(machine.lane.sent("PATCH")) == 1


def test_a_lost_answer_with_an_idrac_that_is_gone_for_minutes_is_waited_for(lab):
    machine = lab()

    def restart(question, answer):
        if question.method == "PATCH":
            machine.machine.controller.restart("watchdog")
            raise Unreachable("the connection was reset")
        return answer

    machine.lane.after = restart
    story = bring(machine)
    assert story.stopped == ""
    assert len(machine.lane.sent("PATCH")) == 1
    assert story.losses[0].seconds > 100


def test_an_idrac_that_restarts_during_the_job_is_endured(lab):
    machine = lab("bmc.continuity")
    story = bring(machine)
    assert story.stopped == ""
    (loss,) = story.losses
    assert 150 < loss.seconds < 250


def test_an_idrac_that_never_comes_back_ends_the_wait_and_stays_in_the_handover(lab):
    machine = lab()
    gone = {"is": False}

    def lose(question):
        if "Reset" in question.path:
            gone["is"] = True
        elif gone["is"]:
            raise Unreachable("no route to host")

    machine.lane.before = lose
    story = bring(machine)
    assert story.stopped_by == RESULT
    assert story.stop.blame is Blame.BENCH
    assert "no route to host" in story.stopped
    assert story.job_id in machine.handover.line()
    assert "undo: DELETE" in machine.handover.line()


def test_the_jobs_own_extra_reset_is_no_fault(lab):
    assert bring(lab("benign.extra-bios-reset")).stopped == ""


def test_a_slow_idrac_is_asked_again(lab):
    assert bring(lab("benign.session-slow")).stopped == ""


def test_a_refused_patch_leaves_nothing(lab):
    machine = lab()
    machine.machine.controller.bios.reject = lambda wanted: (_rejection(),)
    story = bring(machine)
    assert story.stopped_by == BEFORE_RESET
    assert "HTTP 400 (SYS409)" in story.stopped
    assert machine.lane.resets == []
    assert machine.handover.line() == NOTHING


def test_a_reset_that_does_nothing_is_not_waited_for_for_ever(lab):
    machine = lab()
    machine.machine.reset = lambda kind: None
    story = bring(machine)
    assert story.stopped_by == STATE
    assert "did not restart within 300 s" in story.stopped
    assert (machine.pending, machine.open_jobs) == ({}, [])
    assert machine.handover.line() == NOTHING


def test_a_job_that_somebody_deletes_is_missed(lab):
    machine = lab()
    queue = machine.machine.controller.jobs
    machine.machine.reset = lambda kind: [queue.remove(job.id) for job in queue.jobs]
    story = bring(machine)
    assert story.stopped_by == RESULT
    assert "vanished from every view" in story.stopped


def test_a_job_that_appears_meanwhile_forbids_the_reset_and_ours_is_withdrawn(lab):
    machine = lab()

    def interfere(question, answer):
        if question.method == "PATCH":
            machine.machine.controller.jobs.add("RAIDConfiguration", "Configure: RAID.Integrated.1-1")
        return answer

    machine.lane.after = interfere
    story = bring(machine)
    assert story.stopped_by == "bios.preflight-jobs"
    assert machine.lane.resets == []
    assert machine.pending == {}
    (left,) = machine.machine.controller.jobs.jobs
    assert left.type == "RAIDConfiguration"


def test_values_that_somebody_adds_meanwhile_are_not_cleared(lab):
    machine = lab("bios.job-before-reset")

    def interfere(question, answer):
        if question.method == "PATCH":
            machine.machine.controller.bios.stage({"ProcX2Apic": "Enabled"})
        return answer

    machine.lane.after = interfere
    story = bring(machine)
    assert story.stopped_by == BEFORE_RESET
    assert machine.pending == {**DIFFERING, "ProcX2Apic": "Enabled"}
    assert not machine.lane.sent("POST", "ClearPending")
    assert "MmioAbove4Gb, OsWatchdogTimer pending" in machine.handover.line()


def test_refused_credentials_in_the_middle_are_the_benchs(lab):
    machine = lab()

    def refuse(question):
        if "Reset" in question.path:
            raise AuthRefused("the session had ended")

    machine.lane.before = refuse
    story = bring(machine)
    assert story.stop.blame is Blame.BENCH
    assert "the session had ended" in story.stopped
    assert (machine.pending, machine.open_jobs) == ({}, [])


def test_an_interrupt_leaves_the_handover_saying_what_is_staged(lab):
    machine = lab()

    def interrupt(question):
        if "Reset" in question.path:
            raise KeyboardInterrupt

    machine.lane.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        bring(machine)
    line = machine.handover.line()
    assert f"where {machine.open_jobs[0]} is still Scheduled" in line
    assert "ClearPending" in line


def test_firmware_without_apply_times_gets_its_job_in_a_second_request(lab):
    machine = lab()

    def old(question, answer):
        if question.path.endswith("/Bios") and answer.status == 200:
            settings = {key: value for key, value in answer.body["@Redfish.Settings"].items() if key != "SupportedApplyTimes"}
            return HttpAnswer(200, answer.headers, answer.body | {"@Redfish.Settings": settings}, answer.at, answer.took)
        return answer

    machine.lane.after = old
    story = bring(machine)
    assert story.stopped == ""
    (patch,) = machine.lane.sent("PATCH", SETTINGS)
    assert set(patch.body) == {"Attributes"}
    assert len(machine.lane.sent("POST", "/Jobs")) == 1


def _rejection():
    from harness.lab.idrac.settings import Rejection

    return Rejection("MmioAbove4Gb", "SYS409", ())
