"""Brings the BIOS of a served model up, as a process of its own: ``_applying.py URL PIN CLOCK``. It prints how that ended.

Both processes share one virtual clock: a file with the seconds in it, which only the one that waits moves on.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
from pathlib import Path

from harness.clock import Clock, Deadline


class SharedClock(Clock):
    """Virtual time in a file of eight bytes."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        if not file.exists():
            file.write_bytes(struct.pack("d", 0.0))
        with file.open("r+b") as opened:
            self._seconds = mmap.mmap(opened.fileno(), 8)

    def now(self) -> float:
        return float(struct.unpack("d", self._seconds[:8])[0])

    def sleep(self, seconds: float) -> None:
        self._seconds[:8] = struct.pack("d", self.now() + max(0.0, seconds))

    def doze(self, every: float, deadline: Deadline) -> None:
        self.sleep(min(every, deadline.left(self)))


def main(url: str, pin: str, clock_file: str) -> None:
    from harness.consent import Consent
    from harness.devices.idrac import Idrac
    from harness.devices.redfish import Redfish
    from harness.lab.model import parts
    from harness.live.http import RedfishHttp
    from harness.locator import find_platform
    from harness.procedures.bios import bring_bios
    from harness.procedures.handover import Handover
    from harness.secret import SecretReference

    clock = SharedClock(Path(clock_file))
    lane = RedfishHttp(url, parts.BMC_USER, SecretReference(env="MODEL_PASSWORD"), clock, pin=pin)
    handover = Handover()
    try:
        platform, _ = find_platform("lqd8360")
        idrac = Idrac(Redfish(lane, clock))
        story = bring_bios(idrac, platform, Consent(apply=True), handover, expected_tag=parts.SERVICE_TAG)
    finally:
        lane.close()
    sys.stdout.write(json.dumps({"stopped": story.stopped, "patches": story.patches, "handover": handover.line()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
