"""What a GPU's links can carry at most one way, in GB/s: by the platform, by what files tell of the link, else by the GPU's name.

    PCIe     transfers x lanes x encoding / 8
    NVLink   links of the pair (NV6 in nvidia-smi topo -m) x what one link carries

A cell above its ceiling is no excellent copy: it did not happen as timed (NVIDIA/cuda-samples#390).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""GT/s of a lane by generation (PCI Express Base Specification)."""

_NVLINK, _NVLINK_BLACKWELL = 25.0, 50.0
"""GB/s one way of one NVLink of generation 2 to 4, and of generation 5 (NVIDIA's pages on NVLink)."""


@dataclass(frozen=True)
class Part:
    """What a GPU of some name has: the generation of its PCIe link (x16), and GB/s one way over NVLink, 0 for none."""

    generation: int
    nvlink: float = 0.0

    @property
    def pcie(self) -> float:
        """GB/s one way over its PCIe link."""
        return pcie_ceiling(self.generation, 16)


_PARTS: tuple[tuple[str, Part], ...] = (
    (r"GB[23]00|B[23]00", Part(5, 900.0)),
    (r"H200|H800|H100(?!.*PCIe)", Part(5, 450.0)),
    (r"H100.*PCIe", Part(5, 300.0)),
    (r"A100|A800", Part(4, 300.0)),
    (r"A40\b|RTX A6000|RTX 3090", Part(4, 56.25)),
    (r"V100-SXM", Part(3, 150.0)),
    (r"V100", Part(3)),
    (r"RTX PRO 6000|RTX 50[5-9]0", Part(5)),
    (r"RTX 6000 Ada|RTX 40[5-9]0|L40S?\b|L4\b", Part(4)),
    (r"RTX 8000|RTX 6000|TITAN RTX|RTX 2080", Part(3, 50.0)),
    (r"Tesla (?:P4|P40|T4)\b|GTX 10[5-8]0|GTX 1080|K80", Part(3)),
)
"""By name, the first that fits (NVIDIA's data sheets of these boards; a bridge counts, whether it is plugged or not)."""


def part_of(name: str) -> Part | None:
    """What a GPU of that name has, None where the name is not known."""
    return next((part for pattern, part in _PARTS if re.search(pattern, name, re.IGNORECASE)), None)


def pcie_ceiling(generation: int, width: int) -> float:
    """GB/s one way of a link before packet overhead: 15.75 for Gen3 x16."""
    transfers = _TRANSFERS[min(max(generation, 1), 6)]
    encoding = 0.8 if transfers < 8 else 1.0 if transfers > 32 else 128 / 130
    return transfers * width * encoding / 8


def nvlink_ceiling(cell: str, name: str) -> float | None:
    """GB/s one way of a pair that ``nvidia-smi topo -m`` calls ``NV6``; None for a pair without NVLink."""
    found = re.fullmatch(r"NV(\d{1,3})", cell)
    if found is None:
        return None
    return int(found[1]) * (_NVLINK_BLACKWELL if re.search(r"B[23]00", name) else _NVLINK)
