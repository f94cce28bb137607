"""PCI configuration space: bytes to frozen registers, without ever failing on what the bytes say.

    0x000  header: ids, command/status, class, header type, BARs, 0x34 -> first capability
    0x040  capabilities           {id, next} one byte each, a list inside the first 256 bytes
    0x100  extended capabilities  one dword {id[15:0], version[19:16], next[31:20]}, a list up to 4096 bytes

What cannot be decoded (too short, a loop, a pointer outside) becomes a line in ``problems``; what answers all ones is
``gone``: the device no longer drives the bus. Offsets and bits follow Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
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


_PORT_TYPES = {
    0: PortType.ENDPOINT,
    1: PortType.LEGACY_ENDPOINT,
    4: PortType.ROOT_PORT,
    5: PortType.UPSTREAM,
    6: PortType.DOWNSTREAM,
    7: PortType.TO_PCI,
    8: PortType.FROM_PCI,
    9: PortType.INTEGRATED,
    10: PortType.EVENT_COLLECTOR,
}


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
class ConfigSpace:
    """One function's configuration space as far as it could be read.

    ``raw`` is what was read (64 bytes as a user, 256 without memory-mapped access, 4096 in full). ``bar_registers`` are
    the raw dwords, six or, on a bridge, two. An absent register is None both when the function has none and when it lies
    beyond what was read: ask ``reaches(offset)`` or ``is_extended`` before calling it absent.
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

    @property
    def is_extended(self) -> bool:
        """True where the extended space was read in full."""
        return len(self.raw) >= FULL_SIZE

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


def decode_config(raw: bytes) -> ConfigSpace:
    """Decode what was read of a configuration space. Never raises; trouble stands in ``problems`` and ``gone``."""
    raw = raw[:FULL_SIZE]
    if len(raw) >= 4 and raw[:4] == b"\xff\xff\xff\xff":
        return ConfigSpace(raw, gone=True, problems=("configuration space reads all ones: the device is gone",))
    if len(raw) < 64:
        return ConfigSpace(raw, gone=False, problems=(f"only {len(raw)} bytes were read, not even the 64 of the header",))
    reading = _Reading(raw)
    vendor, device, command, status, revision_class = struct.unpack_from("<HHHHI", raw, 0)
    header_type = raw[0x0E]
    bars = 2 if header_type & 0x7F == 1 else 6
    capabilities = tuple(reading.legacy_list()) if status & 0x0010 else ()
    extended = tuple(reading.extended_list())
    express = _first(capabilities, 0x10)
    aer = _first(extended, 0x0001)
    acs = _first(extended, 0x000D)
    serial = _first(extended, 0x0003)
    sriov = _first(extended, 0x0010)
    return ConfigSpace(
        raw,
        gone=False,
        vendor=vendor,
        device=device,
        command=command,
        status=status,
        revision=revision_class & 0xFF,
        class_code=revision_class >> 8,
        header_type=header_type,
        bar_registers=struct.unpack_from(f"<{bars}I", raw, 0x10),
        capabilities=capabilities,
        extended=extended,
        express=None if express is None else _express(reading, express),
        aer=None if aer is None else _aer(reading, aer),
        acs=None if acs is None else _acs(reading, acs),
        serial="" if serial is None else _serial(reading, serial),
        sriov=None if sriov is None else _sriov(reading, sriov),
        ari=_first(extended, 0x000E) is not None,
        problems=tuple(reading.problems),
    )


