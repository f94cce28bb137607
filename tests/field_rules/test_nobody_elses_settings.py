"""What a colleague has staged or queued is not applied, not cut off and not taken away; and never is a whole queue cleared."""

from __future__ import annotations

import json

import pytest

from harness.clock import VirtualClock
from harness.lab.catalogue import idrac_catalogue
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.machine import Machine

MODEL = "model-lqd8360"
APPLY = ("bios", "apply", "--bench", MODEL)
THEIRS = {"ProcX2Apic": "Enabled"}


def pending(machine):
    return dict(machine.controller.bios.pending)


def at_work(machine):
    """Somebody's job begins to work."""
    return machine.controller.jobs.add("RAIDConfiguration", "somebody's", state="Running", message_id="PR20").id


def states(machine):
    return {job.id: job.state for job in machine.controller.jobs.jobs}


def our_job_is_seen(sent, machine):
    return sent.method == "GET" and "/Jobs/JID_" in sent.path and machine.controller.jobs.open("BIOSConfiguration") is not None


# ── staged values ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("more", [(), ("--no-reboot",), ("--on-conflict", "refuse")], ids=["apply", "no restart", "refuse"])
def test_a_colleagues_staged_values_stop_an_apply_before_its_first_write(bringup, wire, more):
    done = bringup(*APPLY, *more, "--fault", "bios.preflight-pending")
    assert done.status == 3, done.text
    assert "ProcX2Apic" in done.text
    assert wire.writes == []
    assert pending(wire.machine) == THEIRS


@pytest.mark.socket
def test_a_colleagues_staged_values_stop_the_bios_stage_of_a_run(served, wire):
    service = served("bios.preflight-pending")
    done = service.bringup("run", "--bench", "BENCH", "--live", "--apply", "--stage", "bios")
    assert done.status == 3, done.text
    assert wire.writes == []
    assert pending(service.machine) == THEIRS


