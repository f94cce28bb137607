"""Did every expected part make it from the cable to its last BAR, and if not, which link of the chain lost it?

Each check judges one link. A part that an earlier link lost is not judged again.
"""

from __future__ import annotations

import pytest

from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable
from harness.limits import Limit, exactly
from harness.platform import Platform, Slot, Uplink
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain, ChainLink, bars_expected, model_for


@pytest.mark.check("pcie.uplink")
@pytest.mark.presence
def test_every_chassis_is_connected(uplink: Uplink, chain: Chain) -> None:
    """A failure loses a whole chassis: its cable, its power, or a host that was started before it."""
    assert chain.uplink_lost(uplink) is None, chain.explain(uplink)


@pytest.mark.check("pcie.chain-link")
@pytest.mark.presence
def test_the_link_of_every_slot_is_up(slot: Slot, chain: Chain) -> None:
    """A failure means that the port is there and its link is not: the card's seat, its power, or a lane."""
    assert chain.holds(slot, ChainLink.LINK), chain.explain(slot)


@pytest.mark.check("pcie.buses")
@pytest.mark.presence
def test_every_slot_has_a_bus_number(slot: Slot, chain: Chain) -> None:
    """A failure means that the host bridge's range of bus numbers is too small for what is attached."""
    assert chain.holds(slot, ChainLink.BUSES), chain.explain(slot)


@pytest.mark.check("pcie.enumerated")
@pytest.mark.presence
def test_every_slot_is_enumerated(slot: Slot, chain: Chain) -> None:
    """A failure means that the link is up and nothing answers: a card that did not start, or fell off the bus."""
    assert chain.holds(slot, ChainLink.ENUMERATED), chain.explain(slot)


@pytest.mark.check("pcie.bars")
@pytest.mark.presence
def test_every_bar_has_a_place(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure usually means that the 32-bit memory window of the host bridge is full: each GPU takes 16 MiB of 216."""
    assert chain.holds(slot, ChainLink.BARS), chain.explain(slot)
    indices, limits = _bars(pcie, platform, slot, are_wide=False)
    if not indices:
        raise NotApplicable(f"the platform lists no BAR for the part in {slot}")
    _measure_sizes(pcie, slot, indices, limits, measure)


@pytest.mark.check("pcie.aperture")
@pytest.mark.presence
def test_every_aperture_has_a_place(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure means no peer can reach this GPU's memory: 64-bit space is off, full, or the BAR was passed over silently."""
    assert chain.holds(slot, ChainLink.APERTURE), chain.explain(slot)
    indices, limits = _bars(pcie, platform, slot, are_wide=True)
    if not indices:
        raise NotApplicable(f"the part in {slot} is no GPU with an aperture")
    _measure_sizes(pcie, slot, indices, limits, measure)


def _bars(pcie: Snapshot, platform: Platform, slot: Slot, *, are_wide: bool) -> tuple[tuple[int, ...], dict[int, Limit]]:
    """The BARs that must have a place, and the sizes the platform gives for them."""
    function = pcie.at(slot.path)
    if function is None:
        return (), {}
    model = model_for(function, platform.models_for(slot))
    sizes = {} if model is None else {index: exactly(size, "B") for index, size in model.bars.items()}
    return bars_expected(function, model)[are_wide], sizes


def _measure_sizes(pcie: Snapshot, slot: Slot, indices: tuple[int, ...], limits: dict[int, Limit], measure: Measure) -> None:
    function = pcie.at(slot.path)
    for index in indices:
        bar = None if function is None else function.bar(index)
        measure(f"pcie.bar{index}", None if bar is None else bar.size, limit=limits.get(index), unit="B", part=slot)
