from __future__ import annotations

import json

import pytest

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LcSettings, LcStatus, System
from harness.devices.jobs import Job
from harness.errors import Blame
from harness.lab.model import parts
from harness.ports import HttpAnswer
from harness.procedures.bios import bring_bios
from harness.procedures.bios.bring import look
from harness.procedures.bios.preflight import JOBS, LC, LOCKDOWN, PENDING, UNTOLD, Preflight, judge

SYSTEM = System("MODEL01", "PowerEdge R640", "2.21.2", "On")
BIOS_JOB = Job("JID_1", "Scheduled", "BIOSConfiguration", "JCP001")
RAID_JOB = Job("JID_2", "Running", "RAIDConfiguration", "PR20")
WANTED = {"MmioAbove4Gb": "Enabled"}


def found(
    lockdown="Disabled", lc="Ready", server="OutOfPOST", pending=None, jobs=(), occupants="", settings=UNTOLD, privileges=None
):
    return Preflight(
        SYSTEM, lockdown, LcStatus("Ready", lc, "Ready", server), pending or {}, jobs, occupants, settings, "ann", privileges
    )


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        ({"lockdown": "Enabled"}, LOCKDOWN),
        ({"server": "LCUSC"}, LC),
        ({"server": "EnteredF2Setup"}, LC),
        ({"server": "InPOST"}, LC),
        ({"lc": "InUse"}, LC),
        ({"occupants": "ann logged in"}, LC),
        ({"privileges": 0x1}, LOCKDOWN),
        ({"privileges": 0x0}, LOCKDOWN),
        ({"privileges": 0x3}, LOCKDOWN),
        ({"lc": ""}, LC),
        ({"settings": LcSettings("Disabled", "Enabled")}, LC),
        ({"settings": LcSettings("Recovery", "")}, LC),
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
        {"settings": LcSettings("Enabled", "Disabled")},
        {"settings": LcSettings("", "")},
        {"privileges": 0x1FF},
        {"privileges": 0x1F3},
        {"privileges": None},
        {"pending": {"MmioAbove4Gb": "Enabled"}},
    ],
)
def test_a_free_machine_may_be_written_to(facts):
    assert judge(found(**facts), WANTED, writes=True) == ()


def test_a_look_cares_for_others_only():
    everything = found("Enabled", "InUse", "LCUSC", {"ProcX2Apic": "Enabled"}, (RAID_JOB,), "ann logged in")
    assert [stop.check for stop in judge(everything, {}, writes=False)] == [PENDING, JOBS]
    assert [stop.check for stop in judge(everything, {}, writes=True)] == [LOCKDOWN, LC, LC, PENDING, JOBS]


def test_inventory_that_is_not_collected_on_restart_is_a_warning_and_no_stop():
    assert ["RAC0772, PR30" in warning for warning in found(settings=LcSettings("Enabled", "Disabled")).warnings] == [True]
    assert found(settings=LcSettings("Enabled", "Enabled")).warnings == ()
    assert found().warnings == ()


SETTINGS = "/LifecycleController.Embedded.1"


def asked_for_settings(machine):
    return [question for question in machine.lane.asked if question.path.endswith(SETTINGS)]


def look_at(machine, **more):
    return look(machine.idrac.located(), machine.platform, machine.apply, **more)


def test_how_the_lifecycle_controller_is_set_is_asked_once_and_only_for_a_write(lab):
    machine = lab()
    look_at(machine)
    assert len(asked_for_settings(machine)) == 1
    machine.lane.asked.clear()
    look(machine.idrac.located(), machine.platform, machine.look)
    assert asked_for_settings(machine) == []


@pytest.mark.parametrize("answer", ["404", "rubbish", "no such page"])
def test_an_idrac_that_does_not_tell_how_its_lifecycle_controller_is_set_is_written_to(lab, answer):
    machine = lab()

    def reply(question, real):
        if answer == "no such page" and question.path.endswith("/Managers/iDRAC.Embedded.1"):
            body = json.loads(json.dumps(real.body).replace(SETTINGS, "/Other.Embedded.1"))
            return HttpAnswer(200, {}, body, real.at, real.took)
        if question.path.endswith(SETTINGS):
            return HttpAnswer(404, {}, {}, real.at, 0.1) if answer == "404" else HttpAnswer(200, {}, [1], real.at, 0.1)
        return real

    machine.lane.after = reply
    story = look_at(machine)
    assert story.stop is None
    assert story.preflight.lc_settings == UNTOLD
    assert len(asked_for_settings(machine)) == (answer != "no such page")


def test_a_lifecycle_controller_that_is_switched_off_stops_before_anything_is_written(lab):
    machine = lab("bios.preflight-lc.disabled")
    story = bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag)
    assert story.stopped_by == LC
    assert "BIOS010" in story.stopped
    assert machine.lane.acts == []


def test_a_user_who_may_only_look_stops_before_anything_is_written(lab):
    machine = lab("bios.preflight-lockdown.read-only-user")
    idrac = Idrac(machine.idrac.redfish, user=parts.BMC_USER)
    story = bring_bios(idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag)
    assert story.stopped_by == LOCKDOWN
    assert f"user {parts.BMC_USER} may not control the server (privileges 0x1)" in story.stopped
    assert machine.lane.acts == []
    assert look(Idrac(machine.idrac.redfish), machine.platform, machine.look).preflight.privileges is None


def test_a_user_who_is_not_known_to_be_read_only_meets_the_refusal_itself(lab):
    machine = lab("bios.preflight-lockdown.read-only-user")
    story = bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag)
    assert "HTTP 403" in story.stopped
    assert "InsufficientPrivilege" in story.stopped
    assert len(machine.lane.acts) == 1
