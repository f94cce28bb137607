"""What the PCIe tree of the modelled machine depends on: the faults and what they hit, and the BIOS settings in effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.lab.model.parts import SLOTS, ModelGpu, present

VICTIMS: Mapping[str, tuple[str, ...]] = {
    "pcie.uplink": ("jbogB",),
    "pcie.uplink.cable": ("jbogA",),
    "pcie.chain-link": ("jbogB/slot07",),
    "pcie.buses": ("jbogB/slot08", "jbogB/slot09", "jbogB/slot10"),
    "pcie.enumerated": ("jbogA/slot02",),
    "pcie.enumerated.fallen": ("jbogA/slot09",),
    "pcie.bars": ("jbogB/slot09", "jbogB/slot10"),
    "pcie.aperture": ("jbogA/slot06",),
    "pcie.aperture.window": ("jbogB/slot09", "jbogB/slot10"),
    "pcie.identity": ("jbogB/slot03",),
    "pcie.width": ("jbogA/slot04",),
    "pcie.target-speed": ("jbogA/slot07",),
    "pcie.uplink-width": ("jbogB",),
    "pcie.uplink-speed": ("jbogA",),
    "pcie.acs": ("jbogA",),
    "pcie.mps": ("jbogB/slot05",),
    "pcie.errors": ("jbogB/slot06",),
    "pcie.kernel-log": ("jbogA/slot05",),
    "pcie.steady": ("jbogA/slot10",),
    "pcie.error-rate": ("jbogB/slot04",),
}
"""The slots or chassis that each fault hits."""


@dataclass(frozen=True)
class Setup:
    """What of the machine's state the PCIe tree depends on: faults, MmioAbove4Gb, Dell slots switched off, slots with a GPU."""

    faults: frozenset[str] = frozenset()
    above_4g: bool = True
    disabled: frozenset[str] = frozenset()
    populated: frozenset[str] = SLOTS

    @property
    def gpus(self) -> tuple[ModelGpu, ...]:
        """The GPUs that are plugged in."""
        return present(self.faults, self.populated)

    def hits(self, fault: str, place: str) -> bool:
        """True where ``fault`` is on and hits the slot or chassis ``place``."""
        return fault in self.faults and place in VICTIMS[fault]
