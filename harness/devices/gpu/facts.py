"""The GPUs as the driver sees them, as frozen facts.

    Inventory
    ├─ gpus: Gpu           one that NVML counts, with its Ecc, Link and Replays; or the reason why it cannot be opened
    ├─ processes: Process
    ├─ peers: Peering      what the driver says of each ordered pair
    └─ kernel              what the kernel log says of the driver

A number that the driver does not give is None, never zero, and ``Gpu.unread`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

_MINUTE = 60.0


class Reason(IntFlag):
    """Why the clocks are not at their best (nvml.h, nvmlClocksEventReasons)."""

    GPU_IDLE = 0x1
    APPLICATIONS_CLOCKS = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE_SLOWDOWN = 0x80
    DISPLAY_CLOCK = 0x100

    @property
    def names(self) -> tuple[str, ...]:
        """The reasons one by one, in lower case."""
        return tuple(str(reason.name).lower() for reason in Reason if reason in self)


class PeerStatus(IntEnum):
    """What the driver says of a pair before any byte was copied (nvml.h, nvmlGpuP2PStatus). OK proves nothing yet."""

    OK = 0
    CHIPSET_NOT_SUPPORTED = 1
    GPU_NOT_SUPPORTED = 2
    TOPOLOGY_NOT_SUPPORTED = 3
    DISABLED_BY_REGKEY = 4
    NOT_SUPPORTED = 5
    UNKNOWN = 6


class Level(IntEnum):
    """How far apart two GPUs are (nvml.h, nvmlGpuTopologyLevel); the names are those of ``nvidia-smi topo -m``."""

    SELF = 0
    PIX = 10
    PXB = 20
    PHB = 30
    NODE = 40
    SYS = 50


@dataclass(frozen=True)
class Link:
    """The GPU's end of its link. At rest it idles down to Gen1: judge ``generation`` under load only."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


@dataclass(frozen=True)
class Ecc:
    """Error correction: on now and after the next boot, errors since the driver was loaded, pages retired or rows remapped.

    Turing retires pages, Ampere and later remap rows (NVIDIA's page retirement and row remapping guides): a part has one of both.
    """

    current: bool | None = None
    pending: bool | None = None
    corrected: int | None = None
    uncorrected: int | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retirement_pending: bool | None = None
    remapped_uncorrected: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None


@dataclass(frozen=True)
class Replays:
    """The link's replay counter, read twice ``seconds`` apart: the total may be old, only the rate tells of now."""

    first: int | None = None
    later: int | None = None
    seconds: float = 0.0

    @property
    def per_minute(self) -> float | None:
        """Replays a minute between the two readings; None where a reading is missing or the counter went backwards."""
        if self.first is None or self.later is None or self.later < self.first or self.seconds <= 0:
            return None
        return (self.later - self.first) * _MINUTE / self.seconds


@dataclass(frozen=True)
class Gpu:
    """One GPU that NVML counts.

    ``error`` is why NVML cannot open it (then little else is known), else "". ``address`` is as in sysfs, ids are
    ``vendor:device``, memory and aperture in bytes, power in watts, temperature in degrees Celsius. Words that could not be
    read are "", numbers None; ``unread`` has the driver's reason by field name, e.g. ``{"serial": "Not Supported"}``.
    """

    index: int
    address: str = ""
    error: str = ""
    uuid: str = ""
    serial: str = ""
    device: str = ""
    subsystem: str = ""
    name: str = ""
    vbios: str = ""
    memory: int | None = None
    bar1: int | None = None
    ecc: Ecc = Ecc()
    link: Link = Link()
    replays: Replays = Replays()
    reasons: Reason | None = None
    power: float | None = None
    power_cap: float | None = None
    temperature: int | None = None
    persistence: bool | None = None
    unread: Mapping[str, str] = field(default_factory=dict, hash=False)

    def why_unread(self, name: str) -> str:
        """The driver's reason for a field that is not there."""
        return self.unread.get(name, self.error or "the worker did not read it")

    def __str__(self) -> str:
        return f"GPU {self.index}{f' at {self.address}' if self.address else ''}"


@dataclass(frozen=True)
class Process:
    """A process that has a context on a GPU: ``kind`` is compute or graphics, ``memory`` in bytes."""

    index: int
    pid: int
    name: str
    kind: str = ""
    memory: int | None = None


@dataclass(frozen=True)
class Peering:
    """What the driver says of an ordered pair; None where it says nothing."""

    read: PeerStatus | None = None
    write: PeerStatus | None = None
    level: Level | None = None
    atomics: PeerStatus | None = None


@dataclass(frozen=True)
class Inventory:
    """All GPUs that the driver counts.

    ``error`` is why NVML could not start (then there are no GPUs), else "". ``count`` is NVML's own, versions are as NVML
    prints them. ``peers`` has one entry for each ordered pair of indexes. ``kernel`` holds the lines of the kernel log that
    speak of a GPU driver; ``kernel_error`` is why the log could not be read, else "".
    """

    error: str = ""
    driver: str = ""
    nvml: str = ""
    cuda: str = ""
    count: int = 0
    gpus: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    peers: Mapping[tuple[int, int], Peering] = field(default_factory=dict, hash=False)
    kernel: tuple[str, ...] = ()
    kernel_error: str = ""

    def at(self, address: str) -> Gpu | None:
        """The GPU at a PCI address, or None."""
        return next((gpu for gpu in self.gpus if gpu.address == address), None)

    def said_of(self, address: str) -> tuple[str, ...]:
        """The lines of the kernel log that name a PCI address."""
        return tuple(line for line in self.kernel if address in line.lower())
