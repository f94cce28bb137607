"""What the kernel reported while it ran: bus errors, containment, hot-plug, power. A run-time loss is told as a story in its order.

replay timeouts ─ link down ─ card not present ─ Xid 79      one diagnosis, the earliest line first
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.devices.dumps.picture import Picture
from harness.devices.pcie import strip_stamp
from harness.devices.pcie.kernel_events import Event, Kind
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity

_REPLAYS_PER_MINUTE = 8.0
"""The budget of a Gen3 x16 link (NVIDIA/DCGM modules/health/DcgmHealthWatch.cpp: a bit error rate of 1e-12)."""
_BITS = {
    4: "DLP",
    5: "SDES (surprise down)",
    12: "poisoned TLP",
    13: "FCP",
    14: "completion timeout",
    18: "malformed TLP",
    20: "UnsupReq",
}
_TOLD_ON_ITS_OWN = (
    Kind.CONTAINED,
    Kind.LINK_LOST,
    Kind.LINK_FAILED,
    Kind.POWER_FAULT,
    Kind.POWER_STUCK,
    Kind.NOT_READY,
    Kind.NOT_RECOVERED,
)
_STORY = (*_TOLD_ON_ITS_OWN, Kind.BUS_ERROR, Kind.ERROR_BIT, Kind.FIRMWARE_ERROR)
_STORY_SECONDS = 120.0
_WORDS: dict[Kind, tuple[str, str, str]] = {
    Kind.CONTAINED: (
        "a port cut its link to contain an error",
        "an error on the link or of the part below",
        "read the port's error registers",
    ),
    Kind.LINK_LOST: (
        "a hot-plug port lost its link or its card",
        "power of the chassis, the cable, or somebody took it away",
        "check both, then rescan or boot",
    ),
    Kind.LINK_FAILED: (
        "a hot-plug port has a card and gets no link",
        "the card's seat, its power or the cable",
        "reseat it, swap it with a neighbour",
    ),
    Kind.POWER_FAULT: ("a slot's power failed", "the slot's supply was cut", "check the card's power and the slot's fuse"),
    Kind.POWER_STUCK: (
        "it does not come back from a sleep (D3cold): power, not the bus numbers",
        "its supply was switched off by power management and did not come back, or it is gone",
        "write on to power/control of it and of the ports above, 0 to d3cold_allowed; boot with pcie_port_pm=off",
    ),
    Kind.NOT_READY: ("it does not come back from a reset", "the part hangs", "power the chassis off and on"),
    Kind.NOT_RECOVERED: (
        "the kernel could not recover it from an error",
        "its driver has no recovery, or the part is gone",
        "cold-start it",
    ),
}


def judge_reports(picture: Picture) -> Iterator[Diagnosis]:
    """Run-time losses with what came before, then what no loss explains."""
    told: set[Event] = set()
    for story in _stories(picture):
        told.update(story[1])
        yield story[0]
    returned = {event.bdf: number for number, event in enumerate(picture.events) if event.kind is Kind.LINK_FOUND}
    for number, event in enumerate(picture.events):
        if event in told or event.kind not in _TOLD_ON_ITS_OWN:
            continue
        what, cause, do = _WORDS[event.kind]
        is_back = event.kind is Kind.LINK_LOST and returned.get(event.bdf, -1) > number
        severity = Severity.WARN if is_back else Severity.FAIL
        link = Link.OTHER if is_back else Link.RUNTIME
        yield Diagnosis(
            severity,
            _check(event.kind),
            picture.label(event.bdf),
            f"{what}{', and has it again' if is_back else ''}",
            event.line,
            picture.source_of(event.line),
            cause,
            do,
            (event.bdf,),
            link,
        )
    yield from _bus_errors(picture, told)
    yield from _firmware_errors(picture, told)


def judge_bottlenecks(picture: Picture) -> Iterator[Diagnosis]:
    """The kernel's own line about the tightest hop; at full width it only tells of a link at rest."""
    for event in picture.events:
        if event.kind is not Kind.BANDWIDTH:
            continue
        wanted = re.search(r"with [\d.]+ GT/s(?: PCIe)? x(\d+) link", event.line)
        is_narrow = wanted is not None and event.number("width") < int(wanted[1])
        what = f"{event.words['have']} of {event.words['want']} Gb/s, limited at {event.words['at']}"
        if is_narrow:
            yield Diagnosis(
                Severity.WARN,
                "bottleneck",
                picture.label(event.bdf),
                what,
                event.line,
                picture.source_of(event.line),
                "a link on the way has fewer lanes than the part: by design, or degraded",
                "compare both ends of that link in lspci -vvv",
                (event.bdf,),
            )
        else:
            yield Diagnosis(
                Severity.NOTE,
                "bottleneck",
                picture.label(event.bdf),
                f"{what}: full width at rest",
                event.line,
                picture.source_of(event.line),
            )


