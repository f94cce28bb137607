"""The GPUs of the modelled machine as the driver numbers them, and the small differences between like parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

from harness.lab.model.driver import UNINITIALISED, bound_driver
from harness.lab.model.parts import ModelGpu, View
from harness.lab.model.pcie_host import gpu_addresses


@dataclass(frozen=True)
class Card:
    """One GPU that the driver runs.

    ``index`` is the driver's and CUDA's number (PCI bus order), ``group`` the address of the bridge that the GPUs of one chassis
    share: the chassis' upstream port.
    """

    index: int
    gpu: ModelGpu
    address: str
    group: str

    @cached_property
    def slot(self) -> str:
        """Where it sits."""
        return self.gpu.slot


def cards(view: View) -> tuple[Card, ...]:
    """The GPUs that NVML and CUDA can open, in their order."""
    if bound_driver(view.faults) != "nvidia":
        return ()
    placed = gpu_addresses(view)
    gone = {UNINITIALISED} if "gpu.nvml-count" in view.faults else set()
    running = [gpu for gpu in view.gpus if gpu.slot in placed and gpu.slot not in gone]
    groups: dict[str, str] = {}
    for gpu in running:
        # below the upstream port come the bus of the downstream ports and then one bus for each of them
        groups.setdefault(gpu.chassis.name, f"0000:{int(placed[gpu.slot][5:7], 16) - gpu.port - 1:02x}:00.0")
    return tuple(Card(index, gpu, placed[gpu.slot], groups[gpu.chassis.name]) for index, gpu in enumerate(running))


def vary(*names: object) -> float:
    """A number between -1 and 1 that is always the same for the same names: parts of one kind are alike, not equal."""
    return crc32(":".join(map(str, names)).encode()) / 0xFFFFFFFF * 2.0 - 1.0


def digest(*names: object) -> str:
    """Sixteen hex digits that are always the same for the same names."""
    text = ":".join(map(str, names)).encode()
    return f"{crc32(text):08x}{crc32(text[::-1]):08x}"


def line(kind: str, **fields: Any) -> str:
    """One line of a worker: a compact JSON object."""
    return json.dumps({"kind": kind, **fields}, separators=(",", ":"))


def ended(lines: Iterable[tuple[float, str]]) -> Iterable[tuple[float, str]]:
    """The lines of a worker, closed by the line that counts them."""
    count, last = 0, 0.0
    for at, text in lines:
        count, last = count + 1, at
        yield at, text
    yield last, line("end", lines=count)
