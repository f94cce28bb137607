"""Do all that know who sits in a slot say the same?"""

from __future__ import annotations

import pytest

from harness.bench import Bench
from harness.devices.fabric import FabricPart
from harness.devices.idrac_pcie import BmcInventory
from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain
from harness.procedures.views import judge_views, machine_of, views


@pytest.mark.check("pcie.four-view")
@pytest.mark.vital
def test_everybody_names_the_same_part(
    slot: Slot,
    *,
    bench: Bench,
    platform: Platform,
    pcie: Snapshot,
    chain: Chain,
    fabric_parts: tuple[FabricPart, ...] | None,
    bmc_parts: BmcInventory | None,
    measure: Measure,
) -> None:
    """A failure means a stale list or a neighbour's part; the stages that load the parts are closed, for it may be in use.

    Fabric, BMC and operating system are compared here; the driver joins in the gpu stage, since it opens the GPUs to read them.
    """
    if fabric_parts is None:
        raise NotApplicable("the bench has no fabric to compare with")
    slots = [platform.slot(name) for name in chain.slots]
    machine = machine_of(fabric_parts, slots, "" if bench.fabric is None else bench.fabric.machine)
    seen = views(pcie, slots, fabric_parts, bmc_parts)
    judge_views("pcie", slot, seen, fabric_parts, machine).record(measure)
