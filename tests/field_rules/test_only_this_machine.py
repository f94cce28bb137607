"""Only the machine that the bench pins is written to, and not while somebody uses it or holds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.lab.model import parts
from harness.live.lock import MachineLock

MODEL = "model-lqd8360"
WRITING = {
    "apply": ("bios", "apply", "--bench", "BENCH"),
    "apply without a restart": ("bios", "apply", "--bench", "BENCH", "--no-reboot"),
    "apply in place of a job": ("bios", "apply", "--bench", "BENCH", "--on-conflict", "replace JID_681204407919"),
    "clear": ("bios", "clear", "ProcX2Apic", "--bench", "BENCH"),
    "rescue": ("rescue", "--bench", "BENCH", "--yes"),
    "run": ("run", "--bench", "BENCH", "--live", "--apply", "--stage", "bmc", "--stage", "bios", "--stage", "boot"),
}
SLOW = ("apply without a restart", "apply in place of a job")
every_command_that_writes = pytest.mark.parametrize(
    "words", [pytest.param(words, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, words in WRITING.items()]
)


@pytest.mark.socket
@every_command_that_writes
def test_a_machine_with_another_service_tag_gets_no_write(served, wire, words):
    service = served("bios.preflight-pending")  # so that clear has something to take away, too
    done = service.bringup(*words, tag="OTHER01")
    assert done.status == 3, done.text
    assert "OTHER01" in done.text
    assert wire.sent, "it was asked who it is"
    assert wire.writes == []
    assert service.sessions == 0


@pytest.mark.parametrize("words", [WRITING["apply"], WRITING["apply without a restart"]])
def test_a_machine_that_is_swapped_for_another_after_the_first_look_gets_no_write(bringup, wire, words):
    def swap(machine):
        machine.controller.identity = replace(machine.controller.identity, service_tag="OTHER01")

    swapped = wire.once(lambda sent, _: "BiosRegistry" in sent.path, swap)
    done = bringup(*(MODEL if word == "BENCH" else word for word in words))
    assert swapped
    assert done.status == 3, done.text
    assert wire.writes == []
    assert "OTHER01" in done.text


def test_a_machine_that_is_swapped_for_another_between_patch_and_reset_is_not_reset(bringup, wire):
    def swap(machine):
        machine.controller.identity = replace(machine.controller.identity, service_tag="OTHER01")

    assert wire.once(lambda sent, _: sent.method == "PATCH", swap) == []
    done = bringup("bios", "apply", "--bench", MODEL)
    assert done.status == 3, done.text
    assert [sent.method for sent in wire.writes] == ["PATCH"], "not even what was staged is taken away: it is on another machine"
    assert "MmioAbove4Gb" in done.handovers[-1]


USED = {
    "somebody logged in": {"who": "ann      pts/0        2026-01-05 08:00 (192.0.2.7)\n"},
    "a process on a GPU": {"who": "", "nvidia_smi": "4711, python3\n"},
}


@pytest.mark.parametrize("use", USED.values(), ids=USED)
@pytest.mark.parametrize("assumed", [(), ("--assume-free",)], ids=["", "assumed to be free"])
@pytest.mark.parametrize("words", [WRITING["apply"], WRITING["apply without a restart"]], ids=["apply", "no restart"])
def test_a_busy_host_gets_no_write_and_no_restart_whatever_is_assumed(bringup, wire, on_the_host, use, assumed, words):
    on_the_host(**use)
    done = bringup(*(MODEL if word == "BENCH" else word for word in words), *assumed)
    assert done.status == 3, done.text
    assert "in use" in done.text
    assert wire.writes == []


@pytest.mark.parametrize("use", USED.values(), ids=USED)
def test_on_a_busy_host_nobodys_job_is_replaced(bringup, wire, on_the_host, use):
    on_the_host(**use)
    wire.before = queue_a_bios_job
    done = bringup(*(MODEL if word == "BENCH" else word for word in WRITING["apply in place of a job"]))
    assert done.status == 3, done.text
    assert wire.writes == []
    assert [job.state for job in wire.machine.controller.jobs.jobs] == ["Scheduled"]


def queue_a_bios_job(_, machine):
    if not machine.controller.jobs.jobs:
        machine.controller.bios.stage({"NumLock": "Off"})
        assert machine.controller.jobs.add("BIOSConfiguration", "Configure: BIOS.Setup.1-1").id == "JID_681204407919"


def test_a_run_stops_at_a_busy_host_too(run_on_the_model, wire, cases):
    words = ("--apply", "--stage", "bmc", "--stage", "bios", "--stage", "boot")
    done = run_on_the_model(*words, "--fault", "bios.preflight-lc.occupied")
    assert done.status == 3, done.text
    assert cases()["bios.preflight-lc"]["outcome"] == "error"
    assert wire.sent
    assert wire.writes == []


@pytest.mark.socket
@every_command_that_writes
def test_a_machine_that_somebody_else_holds_is_not_even_asked(served, wire, words):
    service = served()
    with MachineLock(parts.SERVICE_TAG, "bob@elsewhere night run", service.folder / "bringup-locks"):
        done = service.bringup(*words)
    assert done.status == 2, done.text
    assert "bob@elsewhere night run" in done.err
    assert wire.sent == []


def job_is_seen(sent, machine):
    """The job was looked at after the PATCH: what comes next is the restart."""
    return bool(machine.controller.jobs.jobs) and "/Jobs" in sent.path


MOMENTS = {
    "before the PATCH": (lambda sent, _: "BiosRegistry" in sent.path, []),
    "after the PATCH": (lambda sent, _: sent.method == "PATCH", ["PATCH"]),
    "before the reset": (job_is_seen, ["PATCH"]),
}


@pytest.mark.socket
@pytest.mark.parametrize(("moment", "written"), MOMENTS.values(), ids=MOMENTS)
def test_a_command_whose_lock_was_stolen_writes_no_more(served, wire, moment, written):
    service = served(fast=True)
    theirs = MachineLock(parts.SERVICE_TAG, "bob@elsewhere night run", service.folder / "bringup-locks")

    def steal(_):
        holding = theirs.holding()
        theirs.acquire(steal_from=holding.owner)
        return holding.owner

    stolen = wire.once(moment, steal)
    done = service.bringup("bios", "apply", "--bench", "BENCH")
    theirs.release()
    assert len(stolen) == 1
    assert done.status != 0
    assert [sent.method for sent in wire.writes] == written
    assert "bob@elsewhere night run" in done.text, "who has it now is said"
    (said,) = done.handovers
    assert ("MmioAbove4Gb" in said) is bool(written), "what stays is said, and nothing else"
    assert service.sessions == 0


@pytest.mark.socket
@pytest.mark.slow
def test_a_command_whose_lock_is_stolen_while_its_job_runs_only_looks_on(served, wire):
    service = served(fast=True)
    theirs = MachineLock(parts.SERVICE_TAG, "bob@elsewhere night run", service.folder / "bringup-locks")
    stolen = wire.once(lambda sent, _: sent.is_reset, lambda _: theirs.acquire(steal_from=theirs.holding().owner))
    done = service.bringup("bios", "apply", "--bench", "BENCH")
    held = theirs.holding()
    theirs.release()
    assert (len(stolen), held.owner) == (1, "bob@elsewhere night run"), "the lock that was taken over is not given back by us"
    assert [sent.method for sent in wire.writes] == ["PATCH", "POST"]
    assert done.status == 0, done.text
    assert service.sessions == 0


@pytest.mark.socket
@pytest.mark.slow
def test_a_command_whose_lock_is_stolen_while_its_job_fails_takes_nothing_back_and_says_what_stays(served, wire):
    service = served("bios.job-state", fast=True)
    theirs = MachineLock(parts.SERVICE_TAG, "bob@elsewhere night run", service.folder / "bringup-locks")
    stolen = wire.once(lambda sent, _: sent.is_reset, lambda _: theirs.acquire(steal_from=theirs.holding().owner))
    done = service.bringup("bios", "apply", "--bench", "BENCH")
    theirs.release()
    assert len(stolen) == 1
    assert [sent.method for sent in wire.writes] == ["PATCH", "POST"], "neither the job nor its values are taken away"
    assert done.status != 0
    (said,) = done.handovers
    assert "MmioAbove4Gb" in said
    assert "undo: DELETE" in said
    assert service.sessions == 0
