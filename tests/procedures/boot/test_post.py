from __future__ import annotations

import pytest

from harness.devices.idrac_facts import LogEntry
from harness.procedures.boot.post import Level, Sight, restarts, stages


def sights(*stages):
    return [Sight(10.0 * number, server, progress) for number, (server, progress) in enumerate(stages)]


def events(*ids):
    return [LogEntry(number, "", message_id) for number, message_id in enumerate(ids)]


POST = [
    ("InPOST", "None"),
    ("InPOST", "PrimaryProcessorInitializationStarted"),
    ("InPOST", "MemoryInitializationStarted"),
    ("InPOST", "BusInitializationStarted"),
    ("InPOST", "PCIResourceConfigStarted"),
    ("CollectingSystemInventory", "SystemHardwareInitializationComplete"),
    ("OutOfPOST", "OSBootStarted"),
    ("OutOfPOST", "OSRunning"),
]
OLD = ("OutOfPOST", "OSRunning")


def test_a_boot_that_goes_through_restarts_never():
    assert restarts(sights(OLD, *POST), events("RAC0703", "SYS1003", "OSE1000")) == 0


def test_a_stage_order_of_its_own_is_no_restart():
    swapped = [POST[1], POST[3], POST[2], POST[3], POST[4]]
    assert restarts(sights(*swapped), ()) == 0


def test_falling_back_is_a_restart():
    assert restarts(sights(OLD, *POST[:5], *POST[1:5], *POST[1:]), ()) == 2


def test_the_log_tells_restarts_that_nobody_saw():
    assert restarts(sights(*POST[:2]), events("SYS1003", "UEFI0256", "SYS1003", "UEFI0256", "SYS1003")) == 2


def test_older_firmware_has_only_the_server_status():
    seen = sights(("InPOST", ""), ("CollectingSystemInventory", ""), ("InPOST", ""), ("OutOfPOST", ""))
    assert [sight.level for sight in seen] == [Level.HARDWARE, Level.READY, Level.HARDWARE, Level.LOADING]
    assert restarts(seen, ()) == 1


@pytest.mark.parametrize("server", ["HaltedF1/F2Prompt", "HaltedF1/F2/F11Prompt"])
def test_a_prompt_is_a_halt_and_named_before_its_progress(server):
    seen = Sight(0.0, server, "SystemHardwareInitializationComplete")
    assert seen.is_halted
    assert seen.stage == server


def test_a_machine_without_power_is_off_whatever_it_said_last():
    assert Sight(0.0, "PoweredOff", "OSRunning").level is Level.OFF
    assert Sight(0.0, "OutOfPOST", "OSRunning", "Off").level is Level.OFF


def test_each_stage_lasts_until_the_next():
    assert stages(sights(*POST[:3])) == (("InPOST", 10.0), ("PrimaryProcessorInitializationStarted", 10.0))
    assert stages(()) == ()
