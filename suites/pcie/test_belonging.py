"""Is this tree that of the machine which was restarted, and not of another one that answers under its name?"""

from __future__ import annotations

import pytest

from harness.bench import Bench
from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable
from harness.plugin.measuring import Measure
from harness.procedures.belonging import judge_belonging
from harness.procedures.boot import BootStory


@pytest.mark.check("pcie.machine")
@pytest.mark.vital
def test_the_tree_is_that_of_the_pinned_machine(
    bench: Bench, watched_boot: BootStory | None, pcie: Snapshot, measure: Measure
) -> None:
    """A failure of the bench means an ssh alias or a console of another machine; of the product, that it restarted by itself."""
    if not bench.service_tag:
        raise NotApplicable("the bench pins no service tag, so the machine is whichever answers")
    judge_belonging(pcie.host, watched_boot, bench.service_tag).record(measure)
