"""Somebody else is at the machine at the worst moments: what is not ours is never adopted, applied, cut off or taken away."""

from __future__ import annotations

import pytest

from harness.errors import Blame, RedfishError, Unreachable
from harness.ports import HttpAnswer
from harness.procedures.bios import bring_bios
from harness.procedures.bios.story import BEFORE_RESET, RECONCILE
from harness.procedures.handover import NOTHING

DIFFERING = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
THEIRS = {"ProcX2Apic": "Enabled"}
REFUSED = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS011", "Severity": "Warning"}]}}


def bring(machine, **more):
    return bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag, **more)


def queue_of(machine):
    return machine.machine.controller.jobs


def add_bios_job(machine):
    return queue_of(machine).add("BIOSConfiguration", "Configure: BIOS.Setup.1-1")


def is_reset(question):
    return "ComputerSystem.Reset" in question.path


# ── whose job is it ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pending", [{}, THEIRS, {"MmioAbove4Gb": "Enabled"}])
@pytest.mark.parametrize("answer", ["lost", "refused", "no job named"])
def test_a_job_that_cannot_be_proven_ours_is_left_alone_and_handed_over(lab, answer, pending):
    """The PATCH is not taken, and a colleague's job appears at that very moment."""
    machine = lab()
    made = []

    def swap(question):
        if question.method != "PATCH":
            return
        made.append(add_bios_job(machine).id)
        machine.machine.controller.bios.pending.clear()
        machine.machine.controller.bios.stage(pending)
        if answer == "lost":
            raise Unreachable("the connection was lost before the answer")

    def reply(question, real):
        if question.method != "PATCH":
            return real
        return (
            HttpAnswer(200, {}, {}, real.at, real.took) if answer == "no job named" else HttpAnswer(400, {}, REFUSED, real.at, 0.1)
        )

    machine.lane.before, machine.lane.after = swap, reply
    story = bring(machine)
    assert (story.job_id, story.stop.blame) == ("", Blame.BENCH)
    assert story.stopped_by == (RECONCILE if answer == "lost" else BEFORE_RESET)
    assert [question.method for question in machine.lane.acts] == ["PATCH"]
    assert machine.pending == pending
    assert machine.open_jobs == made
    assert made[0] in story.stopped
    assert made[0] in machine.handover.line()
    assert "left alone" in machine.handover.line()


def test_a_refused_patch_beside_two_new_jobs_adopts_neither(lab):
    machine = lab("benign.patch-answer-lost")
    machine.lane.before = lambda question: (
        add_bios_job(machine) if question.method == "GET" and machine.lane.sent("PATCH") else None
    )
    story = bring(machine)
    assert (story.job_id, len(machine.lane.acts)) == ("", 1)
    assert len(story.unproven) > 1


def test_a_job_that_appears_after_the_first_look_stops_before_the_patch(lab):
    machine = lab()

    def interfere(question, answer):
        if "BiosRegistry" in question.path and not machine.open_jobs:
            add_bios_job(machine)
        return answer

    machine.lane.after = interfere
    story = bring(machine)
    assert machine.lane.acts == []
    assert story.stopped_by == "bios.preflight-jobs"
    assert len(machine.open_jobs) == 1
    assert machine.handover.line() == NOTHING


# ── right before the reset ────────────────────────────────────────────────────────────────────────────────────────


def on_scheduled(machine, act):
    """Do something once, when the run has just seen its job scheduled."""
    done = []

    def after(question, answer):
        body = answer.body if isinstance(answer.body, dict) else {}
        if not done and "/Jobs/JID_" in question.path and body.get("JobState") == "Scheduled":
            done.append(act())
        return answer

    machine.lane.after = after
    return done


def test_values_that_somebody_stages_before_the_reset_are_not_applied_and_stay(lab):
    machine = lab()
    on_scheduled(machine, lambda: machine.machine.controller.bios.stage(THEIRS))
    story = bring(machine)
    assert machine.lane.resets == []
    assert (story.stopped_by, story.stop.blame) == ("bios.preflight-pending", Blame.BENCH)
    assert "ProcX2Apic" in story.stopped
    assert machine.open_jobs == []
    assert machine.pending == {**DIFFERING, **THEIRS}
    assert "pending" in machine.handover.line()


@pytest.mark.parametrize("state", ["Scheduled", "New", "Running", "Downloading"])
def test_a_foreign_job_of_any_state_before_the_reset_forbids_it(lab, state):
    machine = lab()
    on_scheduled(machine, lambda: queue_of(machine).add("FirmwareUpdate", "update", state=state))
    story = bring(machine)
    assert machine.lane.resets == []
    assert story.stopped_by == "bios.preflight-jobs"
    is_at_work = state in ("Running", "Downloading")
    assert bool(machine.lane.sent("DELETE")) is not is_at_work
    left = [job.type for job in queue_of(machine).jobs if not job.is_finished]
    assert left == (["BIOSConfiguration", "FirmwareUpdate"] if is_at_work else ["FirmwareUpdate"])
    assert (machine.handover.line() == NOTHING) is not is_at_work
    if is_at_work:
        assert story.job_id in machine.handover.line()


def test_a_host_that_somebody_takes_into_setup_before_the_reset_is_not_restarted(lab):
    machine = lab()
    seen = []

    def status(question, answer):
        if machine.lane.sent("PATCH") and question.path.endswith("APIStatus"):
            seen.append(question)
            return HttpAnswer(200, {}, answer.body | {"ServerStatus": "EnteredF2Setup"}, answer.at, answer.took)
        return answer

    machine.lane.after = status
    story = bring(machine)
    assert seen
    assert machine.lane.resets == []
    assert "EnteredF2Setup" in story.stopped
    assert machine.open_jobs == []


