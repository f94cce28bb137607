from __future__ import annotations

import pytest

from harness.devices.idrac_facts import LcStatus, System
from harness.devices.jobs import Job
from harness.errors import Blame
from harness.procedures.bios.preflight import JOBS, LC, LOCKDOWN, PENDING, Preflight, judge

SYSTEM = System("MODEL01", "PowerEdge R640", "2.21.2", "On")
BIOS_JOB = Job("JID_1", "Scheduled", "BIOSConfiguration", "JCP001")
RAID_JOB = Job("JID_2", "Running", "RAIDConfiguration", "PR20")
WANTED = {"MmioAbove4Gb": "Enabled"}


def found(lockdown="Disabled", lc="Ready", server="OutOfPOST", pending=None, jobs=(), occupants=""):
    return Preflight(SYSTEM, lockdown, LcStatus("Ready", lc, "Ready", server), pending or {}, jobs, occupants)


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        ({"lockdown": "Enabled"}, LOCKDOWN),
        ({"server": "LCUSC"}, LC),
        ({"server": "EnteredF2Setup"}, LC),
        ({"server": "InPOST"}, LC),
        ({"lc": "InUse"}, LC),
        ({"occupants": "ann logged in"}, LC),
        ({"lc": ""}, LC),
        ({"lc": "ReloadingData"}, LC),
        ({"server": "SomethingNew"}, LC),
        ({"pending": {"ProcX2Apic": "Enabled"}}, PENDING),
        ({"pending": {"MmioAbove4Gb": "Disabled"}}, PENDING),
        ({"jobs": (RAID_JOB,)}, JOBS),
        ({"jobs": (BIOS_JOB,), "pending": {"ProcX2Apic": "Enabled"}}, JOBS),
    ],
)
def test_a_machine_that_is_not_free_is_the_benchs(facts, check):
    (stop,) = judge(found(**facts), WANTED, writes=True)
    assert stop.check == check
    assert stop.blame is Blame.BENCH


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"lockdown": ""},
        {"server": "PoweredOff"},
        {"server": "HaltedF1/F2Prompt"},
        {"pending": {"MmioAbove4Gb": "Enabled"}},
    ],
)
def test_a_free_machine_may_be_written_to(facts):
    assert judge(found(**facts), WANTED, writes=True) == ()


def test_a_look_cares_for_others_only():
    everything = found("Enabled", "InUse", "LCUSC", {"ProcX2Apic": "Enabled"}, (RAID_JOB,), "ann logged in")
    assert [stop.check for stop in judge(everything, {}, writes=False)] == [PENDING, JOBS]
    assert [stop.check for stop in judge(everything, {}, writes=True)] == [LOCKDOWN, LC, LC, PENDING, JOBS]
