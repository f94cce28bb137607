"""Configuration space of a placed function, byte by byte, in the layouts that real parts have.

    root port   40 SSVID  60 MSI  90 Express  e0 PM     100 vendor  110 ACS  148 AER  250 Secondary
    switch      40 PM     48 MSI  68 Express  a4 SSVID  100 serial  10c Secondary  f24 ACS (downstream)  fb4 AER
    GPU         60 PM     68 MSI  78 Express            100 VC  420 AER  900 Secondary  b00 serial
    others      40 PM     50 MSI  70 Express            100 AER

Sources: R640 slot 1 root port (linuxhw lspci collection), PLX 9716 port (pciutils tests/cap-dpc), RTX 8000 (lspci in
geerlingguy/raspberry-pi-pcie-devices#480); bits after Linux include/uapi/linux/pci_regs.h. The serial number of the GPU is
an addition of the model: it gives the operating system a view of who sits in a slot. Its sixteen hex digits are the digits of
the serial number that the fabric and the driver print.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from harness.lab.model.pcie_enumeration import Placed
from harness.lab.model.pcie_parts import Hardware, Kind, Link
from harness.lab.model.pcie_windows import Region

SIZE = 4096
_PM, _MSI, _SSVID, _EXPRESS = 0x01, 0x05, 0x0D, 0x10
_AER, _VC, _SERIAL, _VENDOR, _ACS, _SECONDARY = 0x0001, 0x0002, 0x0003, 0x000B, 0x000D, 0x0019
_SEVERITY = 0x00462030
"""The reset value of the uncorrectable error severity register (PCI Express Base Specification)."""


class Registers:
    """Little-endian registers in a block of bytes, and the two capability lists."""

    def __init__(self) -> None:
        self._bytes = bytearray(SIZE)
        self._last = 0x34
        self._last_extended = 0

    def byte(self, offset: int, value: int) -> None:
        """Set 8 bits."""
        self._bytes[offset] = value & 0xFF

    def word(self, offset: int, value: int) -> None:
        """Set 16 bits."""
        self._bytes[offset : offset + 2] = (value & 0xFFFF).to_bytes(2, "little")

    def dword(self, offset: int, value: int) -> None:
        """Set 32 bits."""
        self._bytes[offset : offset + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")

    def capability(self, identity: int, offset: int) -> None:
        """Add a capability to the list that begins at 0x34."""
        self.byte(offset, identity)
        self.byte(self._last, offset)
        self._last = offset + 1

    def extended(self, identity: int, offset: int) -> None:
        """Add a capability to the list that begins at 0x100, where its first member must be."""
        self.dword(offset, identity | 1 << 16)
        if self._last_extended:
            head = int.from_bytes(self._bytes[self._last_extended : self._last_extended + 4], "little")
            self.dword(self._last_extended, head | offset << 20)
        self._last_extended = offset

    def content(self) -> bytes:
        """All bytes."""
        return bytes(self._bytes)


_Member: TypeAlias = tuple[Callable[[Registers, int, Hardware], None], int]


@dataclass(frozen=True)
class _Layout:
    """The capabilities of a kind of part in list order: how to write each, and where."""

    legacy: tuple[_Member, ...]
    extended: tuple[_Member, ...]


def config_space(function: Placed) -> bytes:
    """The 4096 bytes of a function's configuration space; all ones where it does not answer."""
    hardware = function.hardware
    if not hardware.answers:
        return b"\xff" * SIZE
    registers = Registers()
    _header(registers, function)
    layout = _layout(hardware)
    for write, offset in (*layout.legacy, *layout.extended):
        write(registers, offset, hardware)
    return registers.content()