@pytest.mark.parametrize("power", [None, "Paused", "PoweringOff", 5])
def test_a_power_state_that_is_not_steady_sends_no_reset(lab, power):
    machine = lab()

    def hide(question, answer):
        if machine.lane.sent("PATCH") and question.path.endswith("System.Embedded.1"):
            return HttpAnswer(200, {}, answer.body | {"PowerState": power}, answer.at, answer.took)
        return answer

    machine.lane.after = hide
    story = bring(machine)
    assert machine.lane.resets == []
    assert "the power state is" in story.stopped


def test_a_host_that_restarts_by_itself_before_the_reset_is_not_restarted_again(lab):
    machine = lab()
    on_scheduled(machine, lambda: machine.machine.reset("ForceRestart"))
    story = bring(machine)
    assert machine.lane.resets == []
    assert story.stopped_by in ("", "bios.preflight-jobs")


# ── two steps ─────────────────────────────────────────────────────────────────────────────────────────────────────


def two_step(machine, then=lambda question, answer: answer):
    def old(question, answer):
        if question.path.endswith("/Bios") and answer.status == 200:
            settings = {key: value for key, value in answer.body["@Redfish.Settings"].items() if key != "SupportedApplyTimes"}
            answer = HttpAnswer(200, answer.headers, answer.body | {"@Redfish.Settings": settings}, answer.at, answer.took)
        return then(question, answer)

    machine.lane.after = old
    return machine


def test_values_that_somebody_stages_between_patch_and_job_get_no_job(lab):
    machine = lab()

    def interfere(question, answer):
        if question.method == "PATCH":
            machine.machine.controller.bios.stage(THEIRS)
        return answer

    two_step(machine, interfere)
    story = bring(machine)
    assert [question.method for question in machine.lane.acts] == ["PATCH"]
    assert story.stopped_by == "bios.preflight-pending"
    assert machine.pending == {**DIFFERING, **THEIRS}


# ── what a run that was cut off left ──────────────────────────────────────────────────────────────────────────────


def test_our_values_without_a_job_get_only_the_job(lab):
    machine = lab()
    machine.machine.controller.bios.stage(DIFFERING)
    story = bring(machine)
    assert story.stopped == ""
    assert [question.method for question in machine.lane.acts] == ["POST", "POST"]
    assert story.patches == 0
    assert machine.handover.line() == NOTHING


def test_our_values_with_their_job_get_only_the_reset(lab):
    machine = lab()
    machine.machine.controller.bios.stage(DIFFERING)
    left = machine.machine.controller.schedule_bios_job()
    story = bring(machine)
    assert (story.stopped, story.job_id, story.patches) == ("", left.id, 0)
    assert machine.lane.resets == ["ForceRestart"]
    assert len(machine.lane.acts) == 1


def test_a_reset_that_is_under_way_for_our_job_is_not_sent_again(lab):
    machine = lab()
    machine.machine.controller.bios.stage(DIFFERING)
    machine.machine.controller.schedule_bios_job()
    machine.machine.reset("ForceRestart")
    story = bring(machine)
    assert machine.lane.acts == []
    assert story.stopped == ""
    assert {name: story.values[name] for name in DIFFERING} == DIFFERING


def test_a_leftover_job_is_not_taken_away_where_going_on_with_it_fails(lab):
    machine = lab()
    machine.machine.controller.bios.stage(DIFFERING)
    left = machine.machine.controller.schedule_bios_job()
    machine.machine.reset = lambda kind: None
    story = bring(machine)
    assert story.stopped != ""
    assert machine.open_jobs == [left.id]
    assert left.id in machine.handover.line()


@pytest.mark.parametrize("pending", [THEIRS, {**DIFFERING, **THEIRS}, {"MmioAbove4Gb": "Enabled"}, {}])
def test_a_job_with_anything_but_exactly_our_values_is_somebody_elses(lab, pending):
    machine = lab()
    machine.machine.controller.bios.stage(pending)
    job = add_bios_job(machine)
    story = bring(machine)
    assert machine.lane.acts == []
    assert story.stopped_by == "bios.preflight-jobs"
    assert (machine.open_jobs, machine.pending) == ([job.id], pending)


# ── withdrawing ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lost", ["DELETE", "ClearPending"])
@pytest.mark.parametrize("is_taken", [True, False])
def test_a_withdrawal_whose_answer_is_lost_is_judged_by_a_look_and_sent_once(lab, lost, is_taken):
    machine = lab("bios.job-state")

    def lose(question):
        if lost in (question.method, question.path.rpartition(".")[2]) and not is_taken:
            raise Unreachable("the connection was lost")

    def cut(question, answer):
        if lost in (question.method, question.path.rpartition(".")[2]):
            raise Unreachable("the connection was lost")
        return answer

    machine.lane.before, machine.lane.after = lose, cut
    story = bring(machine)
    assert len(machine.lane.sent("DELETE")) == 1
    assert len(machine.lane.sent("POST", "ClearPending")) == (1 if lost == "ClearPending" or is_taken else 0)
    assert (machine.handover.line() == NOTHING) is is_taken
    assert ("nothing of ours is pending or queued" in story.stopped) is is_taken


def test_a_refusal_to_delete_leaves_the_job_in_the_handover(lab):
    machine = lab("bios.job-state")

    def refuse(question):
        if question.method == "DELETE":
            raise RedfishError(question.key, 400, ("IDRAC.2.8.JCP031",))

    machine.lane.before = refuse
    story = bring(machine)
    assert story.job_id in machine.handover.line()