def test_values_that_a_colleague_adds_to_ours_are_neither_applied_nor_taken_away(bringup, wire):
    wire.once(our_job_is_seen, lambda machine: machine.controller.bios.stage(THEIRS))
    done = bringup(*APPLY)
    assert done.status == 3, done.text
    assert [sent.is_reset for sent in wire.writes].count(True) == 0
    assert pending(wire.machine) == THEIRS | {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
    assert "MmioAbove4Gb" in done.handovers[-1], "what stays beside theirs is said"


def test_a_failed_apply_takes_back_what_it_staged_and_nothing_else(bringup, wire):
    done = bringup(*APPLY, "--fault", "bios.job-before-reset")
    assert done.status == 1, done.text
    assert pending(wire.machine) == {}
    assert done.handovers[-1] == "nothing was left on the machine"


def test_a_colleagues_values_are_cleared_only_by_name(bringup, wire):
    done = bringup("bios", "clear", "MmioAbove4Gb", "--bench", MODEL, "--fault", "bios.preflight-pending")
    assert done.status == 2, done.text
    assert "somebody else staged ProcX2Apic" in done.err
    assert wire.writes == []


# ── jobs at work ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_begins_right_before_our_reset_stops_it_and_keeps_even_our_own_job_undeleted(bringup, wire):
    (begun,) = [wire.once(our_job_is_seen, at_work)]
    done = bringup(*APPLY)
    assert done.status == 3, done.text
    assert [sent.method for sent in wire.writes] == ["PATCH"], "no reset, and nothing deleted while a job is at work"
    assert states(wire.machine)[begun[0]] == "Running"
    assert "Scheduled" in done.handovers[-1]
    assert "undo: DELETE" in done.handovers[-1]


def queue(*kinds):
    """Somebody's jobs, there before the first request; a BIOS job waits, any other is at work."""

    done = []

    def put(_, machine):
        if done:
            return
        done.append(machine)
        for kind in kinds:
            if kind == "BIOSConfiguration":
                machine.controller.bios.stage({"NumLock": "Off"})
                machine.controller.jobs.add(kind, "Configure: BIOS.Setup.1-1")
            else:
                machine.controller.jobs.add(kind, "somebody's", state="Running", message_id="PR20")

    return put


THE_JOB = "JID_681204407919"
DELETING = {
    "replace": (*APPLY, "--on-conflict", f"replace {THE_JOB}"),
    "clear": ("bios", "clear", "NumLock", "--job", THE_JOB, "--bench", MODEL),
}
every_way_to_delete = pytest.mark.parametrize("words", DELETING.values(), ids=DELETING)


@every_way_to_delete
def test_no_job_is_deleted_while_another_is_at_work(bringup, wire, words):
    wire.before = queue("BIOSConfiguration", "RAIDConfiguration")
    done = bringup(*words)
    assert done.status == 2, done.text
    assert "is at work" in done.err
    assert wire.writes == []
    assert sorted(states(wire.machine).values()) == ["Running", "Scheduled"]


@every_way_to_delete
def test_a_named_job_that_waits_alone_is_deleted_by_its_id(bringup, wire, words):
    """The test above would pass too where nothing is ever deleted."""
    wire.before = queue("BIOSConfiguration")
    done = bringup(*words)
    assert done.status == 0, done.text
    assert [sent.path.rpartition("/")[2] for sent in wire.writes if sent.method == "DELETE"] == [THE_JOB]


def test_no_job_is_replaced_for_a_change_that_is_then_refused(bringup, wire, tmp_path):
    wire.before = queue("BIOSConfiguration")
    (tmp_path / "boot.toml").write_text('BootMode = "Bios"\n')
    done = bringup(*DELETING["replace"], "--attributes", "boot.toml")
    assert done.status in (1, 3), done.text
    assert wire.writes == []
    assert states(wire.machine) == {THE_JOB: "Scheduled"}


@pytest.mark.parametrize("kind", ["BIOSConfiguration", "RAIDConfiguration"])
def test_a_job_that_waits_for_the_next_reset_is_not_started_by_ours(bringup, wire, kind):
    wire.before = lambda _, machine: (
        None if machine.controller.jobs.jobs else machine.controller.jobs.add(kind, "Configure: somebody's")
    )
    done = bringup(*APPLY)
    assert done.status == 3, done.text
    assert wire.writes == []


@pytest.mark.parametrize(
    ("begins", "sent"),
    [
        (lambda sent, machine: "ExportServerScreenShot" in sent.path, []),
        (lambda sent, machine: "ForceOff" in sent.body, ["ForceOff"]),
    ],
    ids=["before ForceOff", "before the bare start"],
)
def test_a_rescue_neither_switches_off_nor_on_while_a_job_is_at_work(bringup, wire, begins, sent):
    begun = wire.once(begins, at_work)
    done = bringup("rescue", "--bench", MODEL, "--fault", "boot.loop", "--yes")
    assert begun
    assert done.status == 3, done.text
    assert f"{begun[0]} RAIDConfiguration Running" in done.err
    assert [each.body for each in wire.writes if each.is_reset] == [f'{{"ResetType": "{kind}"}}' for kind in sent]
    assert states(wire.machine)[begun[0]] == "Running"
    assert len(done.handovers) == 1


@pytest.mark.socket
@pytest.mark.parametrize(
    ("kind", "state"),
    [("RAIDConfiguration", "Running"), pytest.param("BIOSConfiguration", "Scheduled", marks=pytest.mark.slow)],
)
def test_the_boot_stage_of_a_run_resets_nothing_beside_somebodys_job(served, wire, cases, kind, state):
    service = served()
    service.machine.controller.jobs.add(kind, "Configure: somebody's", state=state, message_id="PR20")
    done = service.bringup("run", "--bench", "BENCH", "--live", "--apply", "--stage", "boot")
    assert done.status == 3, done.text
    assert "JID_" in cases()["boot.new-boot"]["message"]
    assert wire.writes == []


# ── the whole queue ───────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_that_an_idrac_does_makes_us_clear_the_whole_queue(bringup, wire):
    """Stuck jobs, jobs that are no job, lost answers: public tools clear the queue then."""
    faults = sorted(idrac_catalogue(), key=lambda fault: fault.id)
    deleted = set()
    for fault in faults:
        wire.sent.clear()
        bringup(*APPLY, "--fault", fault.id)
        assert wire.sent, fault.id
        assert wire.clearings == [], fault.id
        deleted |= {each.path.rpartition("/")[2] for each in wire.writes if each.method == "DELETE"}
    assert len(faults) > 30
    assert deleted, "jobs were deleted, each by its id"
    assert all(name.startswith("JID_") and name[4:].isdigit() for name in deleted)


def test_a_cleared_queue_would_be_noticed(wire):
    """The look at every request, which ends each test here, sees the one that it is there for."""
    machine = Machine(VirtualClock())
    application = IdracApplication(machine)
    login = {"UserName": parts.BMC_USER, "Password": parts.BMC_PASSWORD}
    token = application.handle("POST", machine.controller.profile.sessions, {}, json.dumps(login).encode())[1]["X-Auth-Token"]
    path = f"{names.JOB_SERVICE}/Actions/DellJobService.DeleteJobQueue"
    status, *_ = application.handle("POST", path, {"X-Auth-Token": token}, b'{"JobID": "JID_CLEARALL"}')
    assert status < 300
    assert [sent.path for sent in wire.clearings] == [path]
    wire.sent.clear()
