"""What the kernel said while it built the PCI tree. Log lines explain; the final state in sysfs decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """A resource as a log line shows it. ``kind`` is io, mem or bus; ``start`` None where it only has a size."""

    kind: str
    start: int | None
    size: int
    is_64bit: bool = False
    prefetchable: bool = False


@dataclass(frozen=True)
class Shortage:
    """A resource that the kernel could not place and did not place later.

    ``name`` is ``BAR 1``, ``ROM``, ``VF BAR 0`` or ``bridge window``, whichever form the line had; ``line`` the line itself
    without its stamp.
    """

    bdf: str
    name: str
    resource: Resource
    event: str
    line: str

    @property
    def is_harmless(self) -> bool:
        """I/O space, ROMs and VF BARs: no GPU needs them, and healthy machines print dozens of such lines."""
        return self.resource.kind == "io" or self.name == "ROM" or self.name.startswith("VF BAR")


@dataclass(frozen=True)
class RootResource:
    """A range that a host bridge announced: ``kind`` io, mem or bus; both ends included."""

    root: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class BusShortage:
    """A bridge without bus numbers for what is behind it."""

    bdf: str
    line: str


@dataclass(frozen=True)
class InvalidBar:
    """The NVIDIA driver refused a GPU because a BAR has no place (``NVRM: BAR1 is 0M @ 0x0``)."""

    bdf: str
    bar: int
    line: str


@dataclass(frozen=True)
class Xid:
    """An error report of the NVIDIA driver; ``address`` is ``domain:bus:device`` (the driver prints no function)."""

    address: str
    number: int
    line: str


@dataclass(frozen=True)
class KernelLog:
    """The kernel log and what was found in it. ``lines`` are whole lines as read; findings carry lines without stamps."""

    lines: tuple[str, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    buses: tuple[BusShortage, ...] = ()
    roots: tuple[RootResource, ...] = ()
    invalid_bars: tuple[InvalidBar, ...] = ()
    xids: tuple[Xid, ...] = ()
