"""Does the driver name the same part in a slot as all others that know?"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.bench import Bench
from harness.devices.fabric import FabricPart
from harness.devices.gpu import Gpu
from harness.devices.idrac_pcie import BmcInventory
from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain
from harness.procedures.views import judge_views, machine_of, views


@pytest.mark.check("gpu.four-view")
@pytest.mark.vital
def test_the_driver_names_the_same_part_as_all_others(
    slot: Slot,
    *,
    bench: Bench,
    platform: Platform,
    pcie: Snapshot,
    chain: Chain,
    fabric_parts: tuple[FabricPart, ...] | None,
    bmc_parts: BmcInventory | None,
    gpu_in: Mapping[str, Gpu],
    measure: Measure,
) -> None:
    """The serial number that the driver reads is that of the fabric, the BMC and the operating system.

    A failure usually means two parts that changed places since the fabric's list was made, or a neighbour's part: the stages that
    load the GPUs are closed.
    """
    if fabric_parts is None:
        raise NotApplicable("the bench has no fabric to compare with")
    slots = [platform.slot(name) for name in chain.slots]
    machine = machine_of(fabric_parts, slots, "" if bench.fabric is None else bench.fabric.machine)
    seen = views(pcie, slots, fabric_parts, bmc_parts, gpu_in)
    judge_views("gpu", slot, seen, fabric_parts, machine).record(measure)
