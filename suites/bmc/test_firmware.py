"""Is the firmware of the machine's parts good enough?"""

from __future__ import annotations

import pytest

from harness.devices.firmware import Firmware
from harness.errors import NotApplicable
from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.firmware import judge


@pytest.mark.check("bmc.firmware")
def test_the_firmware_of_every_part_is_neither_denied_nor_too_old(
    platform: Platform, firmware: tuple[Firmware, ...], measure: Measure
) -> None:
    """A failure means a version with a known fault, or older than the minimum; what a rollback would bring back does not count."""
    if not platform.firmware:
        raise NotApplicable("the platform has no [[firmware]]")
    readings = judge(firmware, platform.firmware)
    for reading in readings:
        measure(f"firmware.{reading.label}", reading.version or None)
    complaints = [f"{reading.label}: {reading.complaint}" for reading in readings if reading.complaint]
    assert not complaints, "; ".join(complaints)
