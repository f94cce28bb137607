"""Are the links as wide and as fast as they must be, at both ends and at every hop?

The speed of a GPU's own link is judged under load by a later stage: at rest it falls to 2.5 GT/s on purpose.
"""

from __future__ import annotations

import pytest

from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable, NotMeasured
from harness.platform import Link, Platform, Slot, Uplink
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain, model_for
from harness.procedures.links import (
    LinkEnds,
    capacity_words,
    generation,
    links_to,
    reachable_generation,
    tightest,
    uplink_links,
    why_unread,
    width,
)


@pytest.mark.check("pcie.width")
def test_every_part_trains_at_full_width(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure usually means a dirty or badly seated connector, or a slot that is bifurcated."""
    wanted = _link_of(slot, platform, pcie)
    function = pcie.at(slot.path)
    assert function is not None, chain.explain(slot)
    measure("pcie.width", width(function), limit=wanted.width, part=slot, note=why_unread(pcie, [function]))
    port = pcie.parent(function)
    if port is not None:
        measure("pcie.port-width", width(port), limit=wanted.width, part=slot, note=why_unread(pcie, [port]))
    if (hop := tightest(links_to(pcie, slot.path))) is not None:
        measure("pcie.tightest-hop", f"{hop}: {capacity_words(hop)}", part=slot)


@pytest.mark.check("pcie.target-speed")
def test_every_link_may_rise_to_full_speed(slot: Slot, platform: Platform, pcie: Snapshot, measure: Measure) -> None:
    """A failure means that one end holds the link down: a target speed left in a register, or an end that can do no more."""
    wanted = _link_of(slot, platform, pcie)
    links = links_to(pcie, slot.path)
    if not links or links[-1].lower.path != slot.path:
        raise NotApplicable(f"{slot} has no link of its own to a port above")
    ends = (links[-1].upper, links[-1].lower)
    reachable = reachable_generation(links[-1])
    measure("pcie.target-generation", reachable, limit=wanted.generation, part=slot, note=why_unread(pcie, ends))


@pytest.mark.check("pcie.uplink-width")
def test_every_uplink_has_full_width(uplink: Uplink, pcie: Snapshot, measure: Measure) -> None:
    """A failure halves the bandwidth of a whole chassis: one of the cable's connectors, or the slot of the HBA."""
    for number, link in enumerate(_uplink_links(uplink, pcie), start=1):
        for end, function in (("upper", link.upper), ("lower", link.lower)):
            name = f"pcie.uplink-width.hop{number}.{end}"
            measure(name, width(function), limit=uplink.link.width, part=uplink, note=why_unread(pcie, [function]))


@pytest.mark.check("pcie.uplink-speed")
def test_every_uplink_runs_at_full_speed(uplink: Uplink, pcie: Snapshot, measure: Measure) -> None:
    """A failure means a cable that does not carry the speed: uplinks do not fall back when GPUs are at rest."""
    for number, link in enumerate(_uplink_links(uplink, pcie), start=1):
        for end, function in (("upper", link.upper), ("lower", link.lower)):
            name = f"pcie.uplink-generation.hop{number}.{end}"
            measure(name, generation(function), limit=uplink.link.generation, part=uplink, note=why_unread(pcie, [function]))


def _link_of(slot: Slot, platform: Platform, pcie: Snapshot) -> Link:
    """The link that the part in a slot must have."""
    models = platform.models_for(slot)
    function = pcie.at(slot.path)
    model = None if function is None else model_for(function, models)
    links = [known.link for known in ([model] if model is not None else models) if known.link is not None]
    if not links:
        raise NotApplicable(f"the platform gives no link for the part in {slot}")
    return links[0]


def _uplink_links(uplink: Uplink, pcie: Snapshot) -> tuple[LinkEnds, ...]:
    links = uplink_links(pcie, uplink.path)
    if not links:
        raise NotMeasured(f"no link on the path of {uplink} could be seen")
    return links
