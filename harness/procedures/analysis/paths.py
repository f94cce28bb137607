"""The way to every GPU, judged as the pcie stage judges it, but with the GPUs that are there in place of expected slots.

Widths count at both ends: a link is degraded only where both ends can do more than it does. A GPU's own speed at rest says nothing;
that of the links above it does, as they do not idle down with the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Function, Snapshot
from harness.platform import Slot
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.procedures.links import LinkEnds, access_control, capacity_words, fatal_errors, links_to, payloads, tightest

_UNCORRECTABLE = {
    4: "DLP, data link protocol",
    5: "SDES, surprise down",
    12: "TLP, poisoned",
    13: "FCP, flow control",
    14: "CmpltTO, completion timeout",
    15: "CmpltAbrt",
    16: "UnxCmplt",
    17: "RxOF, receiver overflow",
    18: "MalfTLP",
    19: "ECRC",
    20: "UnsupReq",
    21: "ACSViol",
    22: "UncorrIntErr",
}


def slots_of(picture: Picture) -> tuple[Slot, ...]:
    """The GPUs on the bus as the places that the pcie stage's judges ask for; one without a whole path is left out."""
    return tuple(Slot(name=function.bdf, path=function.path) for function in picture.on_bus if function.path.count("/") >= 1)


def judge_gone(picture: Picture) -> Iterator[Diagnosis]:
    """Functions that answer all ones."""
    for function in picture.snapshot.functions:
        if function.is_gone:
            yield Diagnosis(
                Severity.FAIL,
                "gone",
                picture.label(function.bdf),
                "its configuration space reads all ones: it no longer answers",
                "",
                "",
                "it was there when the buses were numbered and went away since: power (also a sleep, D3cold), heat, or its link",
                "read the kernel log around that time and the error registers of the port above, then cold-start the chassis",
                (function.bdf,),
                Link.RUNTIME,
            )


def judge_links(picture: Picture) -> Iterator[Diagnosis]:
    """The width of every link on the way to a GPU, the speed of those above it, and the tightest hop."""
    seen = set()
    idle = []
    for function in picture.on_bus:
        links = links_to(picture.snapshot, function.path)
        for link in links:
            if link in seen:
                continue
            seen.add(link)
            yield from _narrow(picture, link)
            is_own = link.lower.bdf == function.bdf
            if (slow := _slow(link)) and is_own:
                idle.append(function.bdf)
            elif slow:
                yield Diagnosis(
                    Severity.FAIL,
                    "uplink-speed",
                    f"{link} ({picture.label(link.lower.bdf)})",
                    f"the link runs at generation {slow[0]} and both ends can do {slow[1]}",
                    _told(link),
                    "",
                    "a cable or connector that does not carry the speed, or a retrain that failed; links above a GPU do not "
                    "idle down",
                    "swap or reseat the cable; set the target speed and retrain the link",
                    (link.lower.bdf,),
                )
    if idle:
        yield Diagnosis(
            Severity.NOTE,
            "idle-speed",
            f"{len(idle)} GPUs",
            "their own links run below their speed, as they do at rest: judge them under load",
        )


def judge_tightest(picture: Picture) -> Iterator[Diagnosis]:
    """The hop above GPUs that carries less than each of them could: by design or not, it is named once."""
    held: dict[LinkEnds, list[str]] = {}
    for function in picture.on_bus:
        links = links_to(picture.snapshot, function.path)
        hop = tightest(links)
        if hop is not None and hop != links[-1] and capacity_words(hop) != capacity_words(links[-1]):
            held.setdefault(hop, []).append(function.bdf)
    for hop, gpus in held.items():
        yield Diagnosis(
            Severity.NOTE,
            "tightest",
            f"{hop} ({picture.label(hop.lower.bdf)})",
            f"{capacity_words(hop)} is the tightest hop on the way to {len(gpus)} GPU{'s' * (len(gpus) != 1)}",
            _told(hop),
            parts=tuple(gpus),
        )


def judge_peers(picture: Picture) -> Iterator[Diagnosis]:
    """Access control on the bridges between GPUs, and only there; payload sizes along each path."""
    slots = slots_of(picture)
    told: dict[str, Function] = {}
    if len(slots) > 1:
        for slot in slots:
            for bridge in access_control(picture.snapshot, slot, slots).redirecting:
                told.setdefault(bridge.bdf, bridge)
    if told:
        control = [
            f"{bdf} ACSCtl {acs.control:#06x}" for bdf, bridge in told.items() if bridge.config and (acs := bridge.config.acs)
        ]
        yield Diagnosis(
            Severity.FAIL,
            "acs",
            f"{len(told)} bridges between GPUs",
            "access control (ACS) redirects peer traffic to the processor",
            "; ".join(control[:8]),
            "",
            "an IOMMU or the firmware switched ReqRedir and CmpltRedir on; peer copies are then slow or hang",
            "switch ACS or VT-d off in the firmware's setup, or clear it at each boot: setpci -s BRIDGE ECAP_ACS+6.w=0",
            tuple(told),
        )
    for slot in slots:
        yield from _payload(picture, slot)