def _header(registers: Registers, function: Placed) -> None:
    hardware = function.hardware
    identity = hardware.identity
    registers.word(0x00, identity.vendor)
    registers.word(0x02, identity.device)
    registers.word(0x04, 0x0406 if function.regions or hardware.is_bridge else 0x0000)
    registers.word(0x06, 0x0010)
    registers.dword(0x08, identity.class_code << 8 | identity.revision)
    registers.byte(0x0E, 0x01 if hardware.is_bridge else 0x00)
    for bar in hardware.bars:
        region = function.regions.get(bar.index)
        start = 0 if region is None else region.start
        offset = 0x10 + 4 * bar.index
        registers.dword(offset, start | (0x4 if bar.wide else 0) | (0x8 if bar.prefetchable else 0))
        if bar.wide:
            registers.dword(offset + 4, start >> 32)
    if hardware.is_bridge:
        _bridge_header(registers, function)
    else:
        registers.word(0x2C, identity.subsystem_vendor)
        registers.word(0x2E, identity.subsystem)
        registers.byte(0x3D, 1)


def _bridge_header(registers: Registers, bridge: Placed) -> None:
    """Bus numbers and windows; a window that is closed has its base above its limit."""
    registers.byte(0x18, bridge.bus)
    registers.byte(0x19, bridge.secondary)
    registers.byte(0x1A, bridge.subordinate)
    registers.byte(0x1C, 0xF0)
    low_base, low_limit = _edges(bridge.windows.get("low"))
    registers.word(0x20, low_base >> 16 & 0xFFF0)
    registers.word(0x22, low_limit >> 16 & 0xFFF0)
    wide_base, wide_limit = _edges(bridge.windows.get("wide"))
    registers.word(0x24, wide_base >> 16 & 0xFFF0 | 1)
    registers.word(0x26, wide_limit >> 16 & 0xFFF0 | 1)
    registers.dword(0x28, wide_base >> 32)
    registers.dword(0x2C, wide_limit >> 32)
    registers.byte(0x3D, 1)
    registers.word(0x3E, 0x0003)


def _edges(window: Region | None) -> tuple[int, int]:
    return (0xFFF00000, 0) if window is None else (window.start, window.last)


def _layout(hardware: Hardware) -> _Layout:
    match hardware.kind:
        case Kind.ROOT_PORT:
            return _ROOT_PORT
        case Kind.UPSTREAM | Kind.DOWNSTREAM:
            return _SWITCH
        case Kind.INTEGRATED:
            return _INTEGRATED
        case _:
            return _GPU if hardware.identity.vendor == 0x10DE else _OTHER


def _power(registers: Registers, offset: int, _hardware: Hardware) -> None:
    registers.capability(_PM, offset)
    registers.word(offset + 2, 0xC803)
    registers.word(offset + 4, 0x0008)


def _interrupts(registers: Registers, offset: int, hardware: Hardware) -> None:
    registers.capability(_MSI, offset)
    registers.word(offset + 2, 0x0081 if hardware.driver else 0x0080)
    registers.dword(offset + 4, 0xFEE00038)


def _subsystem(registers: Registers, offset: int, hardware: Hardware) -> None:
    registers.capability(_SSVID, offset)
    registers.word(offset + 4, hardware.identity.subsystem_vendor)
    registers.word(offset + 6, hardware.identity.subsystem)


