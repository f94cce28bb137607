"""The machine as it comes: who it is, what happened to it before, and what somebody else has left on it."""

from __future__ import annotations

from harness.lab.idrac.controller import Controller, Identity, Status
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.sessions import MOST
from harness.lab.model import parts

DENIED_FIRMWARE = "7.00.00.00"
"""An iDRAC9 level that removes finished tasks within seconds (dell/iDRAC-Redfish-Scripting#275)."""

DENIED_VERSION = "2.4.7"
"""The BIOS of a public report of an endless UEFI0256 loop on a sister machine with GPUs attached."""

FOREIGN_TAG = "MODEL99"
COMMISSIONED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
"""What bringing the machine up changes in its BIOS: windows above 4 GiB for twenty GPUs, and no watchdog that ends a long start."""

BEFORE = 3 * 86400.0
"""Seconds that the machine has been running when the clock starts."""


def identify(faults: frozenset[str], profile: Profile, password: str) -> Identity:
    """Who the machine says it is, and the only login it takes."""
    return Identity(
        service_tag=FOREIGN_TAG if "bmc.identity" in faults else parts.SERVICE_TAG,
        model=profile.system,
        bios_version=DENIED_VERSION if "bios.version" in faults else profile.bios,
        firmware=DENIED_FIRMWARE if "bmc.firmware" in faults else profile.firmware,
        user=parts.BMC_USER,
        password="changed-by-somebody" if "bmc.auth" in faults else password,
    )


def deliver(controller: Controller, *, is_commissioned: bool = False) -> Status:
    """Write the history, leave what somebody else has left, and return where the server stands."""
    faults, bios = controller.faults, controller.bios
    if is_commissioned:
        bios.current.update(COMMISSIONED)
    bios.current["SystemBiosVersion"] = controller.identity.bios_version
    _write_history(controller)
    if faults & {"bmc.auth.sessions", "idrac.sessions-leaked"}:
        for _ in range(MOST):
            controller.sessions.start("operator", "192.0.2.7")
    if "bios.attributes" in faults:
        bios.fix("EmbVideo", "Disabled")
    if "bios.preflight-pending" in faults:
        bios.stage({"ProcX2Apic": "Enabled"})
    if "bios.preflight-jobs" in faults:
        controller.jobs.add("RAIDConfiguration", "Configure: RAID.Integrated.1-1")
    if "idrac.ok-without-location" in faults:
        bios.stage(COMMISSIONED)
    if "bios.preflight-lc" in faults:
        return Status("On", "LCUSC", "SetupEntered")
    return Status("On", "OutOfPOST", "OSRunning")


def _write_history(controller: Controller) -> None:
    """The last boot, days ago: with 64-bit windows off it complained of MMIO space then too."""
    controller.log.add("SYS1000", at=-BEFORE - 700.0)
    controller.log.add("UEFI0134", at=-BEFORE - 130.0)
    controller.log.add("OSE1000", at=-BEFORE)
    controller.inventory_at = -BEFORE - 75.0