def judge_registers(picture: Picture) -> Iterator[Diagnosis]:
    """Error, containment and slot registers on the way to GPUs."""
    seen: set[str] = set()
    for slot in slots_of(picture):
        for function, bits in fatal_errors(picture.snapshot, slot):
            if function.bdf not in seen:
                seen.add(function.bdf)
                named = ", ".join(name for bit, name in _UNCORRECTABLE.items() if bits >> bit & 1)
                yield Diagnosis(
                    Severity.FAIL,
                    "aer",
                    picture.label(function.bdf),
                    f"a fatal error is stored: {named or 'no known bit'}",
                    f"UESta {bits:#010x}",
                    "",
                    "the link or the part below this port failed; firmware may have kept it from the kernel's log",
                    "read the port's neighbours too; clear the register, load the link and read again",
                    (function.bdf,),
                )
    for function in picture.snapshot.functions:
        config = function.config
        if config is None:
            continue
        if config.dpc is not None and config.dpc.triggered:
            yield Diagnosis(
                Severity.FAIL,
                "dpc",
                picture.label(function.bdf),
                f"the port has cut its link: {config.dpc.reason}",
                f"DpcSta {config.dpc.status:#06x}, source {config.dpc.source:04x}",
                "",
                "an error below this port was contained, and nobody released the port",
                "read the log around it, then reset the port",
                (function.bdf,),
                Link.LINK,
            )
        place = None if config.express is None else config.express.slot
        link = None if config.express is None else config.express.link
        if place is not None and place.power_fault:
            yield Diagnosis(
                Severity.FAIL,
                "power",
                picture.label(function.bdf),
                "the slot reports a power fault",
                "SltSta PowerFlt+",
                "",
                "the slot's supply was cut",
                "check the card's power and the slot's fuse",
                (function.bdf,),
                Link.LINK,
            )
        if (
            place is not None
            and link is not None
            and place.presence
            and link.active is False
            and not picture.snapshot.children(function)
        ):
            yield Diagnosis(
                Severity.FAIL if not link.disabled else Severity.WARN,
                "link",
                picture.label(function.bdf),
                "a card is plugged in and the link does not come up"
                if not link.disabled
                else "a card is plugged in and the link is switched off",
                f"SltSta PresDet+, LnkSta width x{link.width} DLActive-",
                "",
                "the card's seat, its power, the cable or a retimer",
                "reseat it; swap it with a good neighbour and see what moves",
                (function.bdf,),
                Link.LINK,
            )


def _narrow(picture: Picture, link: LinkEnds) -> Iterator[Diagnosis]:
    now = [ends for end in (link.upper, link.lower) if (ends := _width(end)) is not None]
    most = [ends for end in (link.upper, link.lower) if (ends := _width_most(end))]
    if len(now) == 2 and len(most) == 2 and 0 < min(now) < min(most):
        yield Diagnosis(
            Severity.FAIL,
            "width",
            f"{link} ({picture.label(link.lower.bdf)})",
            f"the link has x{min(now)} lanes and both ends can do x{min(most)}",
            _told(link),
            "",
            "a dirty or badly seated connector, a broken lane, or a slot that is bifurcated",
            "reseat the card or cable; swap it with a good neighbour and see whether the fault moves",
            (link.lower.bdf,),
        )


def _slow(link: LinkEnds) -> tuple[int, int] | None:
    """(generation now, generation that both ends can do and aim for), where the link runs below it."""
    now, most = [], []
    for end in (link.upper, link.lower):
        express = None if end.config is None else end.config.express
        registers = None if express is None else express.link
        if registers is not None:
            now.append(registers.generation)
            most.append(min(registers.generation_most, registers.target or registers.generation_most))
        elif end.link.generation is not None and end.link.max_generation is not None:
            now.append(end.link.generation)
            most.append(end.link.max_generation)
    if len(now) == 2 and 0 < min(now) < min(most):
        return min(now), min(most)
    return None


def _width(function: Function) -> int | None:
    express = None if function.config is None or function.is_gone else function.config.express
    return express.link.width if express is not None and express.link is not None else function.link.current_width


def _width_most(function: Function) -> int | None:
    express = None if function.config is None or function.is_gone else function.config.express
    return express.link.width_most if express is not None and express.link is not None else function.link.max_width


def _told(link: LinkEnds) -> str:
    """Both ends in the words of their registers."""
    words = []
    for end in (link.upper, link.lower):
        speed = f"{end.link.current_speed:g} GT/s" if end.link.current_speed is not None else "unknown speed"
        words.append(f"{end.bdf} {speed} x{_width(end)} of x{_width_most(end)}")
    return "; ".join(words)


def _payload(picture: Picture, slot: Slot) -> Iterator[Diagnosis]:
    sizes = [(function, size) for function, size in payloads(picture.snapshot, slot) if size is not None]
    if len({size for _, size in sizes}) < 2:
        return
    walk = " > ".join(f"{function.bdf} {size}" for function, size in sizes)
    least = min(size for _, size in sizes)
    able = min((_payload_most(picture.snapshot, function) for function, _ in sizes), default=0)
    yield Diagnosis(
        Severity.FAIL,
        "payload",
        picture.label(slot.name),
        f"payload sizes differ along the path: {walk} B",
        "",
        "",
        "a part that was attached later, or firmware, set another Max Payload Size: larger packets are then "
        "refused by the smaller end",
        f"boot with pci=pcie_bus_safe, or attach before the boot; every hop can do {min(able, 4096) or least} B",
        (slot.name,),
    )


def _payload_most(snapshot: Snapshot, function: Function) -> int:
    express = None if function.config is None else function.config.express
    return (
        4096 if express is None or not express.payload_most or snapshot.by_bdf.get(function.bdf) is None else express.payload_most
    )
