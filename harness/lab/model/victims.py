"""Which slots or chassis each fault of the catalogue needs: without a GPU there it could not act, and so prove nothing.

A fault of a whole chassis (a name without a slot) needs any GPU in it. Faults of the whole machine need nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.lab.model import driver, fabric, listing, nvml, p2p, resnet50
from harness.lab.model.parts import CHASSIS, GPUS, SWAPPED
from harness.lab.model.pcie_setup import VICTIMS

_FULL = tuple(gpu.slot for gpu in GPUS if gpu.chassis == CHASSIS[1])
"""Windows that are too small by two GPUs need the other eight too."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    **VICTIMS,
    "pcie.bars": _FULL,
    "pcie.aperture.window": _FULL,
    "pcie.four-view": (fabric.NOT_OURS,),
    "pcie.four-view.fabric": (fabric.UNKNOWN,),
    "pcie.four-view.bmc": (listing.UNLISTED,),
    "pcie.four-view.system": (SWAPPED,),
    "gpu.four-view": (nvml.OTHER_SERIAL,),
    "gpu.nvml-count": (driver.UNINITIALISED,),
    "gpu.memory": (nvml.SHORT_OF_MEMORY,),
    "gpu.ecc": (nvml.RETIRING,),
    "gpu.xids": (driver.REPORTED,),
    "benign.xid-of-a-program": (driver.PROGRAMMED,),
    "gpu.replay-rate": (nvml.REPLAYING,),
    "gpu.alike": (nvml.OTHER_VBIOS,),
    "p2p.preflight": ("jbogA/slot01",),
    "p2p.watchdog": p2p.WEDGED,
    "p2p.integrity.dropped": p2p.DROPPED,
    "p2p.integrity.misrouted": p2p.MISROUTED,
    "p2p.path.staged": (p2p.STAGED,),
    "p2p.path.impossible": p2p.IMPOSSIBLE,
    "p2p.path.one-line": p2p.ONE_LINE,
    "p2p.loopback": (p2p.LOOPED,),
    "p2p.link-under-load": (p2p.SLOW_LINK,),
    "p2p.link-under-load.hot": (p2p.HOT,),
    "p2p.contention": tuple(chassis.name for chassis in CHASSIS),
    "resnet50.hash": (resnet50.DIFFERENT,),
    "resnet50.straggler": (resnet50.STRAGGLER,),
    "resnet50.watched.power": (resnet50.BRAKED,),
    "resnet50.watched.xid": (resnet50.REPORTED,),
    "resnet50.nan": (resnet50.NOT_A_NUMBER,),
    "resnet50.ranks": (resnet50.ASTRAY,),
    "benign.old-replays": (nvml.OLD_REPLAYS,),
    "benign.nvlink-pair": tuple(sorted(p2p.BRIDGED)),
}


def victims(fault_id: str) -> tuple[str, ...]:
    """The slots (``jbogA/slot01``) that need a GPU, or the chassis (``jbogA``), for a fault to act; empty for the whole machine."""
    return NEEDED.get(fault_id, ())


def unpopulated(fault_id: str, populated: frozenset[str]) -> tuple[str, ...]:
    """The victims of a fault that are not there: slots without a GPU, and chassis without any."""
    return tuple(
        place
        for place in victims(fault_id)
        if place not in populated and not any(slot.startswith(f"{place}/") for slot in populated)
    )