def judge_error_owner(picture: Picture) -> Iterator[Diagnosis]:
    """Where firmware keeps the errors, silence of the kernel proves nothing."""
    line = next((event.line for event in picture.events if event.kind is Kind.FIRMWARE_OWNS_ERRORS), "")
    if line:
        yield Diagnosis(
            Severity.NOTE,
            "error-owner",
            "kernel log",
            "firmware handles PCIe errors first, so the kernel's error counters stay at zero",
            line,
            picture.source_of(line),
            "",
            "read the error registers (lspci -vvv) and the management controller's log",
        )


def _stories(picture: Picture) -> Iterator[tuple[Diagnosis, Sequence[Event]]]:
    """For each GPU that fell off the bus: the events at it or above it shortly before, in their order."""
    lost: dict[str, str] = {}
    for xid in picture.snapshot.log.xids:
        if xid.number == 79:
            lost.setdefault(f"{xid.address}.0", xid.line)
    for event in picture.events:
        if event.kind is Kind.OFF_THE_BUS:
            lost.setdefault(event.bdf, event.line)
    if not lost:
        return
    lines = {line: number for number, line in enumerate(_bare(picture))}
    for bdf, line in lost.items():
        end = lines.get(line, len(lines))
        at = next((event.at for event in picture.events if event.line == line), None)
        before = [
            event for event in picture.events
            if event.kind in _STORY and lines.get(event.line, end) < end and _is_near(picture, event, bdf) and _is_soon(event, at)
        ]  # fmt: skip
        if not before:
            continue
        first = before[0]
        shown = list(dict.fromkeys(event.line for event in before))
        kept = shown if len(shown) <= 6 else [*shown[:3], f"... {len(shown) - 5} more ...", *shown[-2:]]
        yield (
            Diagnosis(
                Severity.FAIL,
                "lost",
                picture.label(bdf),
                f"the GPU fell off the bus; it began with {first.kind}",
                kept[0],
                picture.source_of(first.line),
                "the link below this port failed first, and the driver noticed last",
                "check cable, seat and power of that link; cold-start machine and chassis",
                (bdf, *dict.fromkeys(event.bdf for event in before)),
                Link.RUNTIME,
                (*kept[1:], line),
            ),
            before,
        )


def _bare(picture: Picture) -> Iterator[str]:
    marks = ("Xid", "fallen off", "Slot(", "Error", "aer_", "power state", "containment", "recover", "giving up", "] ")
    return (strip_stamp(line) for line in picture.snapshot.log.lines if any(mark in line for mark in marks))


def _is_near(picture: Picture, event: Event, bdf: str) -> bool:
    """At the GPU's device or at a port above it; where the tree is not known, at any port."""
    if event.bdf.rsplit(".", 1)[0] == bdf.rsplit(".", 1)[0]:
        return True
    function = picture.snapshot.by_bdf.get(bdf)
    if function is None or function.parent is None:
        return picture.snapshot.by_bdf.get(event.bdf) is None
    return event.bdf in {bridge.bdf for bridge in picture.snapshot.chain_up(function)}


def _is_soon(event: Event, at: float | None) -> bool:
    return event.at is None or at is None or 0 <= at - event.at <= _STORY_SECONDS


