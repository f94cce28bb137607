"""Copies between all GPUs: every byte right, straight over the fabric, with links at full speed, also when many copy at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.devices.gpu import Gpu, Inventory
from harness.devices.p2p import Report
from harness.errors import Blocked, NotApplicable, NotMeasured
from harness.limits import exactly
from harness.platform import Platform, Slot, Uplink
from harness.plugin.measuring import Measure
from harness.procedures.gpu import model_of, peerings
from harness.procedures.p2p import (
    judge_budget,
    judge_contention,
    judge_integrity,
    judge_link,
    judge_path,
    judge_watchdog,
)
from harness.procedures.p2p_loopback import judge_loopback
from harness.procedures.p2p_missing import missing_from, why_no_contention
from harness.procedures.places import Place, find_places, index_of


@pytest.mark.check("p2p.preflight")
def test_nothing_stands_in_the_way_of_copies(p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """Every GPU may have as many peers as the copies take.

    A failure usually means that another process, often an X server, holds peers: a GPU may have eight, counted system-wide.
    """
    places = _places(p2p, gpu_in, platform)
    for gpu in p2p.gpus:
        limit = platform.pcie.iommu if gpu.iommu else None
        measure("p2p.iommu", "off" if gpu.iommu == "none" else gpu.iommu or "not told", limit=limit, part=places[gpu.index].slot)
    if p2p.contexts is not None:
        measure("p2p.contexts", p2p.contexts.seconds, unit="s", note=f"{p2p.contexts.count} made, each for one {p2p.contexts.life}")
    judge_budget(p2p, places, platform.p2p.peers).record(measure)


@pytest.mark.check("p2p.watchdog")
@pytest.mark.presence
def test_every_copy_ends(slot: Slot, p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """Every copy of the GPU ends, without an error of the driver.

    A failure usually means that the GPU fell off the bus, or that its power did. It is not used any more; the others go on.
    """
    places = _places(p2p, gpu_in, platform)
    judge_watchdog(p2p, places, _index_of(slot, places)).record(measure)


@pytest.mark.check("p2p.loopback")
def test_every_gpu_copies_its_own_memory(
    slot: Slot, p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The GPU copies within its own memory to the last byte. No link and no other GPU takes part.

    A failure means that its memory or its copy engine is failing. It is no peer-to-peer copy, and all that one GPU alone can show.
    """
    places = _seen(p2p, gpu_in, platform)
    judge_loopback(p2p, places, _index_of(slot, places), platform.p2p.bad_bytes).record(measure)


@pytest.mark.check("p2p.integrity")
def test_every_byte_arrives(slot: Slot, p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """Every byte that the GPU writes or that is read from it arrives.

    A failure means that peer writes are dropped or go elsewhere, without any error: IOMMU, access control, a switch. Do not use
    the machine.
    """
    places = _places(p2p, gpu_in, platform)
    index = _index_of(slot, places)
    missing = missing_from(p2p, places, index)
    measure("p2p.copies-missing", None if missing else 0, limit=exactly(0), part=slot, note="; ".join(missing))
    judge_integrity(p2p, places, index, platform.p2p.bad_bytes).record(measure)


@pytest.mark.check("p2p.path")
def test_copies_go_straight_to_the_other_gpu(
    *, slot: Slot, p2p: Report, platform: Platform, gpus: Inventory, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """Copies from the GPU go straight to the others, no faster than the link can.

    A failure usually means that they silently go through host memory: the bandwidth alone does not show it.
    """
    places = _places(p2p, gpu_in, platform)
    said = peerings(gpus, gpu_in)
    judge_path(p2p, places, _index_of(slot, places), platform.p2p, said).record(measure)


@pytest.mark.check("p2p.link-under-load")
def test_every_link_is_fast_under_load(
    slot: Slot, p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The GPU's link runs at full speed and width while it is busy.

    A failure usually means a card, riser, cable or port. At rest the speed tells nothing: links idle down.
    """
    places = _places(p2p, gpu_in, platform)
    index = _index_of(slot, places)
    model = model_of(gpu_in[slot.name], platform.models_for(slot))
    if model is None or model.link is None or platform.gpu is None:
        raise NotMeasured(f"{slot}: the platform says no link for the GPU there")
    judge_link(p2p, places, index, model.link, platform.gpu.replay_rate).record(measure)


@pytest.mark.check("p2p.contention")
def test_an_uplink_keeps_its_rate_when_many_copy(
    uplink: Uplink, p2p: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The uplink keeps its rate when several GPUs use it at once.

    A failure with healthy pairs usually means that posted writes of several GPUs block each other in a switch.
    """
    places = _places(p2p, gpu_in, platform)
    if reason := why_no_contention(places, uplink.name):
        raise NotApplicable(reason)
    judge_contention(p2p, places, uplink.name, platform.p2p.contention_ratio).record(measure)


def _places(p2p: Report, gpu_in: Mapping[str, Gpu], platform: Platform) -> dict[int, Place]:
    """The slot of each GPU of the report. Raises Blocked where the worker refused to copy, NotApplicable without two GPUs."""
    places = _seen(p2p, gpu_in, platform)
    if len(places) < 2:
        raise NotApplicable("it takes two GPUs to copy from one to the other")
    return places


def _seen(p2p: Report, gpu_in: Mapping[str, Gpu], platform: Platform) -> dict[int, Place]:
    """The same, for one GPU as well."""
    if p2p.refused:
        raise Blocked(f"the copies were refused: {p2p.refused}")
    return find_places(p2p.gpus, gpu_in, platform.slots)


def _index_of(slot: Slot, places: Mapping[int, Place]) -> int:
    index = index_of(places, slot.name)
    if index is None:
        raise NotMeasured(f"{slot}: CUDA does not list the GPU there, so nothing was copied from it")
    return index
