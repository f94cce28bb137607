"""What all files together tell of the machine that the results are from: names, links, topology, the driver's word on peers.

    nvidia-smi -q ── address, generation, width ─┐
    topo -m, topo -p2p ── cells by GPU number ───┼─ by the tool's own index ─ Machine ─ class, ceiling, status of a pair
    the tool's own list of devices ── addresses ─┘

CUDA's order need not be nvidia-smi's, which is that of the addresses: where a tool tells the addresses of as many GPUs as the
topology has, its indexes are translated by them; else the numbers are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.devices.dumps.picture import Picture
from harness.devices.gpu import PeerStatus
from harness.devices.gpu_reports.facts import Device, Pair, Reading
from harness.devices.p2p import LinkKind
from harness.limits import Limit, at_most
from harness.platform import P2p
from harness.procedures.gpu_analysis.ceilings import nvlink_ceiling, part_of, pcie_ceiling

_SHORT = {
    "OK": PeerStatus.OK, "CNS": PeerStatus.CHIPSET_NOT_SUPPORTED, "GNS": PeerStatus.GPU_NOT_SUPPORTED,
    "TNS": PeerStatus.TOPOLOGY_NOT_SUPPORTED, "DR": PeerStatus.DISABLED_BY_REGKEY, "NS": PeerStatus.NOT_SUPPORTED,
    "U": PeerStatus.UNKNOWN,
}  # fmt: skip
NEAR = ("PIX", "PXB")
"""Pairs that a switch connects, without a host bridge in between (legend of nvidia-smi topo -m)."""

FAR = ("PHB", "NODE", "SYS")
"""Pairs whose way leads over a host bridge, or over several (the same legend)."""


@dataclass(frozen=True)
class Machine:
    """What is known of the GPUs behind a tool's indexes.

    ``classes`` are the cells of ``topo -m``, ``said`` those of ``topo -p2p``; ``links`` the highest generation and width.
    """

    names: Mapping[int, str] = field(default_factory=dict, hash=False)
    addresses: Mapping[int, str] = field(default_factory=dict, hash=False)
    classes: Mapping[Pair, str] = field(default_factory=dict, hash=False)
    said: Mapping[Pair, PeerStatus] = field(default_factory=dict, hash=False)
    links: Mapping[int, tuple[int, int]] = field(default_factory=dict, hash=False)
    rules: P2p | None = None

    def label(self, index: int) -> str:
        """``GPU 3 (0000:3d:00.0)``."""
        address = self.addresses.get(index, "")
        return f"GPU {index}{f' ({address})' if address else ''}"

    def kind(self, pair: Pair) -> LinkKind:
        """What connects the pair, as far as the topology tells."""
        return LinkKind.NVLINK if self.classes.get(pair, "").startswith("NV") else LinkKind.PCIE

    def ceiling(self, pair: Pair) -> Limit | None:
        """What the pair's link can carry one way; None where no file tells, and no platform was named."""
        cell = self.classes.get(pair, "")
        over_nvlink = nvlink_ceiling(cell, self.names.get(pair[0], ""))
        if self.rules is not None:
            return self.rules.nvlink_ceiling if over_nvlink is not None else self.rules.ceiling
        if over_nvlink is not None:
            return at_most(over_nvlink, "GB/s")
        figures = [figure for index in pair if (figure := self._own_ceiling(index, is_known=bool(cell))) is not None]
        return at_most(min(figures), "GB/s") if len(figures) == 2 else None

    def host_ceiling(self, index: int) -> Limit | None:
        """What the GPU's PCIe link can carry one way to or from the host; None where no file tells."""
        part = part_of(self.names.get(index, ""))
        if index in self.links:
            return at_most(pcie_ceiling(*self.links[index]), "GB/s")
        return None if part is None or "GB200" in self.names[index] or "GH200" in self.names[index] else at_most(part.pcie, "GB/s")

    def _own_ceiling(self, index: int, *, is_known: bool) -> float | None:
        """Of one GPU: its PCIe link; with an NVLink of its kind where no topology says that the pair has none."""
        part = part_of(self.names.get(index, ""))
        if index in self.links:
            pcie = pcie_ceiling(*self.links[index])
        elif part is not None:
            pcie = part.pcie
        else:
            return None
        return pcie if is_known or part is None else max(pcie, part.nvlink)

    @cached_property
    def switches(self) -> Mapping[int, str]:
        """The group of GPUs below one switch that each is in, by its lowest index; empty without a topology."""
        indexes = sorted({index for pair in self.classes for index in pair})
        group = {index: index for index in indexes}
        for (one, other), cell in sorted(self.classes.items()):
            if cell in NEAR:
                low, high = sorted((group[one], group[other]))
                group = {index: low if own == high else own for index, own in group.items()}
        return {index: f"the switch of GPU {own}" for index, own in group.items()}


