"""What one piece of a mailed file gave, before everything is merged into one picture.

file ─ unpack ─ pieces of text, tars ─ one parser a format ─ Harvest ─┐
file ─ ...                                                            ├─ merge ─ Picture
file ─ ...                                                            ┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.devices.pcie import Function, RootWindow, Unread


class Format(StrEnum):
    """The formats that are read. The order is how much each is trusted where two tell the same fact."""

    SYSFS = "sysfs"
    LSPCI_HEX = "lspci -xxxx"
    LSPCI = "lspci"
    LSPCI_MACHINE = "lspci -mm"
    LSPCI_TREE = "lspci -t"
    UDEV = "udev database"
    HWLOC = "hwloc topology"
    KERNEL_LOG = "kernel log"
    SMI_XML = "nvidia-smi -q -x"
    SMI_QUERY = "nvidia-smi -q"
    SMI_TABLE = "nvidia-smi"
    SMI_TOPOLOGY = "nvidia-smi topo"
    NCCL = "NCCL topology"
    DMIDECODE = "dmidecode"
    FIRMWARE_LOG = "firmware log"


@dataclass(frozen=True)
class DriverGpu:
    """One GPU as the NVIDIA driver tells it. None, or "", is what it did not tell; sizes in bytes, link generations 1 to 6.

    ``lost`` are the driver's words where it answers instead of a value that the GPU is lost. ``uncorrected`` are volatile
    errors (since the driver was loaded), ``uncorrected_ever`` the aggregate ones. ``throttles`` are the reasons, among
    the hardware's
    own, why clocks are held down.
    """

    address: str
    name: str = ""
    serial: str = ""
    uuid: str = ""
    device: str = ""
    subsystem: str = ""
    vbios: str = ""
    aperture: int | None = None
    memory: int | None = None
    generation: int | None = None
    generation_most: int | None = None
    width: int | None = None
    width_most: int | None = None
    replays: int | None = None
    uncorrected: int | None = None
    uncorrected_ever: int | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retirement_pending: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    fabric: str = ""
    recovery: str = ""
    performance: str = ""
    throttles: tuple[str, ...] = ()
    lost: str = ""
    source: str = ""


@dataclass(frozen=True)
class Matrix:
    """A square table of ``nvidia-smi topo``: ``cells`` by (row, column) of the GPU names.

    ``nodes`` is the NUMA affinity of each GPU as printed, where the table has that column; other columns are left out.
    """

    what: str
    gpus: tuple[str, ...]
    cells: Mapping[tuple[str, str], str] = field(hash=False)
    nodes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class FirmwareSlot:
    """A slot by SMBIOS (type 9): its name, the address of what is in it ("" where not told), and whether it is in use."""

    name: str
    address: str
    used: bool


@dataclass(frozen=True)
class FirmwareLine:
    """A line of a management controller's or a firmware's log that concerns PCIe; ``rule`` is the shape that it has."""

    rule: str
    line: str


@dataclass(frozen=True)
class Harvest:
    """What one piece gave. ``source`` is the file, with the member or section of it after a colon."""

    format: Format
    source: str
    summary: str = ""
    functions: tuple[Function, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    lines: tuple[str, ...] = ()
    windows: tuple[RootWindow, ...] = ()
    gpus: tuple[DriverGpu, ...] = ()
    claimed: int | None = None
    matrix: Matrix | None = None
    slots: tuple[FirmwareSlot, ...] = ()
    system: Mapping[str, str] = field(default_factory=dict, hash=False)
    firmware: tuple[FirmwareLine, ...] = ()
    unread: tuple[Unread, ...] = ()


def full_address(text: str) -> str:
    """An address as the harness writes it: four digits of domain where they suffice, lower case; "" for what is none.

    >>> full_address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    parts = text.strip().lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    if len(parts) != 3:
        return ""
    try:
        domain = int(parts[0], 16)
        bus = int(parts[1], 16)
        device, _, function = parts[2].partition(".")
        return f"{domain:04x}:{bus:02x}:{int(device, 16):02x}.{int(function or '0', 16):x}"
    except ValueError:
        return ""
