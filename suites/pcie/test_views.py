"""Do all that know who sits in a slot say the same?"""

from __future__ import annotations

import pytest

from harness.bench import Bench
from harness.devices.fabric import FabricPart
from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable, NotMeasured
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain
from harness.procedures.views import differences, is_joined, machine_of, views


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
    measure: Measure,
) -> None:
    """A failure means a stale list or a neighbour's part; the stages that load the parts are closed, for it may be in use."""
    if fabric_parts is None:
        raise NotApplicable("the bench has no fabric to compare with")
    slots = [platform.slot(name) for name in chain.slots]
    machine = machine_of(fabric_parts, slots, "" if bench.fabric is None else bench.fabric.machine)
    seen = next(view for view in views(pcie, slots, fabric_parts) if view.slot == slot.name)
    if not is_joined(seen, fabric_parts):
        raise NotMeasured("the fabric names no slots and the card shows no serial number: nothing joins the two lists")
    for view, serial in seen.serials.items():
        measure(f"pcie.serial.{view}", serial, part=slot)
    measure("pcie.owner", seen.owner or "nobody", part=slot)
    wrong = differences(seen, fabric_parts, machine)
    assert not wrong, "\n".join(wrong)
