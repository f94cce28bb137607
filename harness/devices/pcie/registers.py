"""The registers of PCI configuration space that the harness looks at, as frozen facts.

    ConfigSpace
    ├─ capabilities, extended: Capability
    ├─ express: Express ─ link: LinkRegisters, slot: SlotRegisters
    └─ aer: Aer   acs: Acs   dpc: Dpc   sriov: Sriov   rebar: ResizableBar   serial   ari

Offsets and bits follow Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEGACY_SIZE = 256
FULL_SIZE = 4096
_GENERATIONS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class PortType(StrEnum):
    """What a function is on a PCI Express link (bits 7:4 of the PCI Express flags)."""

    ENDPOINT = "endpoint"
    LEGACY_ENDPOINT = "legacy endpoint"
    ROOT_PORT = "root port"
    UPSTREAM = "switch upstream port"
    DOWNSTREAM = "switch downstream port"
    TO_PCI = "PCI Express to PCI bridge"
    FROM_PCI = "PCI to PCI Express bridge"
    INTEGRATED = "root complex integrated endpoint"
    EVENT_COLLECTOR = "root complex event collector"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Capability:
    """One entry of a capability list: its id and where it starts. ``version`` is 0 in the legacy list."""

    id: int
    offset: int
    version: int = 0


@dataclass(frozen=True)
class LinkRegisters:
    """The link of one port or endpoint; speeds as generations 1 to 6 (0: none), widths in lanes (0: no link).

    ``active`` is Data Link Layer Link Active, None where the port does not report it. ``target`` is the generation that
    the link should train to, 0 where not given; ``aspm`` the enabled states, bit 0 L0s and bit 1 L1.
    """

    generation_most: int
    width_most: int
    generation: int
    width: int
    active: bool | None
    training: bool
    disabled: bool
    target: int
    aspm: int


@dataclass(frozen=True)
class SlotRegisters:
    """The slot of a port that has one: its number, what it can do and whether something sits in it."""

    number: int
    hotplug: bool
    surprise: bool
    presence: bool
    presence_changed: bool
    link_changed: bool
    power_fault: bool


@dataclass(frozen=True)
class Express:
    """The PCI Express capability. Payload and request sizes are in bytes; ``status`` is the Device Status register."""

    offset: int
    version: int
    type: PortType
    payload_most: int
    payload: int
    request: int
    extended_tag: bool
    relaxed_ordering: bool
    status: int
    link: LinkRegisters | None
    slot: SlotRegisters | None


@dataclass(frozen=True)
class Aer:
    """Advanced Error Reporting: raw status, mask and severity bits of uncorrectable and correctable errors."""

    uncorrectable: int
    uncorrectable_mask: int
    uncorrectable_severity: int
    correctable: int
    correctable_mask: int

    @property
    def fatal(self) -> int:
        """The uncorrectable bits that are set and that the severity register calls fatal."""
        return self.uncorrectable & self.uncorrectable_severity


@dataclass(frozen=True)
class Acs:
    """Access Control Services: raw bits (0 SrcValid, 2 ReqRedir, 3 CmpltRedir, 4 UpstreamFwd, 5 EgressCtrl)."""

    capability: int
    control: int

    @property
    def redirects_requests(self) -> bool:
        """Peer requests are sent up to the root instead of straight across."""
        return bool(self.control & 0x04)

    @property
    def redirects_completions(self) -> bool:
        """Peer completions are sent up to the root."""
        return bool(self.control & 0x08)

    @property
    def controls_egress(self) -> bool:
        """Peer traffic goes through the egress control vector."""
        return bool(self.control & 0x20)


@dataclass(frozen=True)
class Sriov:
    """SR-IOV: how many virtual functions there are at the start, may be at most, and are now."""

    initial: int
    total: int
    enabled: int


@dataclass(frozen=True)
class Dpc:
    """Downstream Port Containment: raw control and status, and the requester id that the port blames (bus, device, function)."""

    control: int
    status: int
    source: int

    @property
    def triggered(self) -> bool:
        """The port has cut its link to contain an error, and nobody has released it."""
        return bool(self.status & 0x1)

    @property
    def reason(self) -> str:
        """Why it cut the link (status bits 2:1)."""
        return ("an unmasked uncorrectable error", "a non-fatal message", "a fatal message", "its extended reason")[
            self.status >> 1 & 3
        ]


@dataclass(frozen=True)
class ResizableBar:
    """A BAR whose size can be changed: its index, its size now, and the sizes it can have, in bytes."""

    index: int
    size: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ConfigSpace:
    """One function's configuration space as far as it could be read.

    ``raw`` is what was read (64 bytes as a user, 256 without memory-mapped access, 4096 in full). ``bar_registers`` are
    the raw dwords, six or, on a bridge, two. An absent register is None both when the function has none and when it lies
    beyond what was read: ask ``reaches(offset)`` or ``is_extended`` before calling it absent. Where somebody's decoder told the
    registers and not the bytes (the text of ``lspci -vvv``), ``raw`` is empty and ``told`` says that it read everything.
    """

    raw: bytes
    gone: bool
    problems: tuple[str, ...]
    vendor: int = 0
    device: int = 0
    command: int = 0
    status: int = 0
    revision: int = 0
    class_code: int = 0
    header_type: int = 0
    bar_registers: tuple[int, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    extended: tuple[Capability, ...] = ()
    express: Express | None = None
    aer: Aer | None = None
    acs: Acs | None = None
    serial: str = ""
    sriov: Sriov | None = None
    ari: bool = False
    ari_next: int | None = None
    dpc: Dpc | None = None
    rebar: tuple[ResizableBar, ...] = ()
    told: bool = False

    @property
    def is_extended(self) -> bool:
        """True where the extended space was read in full."""
        return self.told or len(self.raw) >= FULL_SIZE

    def reaches(self, offset: int) -> bool:
        """True where the byte at ``offset`` was read."""
        return len(self.raw) > offset

    @property
    def memory_enabled(self) -> bool:
        """The function answers to its memory BARs."""
        return bool(self.command & 0x0002)

    @property
    def bus_master(self) -> bool:
        """The function may start transactions."""
        return bool(self.command & 0x0004)

    def find(self, capability: int) -> Capability | None:
        """The first legacy capability of that id."""
        return next((found for found in self.capabilities if found.id == capability), None)

    def find_extended(self, capability: int) -> Capability | None:
        """The first extended capability of that id."""
        return next((found for found in self.extended if found.id == capability), None)


def generation_of(speed: float | None) -> int | None:
    """The PCIe generation of a speed in GT/s, or None."""
    return next((generation for generation, known in _GENERATIONS.items() if known == speed), None)


def speed_of(generation: int) -> float | None:
    """The speed in GT/s of a PCIe generation, or None."""
    return _GENERATIONS.get(generation)
