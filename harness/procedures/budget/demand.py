"""What devices ask of a host bridge: a tree of bridges and devices with their registers, before anybody places anything.

    Device "00.0"  bridge  asks BAR 0 256 KiB low
      └─ Device "01.0"  bridge
           └─ Device "00.0"  asks BAR 0 16 MiB low, BAR 1 256 MiB wide, BAR 5 128 B io, ROM 512 KiB low

Spaces: ``wide`` is what may go into a bridge's 64-bit prefetchable window; ``low`` is all other memory, which the 32-bit window of
a bridge must hold: 32-bit BARs, ROMs, and 64-bit BARs that are not prefetchable (PCI-to-PCI Bridge Architecture 1.2, 3.2.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


class Space(StrEnum):
    """Where a register has to lie."""

    IO = "io"
    LOW = "low"
    WIDE = "wide"


WINDOW_GRAIN = {Space.IO: 4 * KIB, Space.LOW: MIB, Space.WIDE: MIB}
"""What the registers of a bridge can express: 4 KiB of I/O ports, 1 MiB of memory (PCI-to-PCI Bridge Architecture 1.2, 3.2.5)."""


@dataclass(frozen=True)
class Ask:
    """One range that a function or a bridge wants: ``size`` bytes on a multiple of ``align`` (0: of its size, as every BAR)."""

    name: str
    size: int
    space: Space
    align: int = 0

    @property
    def alignment(self) -> int:
        """What its address must be a multiple of."""
        return self.align or self.size


@dataclass(frozen=True)
class Device:
    """A device on a bus by its place there (``01.0``), with the registers of all its functions; a bridge has a bus below it."""

    place: str
    asks: tuple[Ask, ...] = ()
    is_bridge: bool = False
    children: tuple[Device, ...] = ()

    def bridges(self) -> int:
        """The bridges in it, itself counted: each takes one bus number, with or without a device below."""
        return int(self.is_bridge) + sum(child.bridges() for child in self.children)

    def every_ask(self) -> Iterator[Ask]:
        """All registers in it."""
        yield from self.asks
        for child in self.children:
            yield from child.every_ask()

    def without(self, *spaces: Space) -> Device:
        """The same without what is asked in some spaces."""
        kept = tuple(ask for ask in self.asks if ask.space not in spaces)
        return replace(self, asks=kept, children=tuple(child.without(*spaces) for child in self.children))


@dataclass(frozen=True)
class Region:
    """A range of addresses: ``start`` and ``size`` in bytes."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.start + self.size

    def holds(self, other: Region) -> bool:
        """Whether all of ``other`` lies in it."""
        return self.start <= other.start and other.end <= self.end

    def meets(self, other: Region) -> bool:
        """Whether the two share an address."""
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"{self.start:#x}-{self.end - 1:#x}"


@dataclass(frozen=True)
class Openings:
    """What a host bridge hands out, as its firmware tells the kernel: ranges of I/O ports, of memory below and above 4 GiB."""

    io: tuple[Region, ...] = ()
    low: tuple[Region, ...] = ()
    wide: tuple[Region, ...] = ()

    def of(self, space: Space) -> tuple[Region, ...]:
        """The ranges of one space."""
        return {Space.IO: self.io, Space.LOW: self.low, Space.WIDE: self.wide}[space]


@dataclass(frozen=True)
class Placement:
    """Where one ask ended: ``path`` is the walk below the host bridge (``00.0/01.0``), ``region`` None where it got no place."""

    path: str
    ask: Ask
    region: Region | None


def aligned(address: int, align: int) -> int:
    """The next multiple of ``align`` at or after ``address``."""
    return -(-address // align) * align
