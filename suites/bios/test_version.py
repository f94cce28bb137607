"""Is the BIOS itself good enough?"""

from __future__ import annotations

import pytest

from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.bios import BiosStory
from harness.procedures.bios.version import objection


@pytest.mark.check("bios.version")
def test_the_bios_is_neither_denied_nor_too_old(bios: BiosStory, platform: Platform, measure: Measure) -> None:
    """A failure means a version that is known to loop with GPUs, or older than the minimum the platform asks for."""
    measure("bios.version", bios.version)
    complaint = objection(bios.version, platform.bios)
    assert not complaint, complaint
