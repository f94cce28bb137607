"""POST as the BMC shows it: where a boot is, how often it began again, and whether it still moves. Pure.

    off ──▶ hardware ──▶ resources ──▶ ready ──▶ loading ──▶ running        Level
             memory,      PCI          inventory  OS boot     OS
             buses, ...   windows                 started     running

Only falling from level to level is a restart: the order of stages inside a level differs from machine to machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from harness.devices.idrac_facts import LcStatus, LogEntry, System
from harness.procedures.host_state import ATTENDED, UNDERWAY

RESTARTS = frozenset({"SYS1000", "SYS1003"})
"""Lifecycle-log ids of a machine that turns on or resets its processors (EEMI registry 2.9.0)."""

LOOPS = frozenset({"UEFI0256"})
"""Ids that a machine logs each time round: legacy I/O space used up by GPUs. It restarts before the Lifecycle Controller is there,
so no job can run (an R740 with BIOS 2.4.7 and Tesla M10, server.vpnwp.com)."""


class Level(IntEnum):
    """How far a boot is."""

    OFF = 0
    HARDWARE = 1
    RESOURCES = 2
    READY = 3
    LOADING = 4
    RUNNING = 5


_LEVELS = {
    "None": Level.OFF,
    "PrimaryProcessorInitializationStarted": Level.HARDWARE,
    "BusInitializationStarted": Level.HARDWARE,
    "MemoryInitializationStarted": Level.HARDWARE,
    "SecondaryProcessorInitializationStarted": Level.HARDWARE,
    "PCIResourceConfigStarted": Level.RESOURCES,
    "SystemHardwareInitializationComplete": Level.READY,
    "SetupEntered": Level.READY,
    "OSBootStarted": Level.LOADING,
    "OSRunning": Level.RUNNING,
}
"""BootProgress.LastState (ComputerSystem.v1_20_1), from iDRAC9 7.00 on."""

_SERVER_LEVELS = {
    "PoweredOff": Level.OFF,
    "InPOST": Level.HARDWARE,
    "CollectingSystemInventory": Level.READY,
    "AutomatedTaskExecution": Level.READY,
    "OutOfPOST": Level.LOADING,
}
"""ServerStatus (DellLCService.v1_7_1), for firmware without BootProgress."""


@dataclass(frozen=True)
class Sight:
    """One look at the host: ServerStatus, BootProgress (empty before iDRAC9 7.00) and power, at the clock's time ``at``."""

    at: float
    server: str
    progress: str = ""
    power: str = ""

    @property
    def stage(self) -> str:
        """What to call it: the more precise of the two words."""
        return self.progress if self.progress not in ("", "None", "OEM") and not self.is_halted else self.server

    @property
    def level(self) -> Level:
        """How far the boot is."""
        if self.server == "PoweredOff" or self.power == "Off":
            return Level.OFF
        return _LEVELS.get(self.progress, _SERVER_LEVELS.get(self.server, Level.HARDWARE))

    @property
    def is_halted(self) -> bool:
        """POST stopped at a prompt and waits for a key, for ever: HaltedF1/F2Prompt and HaltedF1/F2/F11Prompt."""
        return self.server.startswith("Halted")

    @property
    def is_attended(self) -> bool:
        """Somebody, or a forgotten key press, took it into setup, boot menu or Lifecycle Controller."""
        return self.server in ATTENDED

    @property
    def is_underway(self) -> bool:
        """In POST, or off on the way there."""
        return self.server in UNDERWAY or self.server == "PoweredOff"

    @property
    def is_through(self) -> bool:
        """Out of POST: the operating system's turn."""
        return self.server == "OutOfPOST"

    def same_place(self, other: Sight) -> bool:
        """True where nothing moved between the two."""
        return (self.server, self.progress, self.power) == (other.server, other.progress, other.power)

    def __str__(self) -> str:
        return f"{self.server}, {self.progress}" if self.progress else self.server


def sight(lc: LcStatus, system: System) -> Sight:
    """One look from the two answers."""
    return Sight(system.at, lc.server, system.boot_progress, system.power_state)


def restarts(sights: Sequence[Sight], events: Sequence[LogEntry]) -> int:
    """How often the boot began again by itself, by what was seen and by what the log says, whichever is more.

    ``events`` are those since the reset; the first entry and the first POST are the reset's own.
    """
    first = next((number for number, seen in enumerate(sights) if seen.is_underway), len(sights))
    falls = sum(1 for before, after in pairwise(sights[first:]) if after.level < before.level)
    logged = sum(1 for event in events if event.message_id in RESTARTS) - 1
    looped = sum(1 for event in events if event.message_id in LOOPS) - 1
    return max(falls, logged, looped, 0)


def stages(sights: Sequence[Sight]) -> tuple[tuple[str, float], ...]:
    """Each stage in the order it was seen, with the seconds until the next one; the last one has none and is left out."""
    return tuple((before.stage, round(after.at - before.at, 3)) for before, after in pairwise(sights))
