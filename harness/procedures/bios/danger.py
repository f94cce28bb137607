"""Classes of BIOS change that can cost the console, the data or the machine. Each must be named on the command line.

They are data: a class, the attributes it is about, the values that make it dangerous, and why. A platform file may want such a
value, but wanting is not consent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from harness.errors import UsageMistake
from harness.limits import Value


@dataclass(frozen=True)
class Danger:
    """``attribute`` and ``value`` are regular expressions that match wholly; an empty ``value`` is any."""

    name: str
    attribute: str
    value: str
    why: str

    def covers(self, attribute: str, value: Value) -> bool:
        """True where setting ``attribute`` to ``value`` belongs to this class."""
        return bool(re.fullmatch(self.attribute, attribute, re.IGNORECASE)) and (
            not self.value or bool(re.fullmatch(self.value, str(value)))
        )


DANGERS = (
    Danger(
        "console",
        "SerialComm|SerialPortAddress|ExtSerialConnector|FailSafeBaud|ConTermType|RedirAfterBoot",
        "",
        "the serial console may go silent",
    ),
    Danger("boot-mode", "BootMode|ForceInt10", "", "an installed system may not boot any more"),
    Danger("secure-boot", "SecureBoot.*", "", "an unsigned driver is refused, or keys are lost"),
    Danger(
        "password",
        "SHA256.*|.*(Password|Passwd|Passphrase).*|PwdMinLength|.*ChapSecret.*",
        "",
        "the machine may lock everybody out",
    ),
    Danger("tpm", "Tpm.*|IntelTxt", "", "sealed disks cannot be opened any more"),
    Danger("storage-mode", "NvmeMode|EmbSata|SataPort.*|BiosNvmeDriver", "", "disks may vanish from the operating system"),
    Danger("slot", r"Slot\d+", "Disabled|BootDriverDisabled", "what sits behind the slot vanishes"),
    Danger("slot", r"Slot\d+Bif|DellAutoDiscovery", "", "a host adapter that is split loses lanes"),
    Danger("mmio", "MmioAbove4Gb", "Disabled", "GPUs lose their memory windows and POST may not end"),
    Danger("memory", "MemoryMappedIOH", "512GB", "memory above 512 GB is cut off"),
    Danger("uefi-variables", "UefiVariableAccess", "", "firmware settings can no longer be changed from outside"),
    Danger("in-band-management", "InBandManageabilityInterface", "", "the host loses its way to the BMC"),
    Danger("ac-recovery", "AcPwrRcvry", "Off", "the machine stays off after a power cut"),
    Danger("power-cycle", "PowerCycleRequest", "(?!None$).*", "the whole machine loses its power with the restart, the BMC too"),
)

NAMES = tuple(dict.fromkeys(danger.name for danger in DANGERS))
"""The names a command line may give."""


def unnamed(attribute: str, value: Value, named: Collection[str]) -> tuple[Danger, ...]:
    """The classes this change belongs to and that nobody has named."""
    return tuple(danger for danger in DANGERS if danger.covers(attribute, value) and danger.name not in named)


def check_dangers(names: Collection[str]) -> None:
    """Raise UsageMistake for a name that is no class, with the nearest one."""
    for name in sorted(names):
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UsageMistake(f"no danger class {name!r}{hint} The classes are {', '.join(NAMES)}.")
