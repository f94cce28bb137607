"""Address space: what a function asks for, and what a host bridge may hand out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_IO = 0x00000100
_MEMORY = 0x00000200
_PREFETCH = 0x00002000
_MEM_64 = 0x00100000
_DISABLED = 0x10000000
_UNSET = 0x20000000


class Role(StrEnum):
    """What a resource of a function is for."""

    BAR = "BAR"
    ROM = "ROM"
    VF_BAR = "VF BAR"
    WINDOW = "bridge window"


@dataclass(frozen=True)
class Bar:
    """One resource of a function: a BAR, its ROM, a VF BAR or a bridge window.

    ``index`` is numbered as in kernel messages: 0-5 BARs, 6 ROM, 7-12 VF BARs, 13 I/O, 14 memory and 15 prefetchable
    window. ``flags`` are the kernel's (Linux include/linux/ioport.h). A resource that has flags but no place is
    unassigned; older kernels drop it altogether.
    """

    index: int
    start: int
    end: int
    flags: int

    @property
    def role(self) -> Role:
        """What the resource is for."""
        if self.index < 6:
            return Role.BAR
        if self.index == 6:
            return Role.ROM
        return Role.VF_BAR if self.index < 13 else Role.WINDOW

    @property
    def name(self) -> str:
        """The name that new kernels print: ``BAR 1``, ``ROM``, ``VF BAR 0``, ``bridge window``."""
        match self.role:
            case Role.BAR:
                return f"BAR {self.index}"
            case Role.VF_BAR:
                return f"VF BAR {self.index - 7}"
            case role:
                return str(role)

    @property
    def size(self) -> int:
        """Bytes, also of a resource that has a size but no place yet; 0 where nothing is known."""
        return self.end - self.start + 1 if self.end > self.start else 0

    @property
    def assigned(self) -> bool:
        """True where the resource has a place in the address map. Memory at address 0 is no place (only I/O may be there)."""
        usable = self.size > 0 and not self.flags & (_UNSET | _DISABLED)
        return usable and (self.start > 0 or self.is_io)

    @property
    def is_io(self) -> bool:
        """I/O ports, which no GPU needs."""
        return bool(self.flags & _IO)

    @property
    def is_memory(self) -> bool:
        """Memory."""
        return bool(self.flags & _MEMORY)

    @property
    def is_64bit(self) -> bool:
        """May lie above 4 GiB."""
        return bool(self.flags & _MEM_64)

    @property
    def prefetchable(self) -> bool:
        """Reads have no side effects; goes into the prefetchable window of the bridges above."""
        return bool(self.flags & _PREFETCH)

    def __str__(self) -> str:
        place = f"0x{self.start:x}-0x{self.end:x}" if self.assigned else f"size 0x{self.size:x}, unassigned"
        return f"{self.name} [{'io' if self.is_io else 'mem'} {place}]"


@dataclass(frozen=True)
class RootWindow:
    """A range of addresses that a host bridge (``pci0000:3a``) may hand out, in bytes, both ends included."""

    root: str
    start: int
    end: int
    is_io: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start + 1

    @property
    def is_32bit(self) -> bool:
        """Ends below 4 GiB: where 32-bit BARs must go."""
        return self.end < 1 << 32