class _Reading:
    """Bytes with bounds: reads outside give None and are noted once."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def block(self, offset: int, size: int, what: str) -> bytes | None:
        """``size`` bytes, or None, noted, where they were not read or answer all ones."""
        piece = self.raw[offset : offset + size]
        if len(piece) < size:
            self.note(f"{what} at 0x{offset:03x} lies beyond the {len(self.raw)} bytes that were read")
            return None
        if piece == b"\xff" * size:
            self.note(f"{what} at 0x{offset:03x} reads all ones: the device went away while it was read")
            return None
        return piece

    def legacy_list(self) -> Iterator[Capability]:
        offset = self.raw[0x34] & 0xFC
        seen: set[int] = set()
        while offset:
            if offset in seen:
                self.note(f"the capability list loops at 0x{offset:02x}")
                return
            seen.add(offset)
            if offset < 0x40:
                self.note(f"a capability pointer leads to 0x{offset:02x}, inside the header")
                return
            if offset + 2 > min(len(self.raw), LEGACY_SIZE):
                self.note(f"the capability list goes on at 0x{offset:02x}, beyond the {len(self.raw)} bytes read")
                return
            identity, following = self.raw[offset], self.raw[offset + 1]
            if identity == 0xFF:
                self.note(f"the capability at 0x{offset:02x} reads all ones")
                return
            yield Capability(identity, offset)
            offset = following & 0xFC

    def extended_list(self) -> Iterator[Capability]:
        if len(self.raw) <= LEGACY_SIZE:
            return
        offset = LEGACY_SIZE
        seen: set[int] = set()
        while offset:
            if offset in seen:
                self.note(f"the extended capability list loops at 0x{offset:03x}")
                return
            seen.add(offset)
            if offset < LEGACY_SIZE:
                self.note(f"an extended capability pointer leads to 0x{offset:03x}, below 0x100")
                return
            if offset + 4 > len(self.raw):
                self.note(f"the extended capability list goes on at 0x{offset:03x}, beyond the {len(self.raw)} bytes read")
                return
            (head,) = struct.unpack_from("<I", self.raw, offset)
            if head == 0:
                return
            if head == 0xFFFFFFFF:
                self.note(f"the extended capability at 0x{offset:03x} reads all ones")
                return
            yield Capability(head & 0xFFFF, offset, (head >> 16) & 0xF)
            offset = (head >> 20) & 0xFFC


def _first(capabilities: tuple[Capability, ...], identity: int) -> Capability | None:
    return next((capability for capability in capabilities if capability.id == identity), None)


def _express(reading: _Reading, capability: Capability) -> Express | None:
    """Version 1 may end after the registers its type has (0x14 for an endpoint); later ones are 0x3c long."""
    at = capability.offset
    head = reading.block(at, 0x0C, "the PCI Express capability")
    if head is None:
        return None
    flags, device_capability, device_control, device_status = struct.unpack_from("<HIHH", head, 2)
    port = _PORT_TYPES.get((flags >> 4) & 0xF, PortType.UNKNOWN)
    version = flags & 0xF
    has_link = port not in (PortType.INTEGRATED, PortType.EVENT_COLLECTOR)
    has_slot = bool(flags & 0x0100) and port in (PortType.ROOT_PORT, PortType.DOWNSTREAM)
    return Express(
        offset=at,
        version=version,
        type=port,
        payload_most=128 << (device_capability & 0x7),
        payload=128 << ((device_control >> 5) & 0x7),
        request=128 << ((device_control >> 12) & 0x7),
        extended_tag=bool(device_control & 0x0100),
        relaxed_ordering=bool(device_control & 0x0010),
        status=device_status & 0x0F,
        link=_link(reading, at, version) if has_link else None,
        slot=_slot(reading, at) if has_slot else None,
    )


def _link(reading: _Reading, at: int, version: int) -> LinkRegisters | None:
    block = reading.block(at + 0x0C, 8, "the link registers")
    if block is None:
        return None
    capability, control, status = struct.unpack("<IHH", block)
    target = 0
    if version >= 2:
        second = reading.block(at + 0x2C, 8, "the link registers of version 2")
        target = 0 if second is None else struct.unpack_from("<H", second, 4)[0] & 0xF
    return LinkRegisters(
        generation_most=capability & 0xF,
        width_most=(capability >> 4) & 0x3F,
        generation=status & 0xF,
        width=(status >> 4) & 0x3F,
        active=bool(status & 0x2000) if capability & 0x00100000 else None,
        training=bool(status & 0x0800),
        disabled=bool(control & 0x0010),
        target=target,
        aspm=control & 0x3,
    )


def _slot(reading: _Reading, at: int) -> SlotRegisters | None:
    block = reading.block(at + 0x14, 8, "the slot registers")
    if block is None:
        return None
    capability, _control, status = struct.unpack("<IHH", block)
    return SlotRegisters(
        number=capability >> 19,
        hotplug=bool(capability & 0x40),
        surprise=bool(capability & 0x20),
        presence=bool(status & 0x0040),
        presence_changed=bool(status & 0x0008),
        link_changed=bool(status & 0x0100),
        power_fault=bool(status & 0x0002),
    )


def _aer(reading: _Reading, capability: Capability) -> Aer | None:
    block = reading.block(capability.offset + 4, 20, "the error registers")
    return None if block is None else Aer(*struct.unpack("<5I", block))


def _acs(reading: _Reading, capability: Capability) -> Acs | None:
    block = reading.block(capability.offset + 4, 4, "the access control registers")
    return None if block is None else Acs(*struct.unpack("<HH", block))


def _serial(reading: _Reading, capability: Capability) -> str:
    """The device serial number as lspci prints it: most significant byte first, with dashes."""
    block = reading.block(capability.offset + 4, 8, "the serial number")
    return "" if block is None else "-".join(f"{byte:02x}" for byte in reversed(block))


def _sriov(reading: _Reading, capability: Capability) -> Sriov | None:
    """InitialVFs stands at +0x0c, TotalVFs at +0x0e, NumVFs at +0x10."""
    block = reading.block(capability.offset + 0x0C, 6, "the SR-IOV registers")
    return None if block is None else Sriov(*struct.unpack("<HHH", block))
