from __future__ import annotations

from dataclasses import replace

import pytest

from harness.devices.idrac_facts import System
from harness.devices.jobs import Job
from harness.errors import BenchError, DeviceError, RedfishError, Unreachable
from harness.procedures.power import Wanted, choose_reset, obstacle, send_reset

# what public captures and reports list, by firmware
R740_3_15 = ("On", "ForceOff", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi")
R640_3_36 = ("On", "ForceOff", "ForceRestart", "GracefulShutdown", "PushPowerButton", "Nmi")
R750_7_10 = ("On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle")


def system(power, types):
    return System("MODEL01", "PowerEdge R640", "2.21.2", power, reset_types=types)


@pytest.mark.parametrize(
    ("wanted", "power", "types", "kind"),
    [
        (Wanted.RESTART, "On", R740_3_15, "GracefulRestart"),
        (Wanted.RESTART, "On", R640_3_36, "ForceRestart"),
        (Wanted.RESTART, "On", R750_7_10, "ForceRestart"),
        (Wanted.RESTART, "On", ("PowerCycle",), "PowerCycle"),
        (Wanted.RESTART, "Off", R750_7_10, "On"),
        (Wanted.RESTART, "Off", ("PushPowerButton",), "PushPowerButton"),
        (Wanted.OFF, "On", R750_7_10, "ForceOff"),
    ],
)
def test_the_reset_is_one_that_the_firmware_offers(wanted, power, types, kind):
    assert choose_reset(wanted, system(power, types)) == kind


@pytest.mark.parametrize(("wanted", "power", "types"), [(Wanted.RESTART, "On", ("Nmi",)), (Wanted.OFF, "Off", R750_7_10)])
def test_no_way_to_reset_names_what_is_offered(wanted, power, types):
    with pytest.raises(DeviceError, match=f"no way to {wanted} a machine that is {power}: it offers"):
        choose_reset(wanted, system(power, types))


def graceful_only(lab):
    """A machine of the first iDRAC9 whose operating system is still being loaded."""
    machine = lab()
    controller = machine.machine.controller
    controller.profile = replace(controller.profile, resets=R740_3_15)
    machine.machine.reset("ForceOff")
    machine.machine.reset("On")
    machine.clock.until(
        machine.machine.status, lambda status: status.progress == "OSBootStarted", what="the loader", every=5, within=3600
    )
    return machine


def test_a_graceful_restart_that_nobody_heard_is_asked_for_once_more(lab):
    machine = graceful_only(lab)
    sent = send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert (sent.asked, machine.lane.resets) == (2, ["GracefulRestart"] * 2)
    machine.clock.sleep(60)
    assert machine.machine.status().server == "InPOST"


def test_a_graceful_restart_that_was_heard_is_asked_for_once(lab):
    machine = graceful_only(lab)
    machine.clock.sleep(120)
    sent = send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert (sent.asked, machine.lane.resets) == (1, ["GracefulRestart"])
    assert machine.machine.status().server == "InPOST"


def test_a_graceful_restart_is_not_asked_for_again_for_a_job_that_somebody_queued_meanwhile(lab):
    machine = graceful_only(lab)
    machine.lane.after = lambda question, answer: (
        machine.machine.controller.jobs.add("RAIDConfiguration", "somebody's") and answer
        if "ComputerSystem.Reset" in question.path
        else answer
    )
    sent = send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert (sent.asked, machine.lane.resets) == (1, ["GracefulRestart"])


def test_a_job_at_work_forbids_a_reset_even_if_it_is_ours():
    job = Job("JID_1", "Running", "BIOSConfiguration", "PR20")
    assert "at work" in obstacle([job], own="JID_1")


def test_somebody_elses_waiting_job_forbids_a_reset_and_ours_does_not():
    job = Job("JID_1", "Scheduled", "RAIDConfiguration", "JCP001")
    assert "not ours" in obstacle([job])
    assert obstacle([job], own="JID_1") == ""


def test_finished_jobs_forbid_nothing():
    assert obstacle([Job("JID_1", "Completed", "BIOSConfiguration", "PR19"), Job("JID_2", "Failed", "x", "PR21")]) == ""


def test_the_service_tag_is_read_right_before_the_reset(lab):
    machine = lab()
    send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert [question.key.rpartition("/")[2] for question in machine.lane.asked] == ["System.Embedded.1", "ComputerSystem.Reset"]


def test_another_machine_is_not_reset(lab):
    machine = lab("bmc.identity")
    with pytest.raises(BenchError, match="MODEL99"):
        send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert machine.lane.acts == []


def test_a_reset_whose_answer_is_lost_is_not_sent_again(lab):
    machine = lab()

    def lose(question):
        if "Reset" in question.path:
            raise Unreachable("dropped")

    machine.lane.before = lose
    sent = send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert not sent.is_answered
    assert machine.lane.resets == ["ForceRestart"]


def test_already_on_is_no_error(lab):
    machine = lab()

    def refuse(question):
        if "Reset" in question.path:
            raise RedfishError(question.key, 409, ["IDRAC.2.8.PSU501"])

    machine.lane.before = refuse
    assert send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag).is_answered


def test_a_power_on_is_not_asked_for_again_once_a_job_is_at_work(lab):
    machine = lab("idrac.power-on-ignored")
    machine.machine.reset("ForceOff")

    def update(question):
        if machine.lane.resets and not machine.open_jobs:
            machine.machine.controller.jobs.add("FirmwareUpdate", "update", state="Running")

    machine.lane.before = update
    sent = send_reset(machine.idrac, Wanted.RESTART, expected_tag=machine.tag)
    assert (sent.asked, machine.lane.resets) == (1, ["On"])
