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

from harness.devices.pcie.registers import (
    FULL_SIZE,
    LEGACY_SIZE,
    Acs,
    Aer,
    Capability,
    ConfigSpace,
    Dpc,
    Express,
    LinkRegisters,
    PortType,
    ResizableBar,
    SlotRegisters,
    Sriov,
)

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
    rebar = _first(extended, 0x0015)
    dpc = _first(extended, 0x001D)
    ari = _first(extended, 0x000E)
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
        ari=ari is not None,
        ari_next=None if ari is None else _ari_next(reading, ari),
        dpc=None if dpc is None else _dpc(reading, dpc),
        rebar=() if rebar is None else tuple(_rebar(reading, rebar)),
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
            self.note(f"{what} at 0x{offset:03x}: beyond the {len(self.raw)} bytes read")
            return None
        if piece == b"\xff" * size:
            self.note(f"{what} at 0x{offset:03x}: all ones, so the device went away while it was read")
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


def _ari_next(reading: _Reading, capability: Capability) -> int | None:
    """The next function of an alternative-routing device: bits 15:8 of the capability register."""
    block = reading.block(capability.offset + 4, 4, "the ARI registers")
    return None if block is None else block[1]


def _dpc(reading: _Reading, capability: Capability) -> Dpc | None:
    """Control stands at +0x06, status at +0x08, the error source at +0x0a."""
    block = reading.block(capability.offset + 4, 8, "the containment registers")
    return None if block is None else Dpc(*struct.unpack_from("<HHH", block, 2))


def _rebar(reading: _Reading, capability: Capability) -> Iterator[ResizableBar]:
    """One entry of eight bytes a BAR; how many stands in bits 7:5 of the first control register.

    Bit n of the capability register (from 4 on) offers 1 MiB << (n - 4); the control register holds the exponent in 13:8.
    Sizes beyond 128 TiB are offered in the control register's upper half (bits 16 to 31: from 256 TiB).
    """
    count = 1
    for number in range(6):
        block = reading.block(capability.offset + 4 + 8 * number, 8, "the resizable BAR registers")
        if block is None or number >= count:
            return
        offered, control = struct.unpack("<II", block)
        if number == 0:
            count = control >> 5 & 0x7
        if number < count:
            exponents = [bit - 4 for bit in range(4, 32) if offered >> bit & 1] + [
                bit + 12 for bit in range(16, 32) if control >> bit & 1
            ]
            yield ResizableBar(control & 0x7, 1 << 20 + (control >> 8 & 0x3F), tuple(1 << 20 + exponent for exponent in exponents))
