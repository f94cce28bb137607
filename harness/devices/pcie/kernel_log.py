"""What the kernel said while it built the PCI tree. Log lines explain; the final state in sysfs decides.

The same event has two wordings, and which one a kernel uses does not follow from its version, as the newer one came into
stable series too (Linux drivers/pci/setup-res.c, ``pci_resource_name()``):

    older   pci BDF: BAR 15: no space for [mem size 0x40000000 64bit pref]
    newer   pci BDF: bridge window [mem size 0x40000000 64bit pref]: can't assign; no space

Assignment takes several passes, so the last word on a resource counts: a later "assigned" cancels an earlier "no space".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_STAMPS = (
    re.compile(r"<\d+>"),
    re.compile(r"\d+,\d+,\d+,[^;]*;"),
    re.compile(r"(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*(?: [A-Z]{3,4})? (?:\S+ kernel: )?"),
    re.compile(r"\S+ kernel: "),
    re.compile(r"[a-z]+ *:[a-z]+ *: "),
    re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:\S+ kernel: )?"),
    re.compile(r"[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ kernel: "),
    re.compile(r"\[[ ]*(?:\d+\.\d+|[TC]\d+|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})\] ?"),
)
_BDF = r"(?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_SPAN = r"\[(?P<kind>io|mem) +(?:size (?P<size>0x[0-9a-f]+)|(?P<start>0x[0-9a-f]+)-(?P<end>0x[0-9a-f]+))(?P<flags>[^\]]*)\]"
_OLDER = re.compile(_BDF + r": BAR (?P<index>\d+): (?P<event>no space for|failed to assign|assigned) " + _SPAN)
_OLDER_CLAIM = re.compile(_BDF + r": (?P<event>can't claim) BAR (?P<index>\d+) " + _SPAN)
_NEWER = re.compile(
    _BDF
    + r": (?P<name>(?:VF )?BAR \d+|ROM|bridge window) "
    + _SPAN
    + r": (?P<event>can't assign; no space|failed to assign|assigned|can't claim)"
)
_ROOT = re.compile(r"pci_bus (?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}): root bus resource " + _SPAN)
_ROOT_BUSES = re.compile(
    r"pci_bus (?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}): root bus resource \[bus (?P<first>[0-9a-f]{2})(?:-(?P<last>[0-9a-f]{2}))?\]"
)
_NO_BUS = re.compile(
    _BDF + r": .*(?:No bus number available|devices behind bridge are unusable|bridge has subordinate [0-9a-f]+ but max busn)",
    re.IGNORECASE,
)
_INVALID_BAR = re.compile(r"NVRM: BAR(?P<bar>\d) is 0M @ 0x0 \(PCI:" + _BDF)
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?\): (?P<number>\d+)")
_EVENTS = {
    "no space for": "no space",
    "can't assign; no space": "no space",
    "failed to assign": "failed to assign",
    "can't claim": "not claimed",
    "assigned": "assigned",
}


@dataclass(frozen=True)
class Resource:
    """A resource as a log line shows it. ``kind`` is io or mem; ``start`` None where it only has a size (bytes)."""

    kind: str
    start: int | None
    size: int
    is_64bit: bool = False
    prefetchable: bool = False


@dataclass(frozen=True)
class Shortage:
    """A resource that the kernel could not place and did not place later.

    ``name`` is ``BAR 1``, ``ROM``, ``VF BAR 0`` or ``bridge window``, whichever wording the line had; ``event`` is
    ``no space``, ``failed to assign`` or ``not claimed``; ``line`` is the last such line without its stamp.
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
    """A range that the host bridge ``root`` (``pci0000:3a``) announced: ``kind`` io, mem or bus; both ends included."""

    root: str
    kind: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes, or bus numbers."""
        return self.end - self.start + 1


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

    @property
    def reaches_boot(self) -> bool:
        """True where the log still holds the kernel's first line; a full ring buffer forgets it."""
        return any("Linux version " in line for line in self.lines[:50])


