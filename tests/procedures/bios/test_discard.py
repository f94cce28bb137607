"""Discarding what is pending takes away what was looked at and chosen, and nothing else, from a machine that nobody uses."""

from __future__ import annotations

import re

import pytest

from harness.devices.host import Host
from harness.errors import BenchError, CommandFailed, DeviceError, OwnershipError, Unreachable
from harness.limits import exactly
from harness.ports import CommandAnswer, HttpAnswer
from harness.procedures.bios.discard import Choice, discard
from harness.procedures.handover import NOTHING

COMMAND = "bringup bios clear --bench r640-07"
OURS = {"MmioAbove4Gb": exactly("Enabled")}


def choose(*named, **more):
    return Choice(more.pop("wanted", {}), named, command=COMMAND, **more)


def staged(machine, **values):
    machine.machine.controller.bios.pending.update(values)
    return machine


def waiting_job(machine):
    return machine.machine.controller.jobs.add("BIOSConfiguration", "Configure: BIOS.Setup.1-1").id


def throw_away(machine, choice, **more):
    return discard(machine.idrac.located(), choice, machine.handover, expected_tag=machine.tag, **more)


def is_clearing(question):
    return "ClearPending" in question.path


def test_what_is_named_and_what_is_wanted_here_goes(lab):
    machine = staged(lab(), ProcX2Apic="Enabled", MmioAbove4Gb="Enabled")
    gone = throw_away(machine, choose("ProcX2Apic", wanted=OURS))
    assert dict(gone.values) == {"ProcX2Apic": "Enabled", "MmioAbove4Gb": "Enabled"}
    assert (machine.pending, machine.handover.line()) == ({}, NOTHING)
    assert len(machine.lane.acts) == 1


def test_the_refusal_of_somebody_elses_values_gives_the_command_that_takes_them(lab):
    machine = staged(lab(), ProcX2Apic="Enabled", **{"Odd Name": "x"})
    with pytest.raises(OwnershipError, match=re.escape(f"{COMMAND} 'Odd Name' ProcX2Apic")):
        throw_away(machine, choose())
    assert machine.lane.acts == []


def test_what_a_colleague_stages_right_before_the_clearing_is_not_cleared(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    looks = []

    def stage(question):
        if (
            question.path.endswith("/Bios/Settings") and looks.append(question) is None and len(looks) == 3
        ):  # located, look, last look
            staged(machine, NumLock="Off")

    machine.lane.before = stage
    with pytest.raises(OwnershipError, match="somebody staged NumLock meanwhile"):
        throw_away(machine, choose("ProcX2Apic"))
    assert machine.pending == {"ProcX2Apic": "Enabled", "NumLock": "Off"}
    assert machine.lane.acts == []
    assert machine.handover.line().endswith(f"undo: {COMMAND} ProcX2Apic")


def test_a_clearing_that_fails_says_what_may_be_there_still_and_how_to_try_again(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    job = waiting_job(machine)

    def cut(question):
        if is_clearing(question):
            raise Unreachable("the connection was lost")

    machine.lane.before = cut
    with pytest.raises(Unreachable):
        throw_away(machine, choose("ProcX2Apic", job=job))
    assert machine.handover.line() == (f"{job} deleted; ProcX2Apic may be there still; undo: {COMMAND} ProcX2Apic")


def test_a_deletion_that_fails_names_the_job_too(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    job = waiting_job(machine)

    def cut(question):
        if question.method == "DELETE":
            raise Unreachable("the connection was lost")

    machine.lane.before = cut
    with pytest.raises(Unreachable):
        throw_away(machine, choose("ProcX2Apic", job=job))
    assert f"{job} (applies at the next reboot by anyone), ProcX2Apic" in machine.handover.line()
    assert machine.handover.line().endswith(f"undo: {COMMAND} ProcX2Apic --job {job}")


def test_what_stays_although_it_was_cleared_is_the_products_fault(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")

    def stage_again(question, answer):
        if is_clearing(question):
            staged(machine, ProcX2Apic="Enabled")
        return answer

    machine.lane.after = stage_again
    with pytest.raises(DeviceError, match="ProcX2Apic stay although they were taken away"):
        throw_away(machine, choose("ProcX2Apic"))
    assert "ProcX2Apic" in machine.handover.line()


def host_that(machine, **answers):
    class Commands:
        def ask(self, question, on_line=None):
            said = answers[question.argv[0].replace("-", "_")]
            if isinstance(said, Exception):
                raise said
            return CommandAnswer(0, said, "", machine.clock.now(), 0.1)

        def close(self):
            pass

    return Host(Commands(), machine.clock)


def test_a_machine_with_somebody_logged_in_keeps_what_is_pending(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    host = host_that(machine, who="ann pts/0 now\n", nvidia_smi="")
    for assume_free in (False, True):
        with pytest.raises(BenchError, match="the machine is in use: ann logged in; nothing was taken away"):
            throw_away(machine, choose("ProcX2Apic", assume_free=assume_free), host=host)
    assert machine.lane.acts == []
    assert machine.handover.line() == NOTHING


def test_a_host_that_does_not_tell_who_is_there_is_assumed_free_only_on_request(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    host = host_that(machine, who=CommandFailed("who", 255, ""), nvidia_smi="")
    with pytest.raises(BenchError, match="--assume-free"):
        throw_away(machine, choose("ProcX2Apic"), host=host)
    assert machine.lane.acts == []
    throw_away(machine, choose("ProcX2Apic", assume_free=True), host=host)
    assert machine.pending == {}


def test_a_job_is_not_deleted_while_the_host_is_in_post(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    job = waiting_job(machine)
    machine.machine.reset("ForceRestart")
    with pytest.raises((BenchError, OwnershipError), match="nothing was taken away"):
        throw_away(machine, choose("ProcX2Apic", job=job))
    assert machine.lane.acts == []


def test_values_that_somebody_is_editing_in_the_setup_are_left_to_him(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")

    def in_setup(question, answer):
        if "GetRemoteServicesAPIStatus" not in question.path:
            return answer
        return HttpAnswer(200, {}, {**answer.body, "ServerStatus": "EnteredF2Setup"}, answer.at, answer.took)

    machine.lane.after = in_setup
    with pytest.raises(BenchError, match="somebody left the host in EnteredF2Setup"):
        throw_away(machine, choose("ProcX2Apic"))
    assert machine.lane.acts == []


def test_another_machine_keeps_everything(lab):
    machine = staged(lab(), ProcX2Apic="Enabled")
    with pytest.raises(BenchError, match="OTHER01"):
        discard(machine.idrac.located(), choose("ProcX2Apic"), machine.handover, expected_tag="OTHER01")
    assert machine.lane.acts == []
