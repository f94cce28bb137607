"""What stands in the way of copies before the first one: an IOMMU that translates, switches that redirect.

    root port ── switch up ── switch down ── GPU        group: the upstream port that all GPUs below one switch share

A translating IOMMU drops peer writes or lets them land elsewhere (NVIDIA's CUDA guide: "silent device memory corruption"), so what
counts is the domain type of each GPU's own group, not the command line. ACS redirects send peer traffic up to the root complex.
"""

import os
import re
import struct
from typing import Dict, List, Optional, Sequence, Tuple

from .tree import Tree

SAFE = ("none", "identity")
_DEVICES = ("sys", "bus", "pci", "devices")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ACS = 0x000D
_REDIRECTS = ((0x04, "RR"), (0x08, "CR"), (0x20, "EC"))
_HEADER = 256


def bridges_above(tree: Tree, address: str) -> Optional[List[str]]:
    """The ports from the root port down to the GPU; None where sysfs does not show the GPU."""
    link = tree.path(*_DEVICES, address)
    if not os.path.islink(link):
        return None
    parts = os.path.realpath(link).split(os.sep)
    return [part for part in parts[:-1] if _ADDRESS.match(part)]


def switches_above(ports: Optional[Sequence[str]]) -> Optional[Tuple[str, ...]]:
    """The upstream ports of the switches above a GPU, its own first; a root port of its own counts as one.

    None where nobody knows, as in a virtual machine that shows its GPUs on the root bus.
    """
    if not ports:
        return None
    if len(ports) < 3:
        return (ports[0],)
    return tuple(ports[place] for place in range(len(ports) - 2, 0, -2))


def iommu_of(tree: Tree, address: str) -> str:
    """The domain type of the GPU's IOMMU group, ``none`` where it has no group, ``unknown`` where it cannot be read."""
    group = tree.link(*_DEVICES, address, "iommu_group")
    if not group:
        return "none"
    return tree.text("sys", "kernel", "iommu_groups", group, "type") or "unknown"


def redirects_of(tree: Tree, address: str) -> Optional[List[str]]:
    """The ACS controls of a port that send peer traffic upwards; None where only root could read them."""
    config = tree.data(*_DEVICES, address, "config", most=4096)
    if config is None or len(config) <= _HEADER:
        return None
    place, seen = _HEADER, 0
    while place and place + 8 <= len(config) and seen < 100:
        header = struct.unpack_from("<I", config, place)[0]
        if header & 0xFFFF == _ACS:
            control = struct.unpack_from("<H", config, place + 6)[0]
            return [name for bit, name in _REDIRECTS if control & bit]
        place, seen = header >> 20, seen + 1
    return []


def refusal(iommu: Dict[int, str]) -> str:
    """Why nothing may be copied, or nothing."""
    unsafe = {index: kind for index, kind in iommu.items() if kind not in SAFE}
    if not unsafe:
        return ""
    kinds = ", ".join(sorted(set(unsafe.values())))
    return (
        "the IOMMU translates for {} of {} GPUs ({}): peer writes would be lost or land elsewhere; "
        "switch it off, or boot with iommu=pt"
    ).format(len(unsafe), len(iommu), kinds)
