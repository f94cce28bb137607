"""Where a start is, told by what firmware and kernel say on the console and by the bus numbers that firmware has given.

    power ─▶ hardware ─▶ buses numbered ─▶ firmware speaks ─▶ loader ─▶ login:
             (silent)     (root port)           └▶ Shell>  nothing to boot: it waits for a key

Pure: bytes in, a stage out. The texts are OVMF's and Linux' own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.lab.idrac.controller import Status

_ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_KEPT = 4096

HARDWARE = Status("On", "InPOST", "PrimaryProcessorInitializationStarted")
RESOURCES = Status("On", "InPOST", "PCIResourceConfigStarted")
READY = Status("On", "InPOST", "SystemHardwareInitializationComplete")
HALTED = Status("On", "HaltedF1/F2Prompt", "SystemHardwareInitializationComplete")
LOADING = Status("On", "OutOfPOST", "OSBootStarted")
RUNNING = Status("On", "OutOfPOST", "OSRunning")

STAGES = (HARDWARE, RESOURCES, READY, HALTED, LOADING, RUNNING)

_SIGNS = (
    (RUNNING, re.compile(rb"login: ?(?:$|\[ *\d+\.\d+\])", re.MULTILINE)),  # the kernel may go on talking behind it
    (LOADING, re.compile(rb"EFI stub: |Linux version \d")),
    (HALTED, re.compile(rb"Shell> ")),
)


@dataclass(frozen=True)
class Post:
    """How far one start is. ``tail`` is the end of what was said, so that a sign in two pieces is seen."""

    status: Status = HARDWARE
    tail: bytes = b""

    def hear(self, data: bytes) -> Post:
        """What it is after ``data`` came on the console. A start never goes back."""
        if not data:
            return self
        text = self.tail + data
        plain = _ESCAPES.sub(b"", text)
        reached = next((status for status, sign in _SIGNS if sign.search(plain)), READY)
        return Post(_later(self.status, reached), text[-_KEPT:])

    def number_buses(self) -> Post:
        """What it is after firmware was seen to have given bus numbers."""
        return Post(_later(self.status, RESOURCES), self.tail)


def _later(one: Status, other: Status) -> Status:
    return max(one, other, key=STAGES.index)