def _express(registers: Registers, offset: int, hardware: Hardware) -> None:
    """Version 2. A port above a slot has slot registers; only ports that lead down report Data Link Layer Link Active."""
    is_port = hardware.kind in (Kind.ROOT_PORT, Kind.DOWNSTREAM)
    registers.capability(_EXPRESS, offset)
    has_slot = is_port and hardware.slot is not None
    registers.word(offset + 0x02, 2 | hardware.kind << 4 | has_slot << 8)
    registers.dword(offset + 0x04, _payload_code(hardware.payload_most) | 1 << 5 | 1 << 15)
    registers.word(offset + 0x08, 0x2910 | _payload_code(hardware.payload) << 5)
    if hardware.uncorrected:
        registers.word(offset + 0x0A, 0x0004)
    link = hardware.below if is_port else hardware.link
    if link is None:
        return
    ability = link.generation_most | link.width_most << 4 | 1 << 11
    registers.dword(offset + 0x0C, ability | (1 << 20 | 1 << 21 if is_port else 0))
    registers.word(offset + 0x10, 0x0040)
    active = is_port and link.active
    registers.word(offset + 0x12, link.generation | link.width << 4 | 1 << 12 | (1 << 13 if active else 0))
    if has_slot and hardware.slot is not None:
        registers.dword(offset + 0x14, hardware.slot << 19 | (0x60 if hardware.hotplug else 0))
        registers.word(offset + 0x1A, (0x40 if link.present else 0) | (0x100 if link.changed else 0))
    registers.dword(offset + 0x24, 0x1F)
    registers.dword(offset + 0x2C, _speed_vector(link))
    registers.word(offset + 0x30, link.target)


def _payload_code(size: int) -> int:
    return (size // 128).bit_length() - 1


def _speed_vector(link: Link) -> int:
    return sum(1 << generation for generation in range(1, link.generation_most + 1))


def _errors(registers: Registers, offset: int, hardware: Hardware) -> None:
    """As on the R640: firmware owns the errors and masks the correctable ones at the root port."""
    registers.extended(_AER, offset)
    registers.dword(offset + 0x04, hardware.uncorrected)
    registers.dword(offset + 0x08, 0x00100000 if hardware.kind == Kind.ROOT_PORT else 0)
    registers.dword(offset + 0x0C, _SEVERITY)
    registers.dword(offset + 0x14, 0x000031C1 if hardware.kind == Kind.ROOT_PORT else 0x00002000)
    registers.dword(offset + 0x18, 0x000000A0)


def _access_control(registers: Registers, offset: int, hardware: Hardware) -> None:
    if hardware.acs is None:
        return
    registers.extended(_ACS, offset)
    registers.word(offset + 0x04, 0x001F)
    registers.word(offset + 0x06, hardware.acs)


def _serial(registers: Registers, offset: int, hardware: Hardware) -> None:
    registers.extended(_SERIAL, offset)
    number = int(hardware.serial or "0", 16)
    registers.dword(offset + 4, number)
    registers.dword(offset + 8, number >> 32)


def _secondary(registers: Registers, offset: int, _hardware: Hardware) -> None:
    registers.extended(_SECONDARY, offset)


def _vendor_specific(registers: Registers, offset: int, _hardware: Hardware) -> None:
    registers.extended(_VENDOR, offset)
    registers.dword(offset + 4, 0x00C00002)


def _channels(registers: Registers, offset: int, _hardware: Hardware) -> None:
    registers.extended(_VC, offset)
    registers.dword(offset + 0x10, 0x00000001)
    registers.dword(offset + 0x14, 0x800000FF)


_ROOT_PORT = _Layout(
    ((_subsystem, 0x40), (_interrupts, 0x60), (_express, 0x90), (_power, 0xE0)),
    ((_vendor_specific, 0x100), (_access_control, 0x110), (_errors, 0x148), (_secondary, 0x250)),
)
_SWITCH = _Layout(
    ((_power, 0x40), (_interrupts, 0x48), (_express, 0x68), (_subsystem, 0xA4)),
    ((_serial, 0x100), (_secondary, 0x10C), (_access_control, 0xF24), (_errors, 0xFB4)),
)
_GPU = _Layout(
    ((_power, 0x60), (_interrupts, 0x68), (_express, 0x78)),
    ((_channels, 0x100), (_errors, 0x420), (_secondary, 0x900), (_serial, 0xB00)),
)
_OTHER = _Layout(((_power, 0x40), (_interrupts, 0x50), (_express, 0x70)), ((_errors, 0x100),))
_INTEGRATED = _Layout(((_power, 0x40), (_express, 0x90)), ((_errors, 0x100),))