def machine_of(reading: Reading | None, readings: Sequence[Reading], picture: Picture, rules: P2p | None) -> Machine:
    """The machine by the indexes of one tool's output (None: by nvidia-smi's own)."""
    devices = () if reading is None else reading.devices
    order = _order(devices, picture)
    gpus = [gpu for gpu in picture.gpus if gpu.address]
    by_rank = dict(enumerate(gpus))
    by_address = {gpu.address: gpu for gpu in gpus}
    indexes = sorted({device.index for device in devices} | _indexes(reading) | set(by_rank if reading is None else ()))
    names = {device.index: device.name for device in devices if device.name}
    addresses = {device.index: device.address for device in devices if device.address}
    links = {}
    for index in indexes:
        address = addresses.get(index, "")
        gpu = by_address.get(address) if address else by_rank.get(order.get(index, index))
        if gpu is not None:
            names.setdefault(index, gpu.name)
            addresses.setdefault(index, gpu.address)
            if gpu.generation_most and gpu.width_most:
                links[index] = (gpu.generation_most, gpu.width_most)
    common = _common_name(readings)
    if common:
        names = {index: names.get(index) or common for index in indexes}
    return Machine(names, addresses, _cells("topology", picture, order), _said(picture, order), links, rules)


def _indexes(reading: Reading | None) -> set[int]:
    if reading is None:
        return set()
    pairs = [*reading.access, *(pair for grid in reading.grids for pair in grid.cells)]
    single = [*(crowd.index for crowd in reading.crowds), *(rate.index or 0 for rate in reading.host_rates)]
    return {*single, *(index for pair in pairs for index in pair)}


def _order(devices: Sequence[Device], picture: Picture) -> dict[int, int]:
    """From the tool's index to nvidia-smi's number, where the tool's addresses tell it."""
    told = [device for device in devices if device.address]
    counts = {len(matrix.gpus) for matrix in picture.matrices} | ({len(picture.gpus)} if picture.gpus else set())
    if not told or counts != {len(told)}:
        return {}
    return {device.index: number for number, device in enumerate(sorted(told, key=lambda device: device.address))}


def _cells(what: str, picture: Picture, order: Mapping[int, int]) -> dict[Pair, str]:
    back = {number: index for index, number in order.items()}
    cells: dict[Pair, str] = {}
    for matrix in picture.matrices:
        if matrix.what == what:
            for (row, column), cell in matrix.cells.items():
                one, other = int(row[3:]), int(column[3:])
                pair = back.get(one, one), back.get(other, other)
                if one != other and cells.get(pair, "OK") == "OK":  # of reads and writes the one that is not OK
                    cells[pair] = cell
    return cells


def _said(picture: Picture, order: Mapping[int, int]) -> dict[Pair, PeerStatus]:
    return {pair: _SHORT[cell] for pair, cell in _cells("peer access", picture, order).items() if cell in _SHORT}


def _common_name(readings: Sequence[Reading]) -> str:
    """The one name that all GPUs of all files have."""
    names = {device.name for reading in readings for device in reading.devices if device.name}
    return names.pop() if len(names) == 1 else ""