def _bus_errors(picture: Picture, told: set[Event]) -> Iterator[Diagnosis]:
    """Bus errors by device and severity: fatal ones fail, corrected ones count by rate."""
    by_device: dict[tuple[str, str], list[Event]] = {}
    for event in picture.events:
        if event.kind is Kind.BUS_ERROR and event not in told:
            by_device.setdefault((event.bdf, _severity(event.words["severity"])), []).append(event)
    bits: dict[str, list[str]] = {}
    for event in picture.events:
        if event.kind is Kind.ERROR_BIT:
            bits.setdefault(event.bdf, []).append(event.words["name"])
    for (bdf, severity), events in by_device.items():
        names = ", ".join(dict.fromkeys(bits.get(bdf, ())))
        many = f", {len(events)} times" if len(events) > 1 else ""
        line, source = events[0].line, picture.source_of(events[0].line)
        if severity == "corrected":
            rate = _rate(events)
            over = rate is not None and rate > _REPLAYS_PER_MINUTE
            yield Diagnosis(
                Severity.WARN if over else Severity.NOTE,
                "aer",
                picture.label(bdf),
                f"errors on the link that were corrected ({names or 'bits not told'}){many}"
                + (f", {rate:.3g} a minute; {_REPLAYS_PER_MINUTE:g} are allowed on a Gen3 x16 link" if rate is not None else ""),
                line,
                source,
                "a marginal link: cable, seat, retimer" if over else "",
                "reseat it; compare the rate with its neighbours'" if over else "",
                (bdf,),
            )
        else:
            fatal = severity == "fatal"
            yield Diagnosis(
                Severity.FAIL if fatal else Severity.WARN,
                "aer",
                picture.label(bdf),
                f"{'a fatal' if fatal else 'an uncorrectable, not fatal,'} PCIe error "
                f"({names or events[0].words['type'].strip()}){many}",
                line,
                source,
                "the link or a part on it",
                "read UESta of this port and of the part below it",
                (bdf,),
                Link.RUNTIME if fatal else Link.OTHER,
            )


def _firmware_errors(picture: Picture, told: set[Event]) -> Iterator[Diagnosis]:
    seen = set()
    for event in picture.events:
        if event.kind is not Kind.FIRMWARE_ERROR or event in told or (event.bdf, event.words.get("status")) in seen:
            continue
        seen.add((event.bdf, event.words.get("status")))
        is_uncorrected = event.words.get("which") == "uncor_"
        status = event.number("status") & ~event.number("mask")
        names = ", ".join(name for bit, name in _BITS.items() if is_uncorrected and status >> bit & 1)
        if not event.number("status"):
            continue
        yield Diagnosis(
            Severity.FAIL if is_uncorrected and status else Severity.NOTE,
            "aer",
            picture.label(event.bdf) if event.bdf else "a device that the line does not name",
            f"firmware reported {'an uncorrectable' if is_uncorrected else 'a'} PCIe error{f': {names}' if names else ''}",
            event.line,
            picture.source_of(event.line),
            "the link dropped by itself: power management of the port (ASPM, port PM), power or cable"
            if status & 0x20 and is_uncorrected
            else "",
            "boot with pcie_aspm=off pcie_port_pm=off and see whether it stays away"
            if status & 0x20 and is_uncorrected
            else "read the registers of that port",
            (event.bdf,) if event.bdf else (),
            Link.RUNTIME if is_uncorrected and status else Link.OTHER,
        )


def _severity(words: str) -> str:
    lower = words.lower()
    if lower.startswith("correct"):
        return "corrected"
    return "fatal" if "(fatal)" in lower or lower.strip() == "fatal" else "nonfatal"


def _rate(events: Sequence[Event]) -> float | None:
    """Events a minute between the first and the last; None for fewer than three, or without stamps."""
    times = [event.at for event in events if event.at is not None]
    if len(times) < 3 or times[-1] <= times[0]:
        return None
    return (len(times) - 1) / (times[-1] - times[0]) * 60


def _check(kind: Kind) -> str:
    return {
        Kind.CONTAINED: "dpc",
        Kind.POWER_FAULT: "power",
        Kind.POWER_STUCK: "power",
        Kind.NOT_READY: "reset",
        Kind.NOT_RECOVERED: "aer",
    }.get(kind, "hotplug")
