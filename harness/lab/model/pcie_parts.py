"""What a PCIe function of the modelled machine is, before firmware numbers anything.

    Hardware ─ identity, BARs, link, children        (the tree as it is cabled)
        │  enumeration.enumerate_stack
    Placed   ─ bus, regions, windows, children       (the tree as firmware leaves it)

Ids are facts from the PCI id list (pciutils/pciids); serial numbers are invented.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The device/port type of the PCI Express capability (bits 7:4 of its flags)."""

    ENDPOINT = 0
    ROOT_PORT = 4
    UPSTREAM = 5
    DOWNSTREAM = 6
    INTEGRATED = 9


@dataclass(frozen=True)
class Identity:
    """Who a function says it is; ``class_code`` has 24 bits, ids 16 bits each."""

    vendor: int
    device: int
    subsystem_vendor: int
    subsystem: int
    class_code: int
    revision: int = 0


@dataclass(frozen=True)
class Bar:
    """A base address register: ``size`` in bytes, ``wide`` with 64 bits. ``forgotten``: firmware passes it over, silently."""

    index: int
    size: int
    wide: bool = False
    prefetchable: bool = False
    forgotten: bool = False


@dataclass(frozen=True)
class Link:
    """A link as its two ends report it: generations and lanes now and at most; ``target`` is the generation it may train to.

    ``present`` is the presence detect of the port above, ``active`` its Data Link Layer Link Active, ``changed`` its
    Data Link Layer State Changed: the link went up or down since the port was set up.
    """

    generation: int = 3
    width: int = 16
    generation_most: int = 3
    width_most: int = 16
    target: int = 3
    present: bool = True
    active: bool = True
    changed: bool = False


DOWN = Link(generation=1, width=0, present=True, active=False)
"""Something is plugged in, and the link did not come up."""

EMPTY = Link(generation=1, width=0, present=False, active=False)
"""Nothing is plugged in, or it has no power."""


@dataclass(frozen=True)
class Hardware:
    """One function as it is wired.

    ``link`` is the link above it (None for what is integrated); ``below`` the link below a root or downstream port.
    ``acs`` holds the ACS control bits (None: no such capability), ``payload`` the Max Payload Size in effect, in bytes.
    ``uncorrected`` are AER status bits that are set. ``answers`` False: all its registers read ones.
    """

    device: int
    identity: Identity
    kind: Kind
    function: int = 0
    bars: tuple[Bar, ...] = ()
    link: Link | None = None
    below: Link | None = None
    slot: int | None = None
    hotplug: bool = False
    acs: int | None = None
    payload: int = 256
    payload_most: int = 256
    serial: str = ""
    driver: str = ""
    uncorrected: int = 0
    answers: bool = True
    children: tuple[Hardware, ...] = ()

    @property
    def is_bridge(self) -> bool:
        """True for what has a bus below it."""
        return self.kind in (Kind.ROOT_PORT, Kind.UPSTREAM, Kind.DOWNSTREAM)