def parse_kernel_log(lines: Iterable[str]) -> KernelLog:
    """Find what concerns the PCI tree in the lines of ``dmesg``, a journal or a saved log. Never raises."""
    kept = tuple(lines)
    open_shortages: dict[tuple[str, ...], Shortage] = {}
    buses: list[BusShortage] = []
    roots: list[RootResource] = []
    invalid: list[InvalidBar] = []
    xids: list[Xid] = []
    for line in kept:
        if not _may_concern(line):
            continue
        bare = strip_stamp(line)
        if (shortage := _assignment(bare)) is not None:
            key = _key(shortage)
            open_shortages.pop(key, None)
            if shortage.event != "assigned":
                open_shortages[key] = shortage
        elif (root := _root_resource(bare)) is not None:
            roots.append(root)
        elif found := _NO_BUS.search(bare):
            buses.append(BusShortage(found["bdf"], bare))
        elif found := _INVALID_BAR.search(bare):
            invalid.append(InvalidBar(found["bdf"], int(found["bar"]), bare))
        elif found := _XID.search(bare):
            xids.append(Xid(found["address"], int(found["number"]), bare))
    return KernelLog(kept, tuple(open_shortages.values()), tuple(buses), tuple(dict.fromkeys(roots)), tuple(invalid), tuple(xids))


def _may_concern(line: str) -> bool:
    """A cheap look before the patterns: a log of megabytes has mostly other lines."""
    return (
        "ssign" in line or "BAR" in line or "NVRM" in line or "no space" in line or "can't claim" in line
        or "root bus" in line or "bus number" in line or "behind bridge" in line or "subordinate" in line
    )  # fmt: skip


def strip_stamp(line: str) -> str:
    """The line without what ``dmesg``, ``dmesg -T``, ``dmesg -x``, syslog or a journal puts before the message."""
    rest = line.rstrip()
    if rest.startswith("["):
        seconds, end, after = rest[1:].partition("] ")
        if end and seconds.replace(".", "", 1).strip().isdigit():
            rest = after
    if rest[:1].islower() and "kernel:" not in rest and " :" not in rest[:12] and rest[1:2] != ":":
        return rest
    while found := next((match for stamp in _STAMPS if (match := stamp.match(rest))), None):
        rest = rest[found.end() :]
    return rest


def _assignment(line: str) -> Shortage | None:
    """What the line says of one resource; ``event`` may be ``assigned``."""
    found = _OLDER.search(line) or _OLDER_CLAIM.search(line) or _NEWER.search(line)
    if found is None:
        return None
    parts = found.groupdict()
    name = parts.get("name") or _name(int(parts["index"]))
    return Shortage(found["bdf"], name, _resource(found), _EVENTS[found["event"]], line)


def _name(index: int) -> str:
    """The newer name of an older index: 0-5 BARs, 6 ROM, 7-12 VF BARs, from 13 on bridge windows."""
    if index < 6:
        return f"BAR {index}"
    if index == 6:
        return "ROM"
    return f"VF BAR {index - 7}" if index < 13 else "bridge window"


def _resource(found: re.Match[str]) -> Resource:
    flags = found["flags"].split()
    start = None if found["start"] is None else int(found["start"], 16)
    size = int(found["size"], 16) if start is None else int(found["end"], 16) - start + 1
    return Resource(found["kind"], start, size, "64bit" in flags, "pref" in flags)


def _key(shortage: Shortage) -> tuple[str, ...]:
    """What is the same resource in two lines: a bridge has one window each for I/O, memory and prefetchable memory."""
    if shortage.name != "bridge window":
        return (shortage.bdf, shortage.name)
    return (shortage.bdf, shortage.name, shortage.resource.kind, "pref" if shortage.resource.prefetchable else "")


def _root_resource(line: str) -> RootResource | None:
    if found := _ROOT_BUSES.search(line):
        last = found["last"] or found["first"]
        return RootResource(f"pci{found['bus']}", "bus", int(found["first"], 16), int(last, 16))
    if (found := _ROOT.search(line)) and found["start"] is not None:
        return RootResource(f"pci{found['bus']}", found["kind"], int(found["start"], 16), int(found["end"], 16))
    return None
