"""Does the way to a part stay as it is while it is watched for half a minute?"""

from __future__ import annotations

import pytest

from harness.devices.pcie import Snapshot
from harness.devices.pcie.watch import Watch
from harness.errors import NotApplicable
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.steadiness import judge_error_rate, judge_steadiness

_NOT_WATCHED = "the platform has no GPUs, and links to other parts are not watched"


@pytest.mark.check("pcie.steady")
def test_no_link_on_the_way_changes(slot: Slot, pcie: Snapshot, links_watched: Watch | None, measure: Measure) -> None:
    """A failure means a link that retrains again and again, which looks healthy in any single snapshot."""
    if links_watched is None:
        raise NotApplicable(_NOT_WATCHED)
    judge_steadiness(pcie, slot, links_watched).record(measure)


@pytest.mark.check("pcie.error-rate")
def test_corrected_errors_do_not_keep_coming(
    slot: Slot, platform: Platform, pcie: Snapshot, links_watched: Watch | None, measure: Measure
) -> None:
    """A failure means a marginal link: it loses no data yet, and time with every packet it sends again."""
    if links_watched is None:
        raise NotApplicable(_NOT_WATCHED)
    judge_error_rate(pcie, slot, links_watched, platform.pcie.corrected_errors).record(measure)
