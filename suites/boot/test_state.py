"""What the boot left: a console that can be read, a machine that comes back after a power cut, a clean log."""

from __future__ import annotations

import pytest

from harness.devices.console import Reading
from harness.errors import BenchError, NotApplicable, NotMeasured
from harness.limits import exactly, one_of
from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.boot import BootStory
from harness.procedures.boot.story import CONSOLE
from harness.procedures.contact import Contact

_ADVICE = {
    Reading.SILENT: "not a byte came: wrong port (serial-over-LAN and the rear connector differ), or SerialComm is off",
    Reading.GARBAGE: "bytes came and hardly any can be read: another baud rate (FailSafeBaud, IPMISOL.1.BaudRate)",
    Reading.STRANGE: "text came, but no word of a boot: the port of another machine or device",
}


@pytest.mark.check("boot.console")
def test_the_console_shows_the_boot(boot: BootStory, measure: Measure) -> None:
    """A failure is the bench's: a wrong port, wrong speed, redirection off. Without a console a halted POST cannot be read."""
    if boot.console is None and boot.stopped_by == CONSOLE:
        boot.reached(CONSOLE)
    if boot.console is None:
        raise NotApplicable("the bench has no [console], or no boot was watched")
    measure("boot.console-bytes", len(boot.console.data), unit="B")
    measure("boot.console-readable", round(100 * boot.console.readable, 1), unit="%")
    if boot.stopped_by == CONSOLE:
        boot.reached(CONSOLE)
    if boot.console_error:
        raise BenchError(f"the console broke off: {boot.console_error}")
    if boot.console.reading is not Reading.BOOT:
        raise BenchError(f"the console is {boot.console.reading.value}: {_ADVICE[boot.console.reading]}")
    measure("boot.console-banner", boot.console.mark)


@pytest.mark.check("boot.power-after-ac")
def test_the_machine_comes_back_after_a_power_cut(boot: BootStory, platform: Platform, measure: Measure) -> None:
    """A failure means that somebody has to walk to it. Nothing is cut here: what the machine reports of itself is judged."""
    policy = boot.system.power_restore_policy if boot.system is not None else ""
    if not policy and not boot.ac_recovery:
        raise NotMeasured("the machine tells neither PowerRestorePolicy nor AcPwrRcvry")
    if policy:
        measure("boot.power-restore-policy", policy, limit=one_of("LastState", "AlwaysOn"))
    if boot.ac_recovery:
        wanted = platform.bios.attributes.get("AcPwrRcvry", one_of("Last", "On"))
        measure("boot.ac-recovery", boot.ac_recovery, limit=wanted)


@pytest.mark.check("boot.events")
def test_the_boot_logged_nothing_that_the_platform_forbids(
    boot: BootStory, contact: Contact, platform: Platform, measure: Measure
) -> None:
    """A failure means that firmware reports missing MMIO or I/O space, a bad link or a lost device. Ids count, not severities."""
    if boot.reset is None and contact.lc_baseline is None:
        raise NotMeasured("the Lifecycle log could not be read at the start")
    found = [event for event in boot.events if event.message_id in platform.bios.forbidden_events]
    measure("boot.events", len(boot.events))
    measure("boot.forbidden-events", len(found), limit=exactly(0))
    assert not found, "forbidden in the Lifecycle log: " + "; ".join(f"{event} {event.text}" for event in found)
