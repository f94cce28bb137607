"""What the machine does and what is true of it afterwards: failures 13, 14, 16, 17, 26, 27, 27b and 30."""

from __future__ import annotations

from harness.devices.redfish import link
from harness.lab.idrac import names
from harness.lab.idrac.profile import OLD
from harness.limits import exactly
from harness.procedures.bios.story import READBACK
from harness.procedures.boot.story import LOOP, PROGRESS

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


def test_13_a_reset_is_chosen_from_what_is_offered(failing):
    machine = failing("no-force-restart")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert machine.resets == ["GracefulRestart"]
    assert {name: machine.current[name] for name in WANTED} == WANTED


def test_13_the_first_idrac9_offers_no_force_restart_and_is_restarted_all_the_same(failing):
    machine = failing("request-attribute", profile=OLD)
    story = machine.bring_bios()
    assert story.stopped == ""
    assert machine.resets == ["GracefulRestart"]
    assert machine.jobs_asked_for == 1
    assert all("@Redfish.SettingsApplyTime" not in patch.body for patch in machine.lane.sent("PATCH"))


def test_14_a_power_on_that_comes_to_nothing_is_asked_for_once_more(failing):
    machine = failing("power-on-ignored")
    machine.machine.reset("ForceOff")
    story = machine.bring_up()
    assert (machine.resets, story.stop) == (["On", "On"], None)


def test_16_what_the_same_patch_unlocks_is_not_called_read_only(failing):
    machine = failing("readonly-is-state").wanting(SysProfile="Custom", PcieAspmL1="Disabled")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert {"SysProfile": "Custom", "PcieAspmL1": "Disabled"}.items() <= machine.current.items()


def test_16_a_number_and_the_word_for_it_are_told_apart(failing):
    machine = failing("readonly-is-state").wanting(AcPwrRcvryUserDelay=60, FailSafeBaud="115200")
    story = machine.bring_bios()
    assert (story.stopped, machine.patches) == ("", 0)
    assert exactly("60").judge(60).value == "fail"


def test_17_a_request_is_judged_by_its_effect_and_not_by_its_own_value(failing):
    machine = failing("request-attribute").wanting(WorkloadProfile="HpcProfile")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert (machine.patches, len(machine.resets)) == (1, 1)
    assert machine.current["WorkloadProfile"] == "NotAvailable"
    assert (machine.pending, machine.open_jobs, story.jobs_after) == ({}, [], ())


def test_17_a_request_whose_effects_are_there_is_not_asked_for_again(failing):
    machine = failing("request-attribute")
    name, value = next(iter(machine.machine.controller.bios.current.items()))
    story = machine.wanting(WorkloadProfile="HpcProfile", **{name: value}).bring_bios()
    assert (story.stopped, machine.patches, machine.resets) == ("", 0, [])


def test_26_a_device_that_is_linked_once_for_each_function_is_one_device(failing):
    machine = failing("duplicate-devices")
    linked = [link(each) for each in machine.idrac.redfish.get(names.SYSTEM)["PCIeDevices"]]
    assert (len(linked), len(set(linked))) == (5, 2)
    assert machine.idrac.system().pcie_devices == tuple(dict.fromkeys(linked))
    assert len(machine.idrac.pcie_devices().devices) == 2
    story = machine.bring_bios()
    assert story.stopped == ""
    assert len(story.preflight.system.pcie_devices) == 2


def test_27_a_machine_out_of_io_space_is_switched_off_and_hands_are_asked_for(failing):
    machine = failing("io-space-loop")
    story = machine.bring_up()
    assert story.stop.check == LOOP
    assert machine.resets[-1] == "ForceOff"
    assert machine.machine.status().power == "Off"
    assert "hands are needed" in story.stop.text
    assert "`bringup rescue --bench BENCH`" in story.stop.text
    assert "detaching the GPUs" in story.stop.text
    assert "BIOS 2.21.2 is not on the platform's deny list (2.4.7); where it is at fault, add it to bios.deny" in story.stop.text


def test_27_a_denied_bios_is_named_where_the_start_loops(failing):
    machine = failing("io-space-loop", "bios.version")
    story = machine.bring_up()
    assert (story.stop.check, "UEFI0256" in story.stop.text) == (LOOP, True)
    assert "BIOS 2.4.7 is on the platform's deny list (2.4.7): replace it once the host starts bare" in story.stop.text


def test_27b_a_post_that_does_not_get_on_ends_at_its_own_limit(failing):
    machine = failing("memory-halt")
    story = machine.bring_up()
    assert story.stop.check == PROGRESS
    assert "MemoryInitializationStarted" in story.stop.text
    assert machine.clock.now() < 45 * 60


def test_30_completed_is_not_believed_until_it_is_read_back(failing):
    machine = failing("completed-unchanged")
    story = machine.bring_bios()
    assert story.stopped_by == READBACK
    assert "OsWatchdogTimer is Enabled" in story.stopped
    assert machine.patches == 1
