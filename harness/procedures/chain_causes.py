"""What was found where the chain broke: the evidence, the likely cause, and what to do next.

Evidence is a line of the kernel log where there is one, else the registers of the port. Causes are the ones that public reports of
many-GPU machines name; they are said to be likely, never certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.devices.pcie import Function, PortType, RootWindow, Snapshot
from harness.procedures import chain_log
from harness.units import number

_WIDE = 0x4
"""Bit 2 of a memory BAR's register: it has 64 bits."""

_PREFETCHABLE = 0x8
"""Bit 3 of a memory BAR's register: reads have no side effects."""

_LEAST_WINDOW = 1 << 20
"""Bytes: a bridge's memory window is a multiple of 1 MiB (PCI-to-PCI Bridge Architecture Specification)."""


@dataclass(frozen=True)
class Finding:
    """What was seen, what it likely means, what a person does next: one line each; ``lost`` names the BARs that have no place."""

    evidence: str
    cause: str
    do: str
    lost: str = ""


def is_wide(function: Function, index: int) -> bool:
    """True for a 64-bit BAR: by its register, which also tells of one without a place, else as the kernel knows it."""
    config = function.config
    if config is not None and index < len(config.bar_registers):
        return bool(config.bar_registers[index] & _WIDE)
    bar = function.bar(index)
    return bar is not None and bar.is_64bit


def is_high(function: Function, index: int) -> bool:
    """True for a BAR that may lie above 4 GiB where the function sits: below a bridge a 64-bit one must be prefetchable too.

    A bridge's other memory window has 32 bits (PCI-to-PCI Bridge Architecture Specification), so a 64-bit BAR that is not
    prefetchable, such as an NVMe controller's registers, competes for the space below 4 GiB.
    """
    if not is_wide(function, index) or function.parent is None:
        return is_wide(function, index)
    config = function.config
    if config is not None and index < len(config.bar_registers):
        return bool(config.bar_registers[index] & _PREFETCHABLE)
    bar = function.bar(index)
    return bar is not None and bar.prefetchable


def link_is_down(bridge: Function) -> bool:
    """True where a port's link below it is down. What cannot be read is not called down."""
    express = None if bridge.config is None else bridge.config.express
    if express is not None and express.type not in (PortType.ROOT_PORT, PortType.DOWNSTREAM):
        return False
    registers = None if express is None else express.link
    if registers is not None:
        return not registers.active if registers.active is not None else registers.width == 0
    return bridge.link.current_width == 0


def link_is_untold(bridge: Function) -> bool:
    """True where a port has a link that it does not call active or not (LLActRep-), so its width alone proves nothing."""
    express = None if bridge.config is None else bridge.config.express
    return express is not None and express.link is not None and express.link.active is None


def has_no_bus(snapshot: Snapshot, bridge: Function) -> bool:
    """True where nothing behind a bridge can be numbered."""
    return bridge.secondary_bus == 0 or any(shortage.bdf == bridge.bdf for shortage in snapshot.log.buses)


def link_down(port: Function, *, is_uplink: bool) -> Finding:
    """The port is there and its link is down."""
    what = "the cable or the chassis behind it" if is_uplink else "the card in the slot"
    if _presence(port):
        return Finding(
            registers(port),
            f"something is plugged in and its link does not train: {what}, a retimer, or missing auxiliary power",
            f"reseat {what}; swap it with a good neighbour and see whether the fault moves with it or stays",
        )
    return Finding(
        registers(port),
        f"nothing is detected: {what} is missing or has no power",
        "power the chassis and the fabric first, wait for their links, then cold-start the host"
        if is_uplink
        else "check that the card is seated and powered, and that the fabric has attached it",
    )


def pulled(snapshot: Snapshot, port: Function) -> Finding | None:
    """What was behind a hot-plug port left while the machine ran, as the kernel's log tells; None where it tells no such thing."""
    line = chain_log.left(snapshot, port)
    if not line:
        return None
    return Finding(
        line,
        f"the part left while the machine ran: pulled, switched off, or its link dropped; {registers(port)}",
        "ask who detached it (fabric, slot button), look at the chassis' power; attach it and cold-start the host",
    )


def link_untold(port: Function) -> Finding:
    """Nothing answers behind a port that does not say whether its link is up."""
    return Finding(
        f"{registers(port)}; the port does not report whether its link is active, and nothing answers on bus "
        f"{port.secondary_bus or 0:02x}",
        "nothing is plugged in, its link does not train, or it does not answer: this port cannot tell which",
        "look whether the card is there and has power; swap it with a good neighbour and see whether the fault moves with it",
    )


def came_late(port: Function) -> Finding:
    """An uplink whose link is up while nothing behind it was ever numbered."""
    return Finding(
        f"{registers(port)}, and nothing behind it",
        "the chassis was powered on after the host had numbered its buses",
        "keep chassis and fabric powered and cold-start the host: chassis, switch, links, then host",
    )


def no_port(path: str, function: Function | None) -> Finding:
    """Not even the first port of the path answers."""
    seen = "its configuration space reads all ones" if function is not None else "there is no such function below the host bridge"
    return Finding(
        f"{path}: {seen}",
        "the slot is switched off or bifurcated in the BIOS setup, the HBA is missing, or its processor is",
        "check the HBA's slot in the BIOS attributes and in the BMC's inventory, then reseat the HBA",
    )


def no_bus(snapshot: Snapshot, bridge: Function) -> Finding:
    """The range of bus numbers is used up."""
    line = next((shortage.line for shortage in snapshot.log.buses if shortage.bdf == bridge.bdf), "")
    window = next((root for root in snapshot.log.roots if root.root == bridge.root and root.kind == "bus"), None)
    given = f" ({window.size} numbers, {window.start:02x}-{window.end:02x})" if window is not None else ""
    return Finding(
        line or f"{bridge.bdf}: secondary bus {bridge.secondary_bus}, subordinate bus {bridge.subordinate_bus}",
        f"the bus numbers of {bridge.root}{given} are used up",
        "move the HBA to a stack with more numbers, attach fewer parts, or take out empty ports and reserves (hpbussize)",
    )


def fell_off(snapshot: Snapshot, function: Function) -> Finding:
    """It was enumerated and answers no more."""
    slot = function.bdf.rsplit(".", 1)[0]
    line = next((xid.line for xid in snapshot.log.xids if xid.address == slot), "")
    return Finding(
        line or f"{function.bdf}: configuration space reads all ones",
        "it answered while the buses were numbered and went away since: power, heat, or a link that dropped",
        "read the port's error registers and the kernel log around that time, then cold-start the chassis",
    )


def no_answer(port: Function) -> Finding:
    """The link is up and numbered, and nothing answers."""
    return Finding(
        f"{registers(port)}, and nothing answers on bus {port.secondary_bus or 0:02x}",
        "the link trained but the card does not answer configuration requests: its firmware or its power-up",
        "power the chassis off and on with the host off; if it stays, move the card to another slot",
    )


def no_place(snapshot: Snapshot, function: Function, index: int) -> Finding:
    """A BAR without an address."""
    found = _no_place(snapshot, function, index)
    return replace(found, lost=f"its {'64' if is_high(function, index) else '32'}-bit BARs")


def _no_place(snapshot: Snapshot, function: Function, index: int) -> Finding:
    wide = is_high(function, index)
    short = next(_shortages(snapshot, function, index), "")
    line = short or _driver_line(snapshot, function, index)
    evidence = line or f"{function.bdf}: BAR {index} has no address, and the kernel log has no line about it"
    window = _largest(snapshot, function.root, wide=wide)
    if wide and window is None and snapshot.windows:
        return Finding(
            evidence,
            f"{function.root} has no 64-bit memory window: memory-mapped I/O above 4 GB is off",
            "set MmioAbove4Gb=Enabled and start the host again",
        )
    if not short and (released := _released(snapshot, function, wide=wide)):
        return released
    if not short:
        return Finding(
            evidence,
            "firmware or kernel passed this BAR over: the kernel log tells of no shortage",
            "compare with a good neighbour, then with another BIOS and another kernel (try pci=realloc once)",
        )
    return Finding(evidence, *_why_short(snapshot, function, index, window))


def _released(snapshot: Snapshot, function: Function, *, wide: bool) -> Finding | None:
    """The kernel took the window above back, with everything in it, to fit something else; None where it tells no such thing.

    Linux does so below the bridge where a part that was plugged in finds no space (drivers/pci/setup-bus.c
    ``pci_assign_unassigned_bridge_resources()``): seen with 6.1, which then found no place for the neighbours either.
    """
    line = chain_log.released(snapshot, snapshot.chain_up(function)[1:], high=wide)
    if not line:
        return None
    came = chain_log.last_came(snapshot)
    what = f"a part that was plugged in later ({came})" if came else "something else"
    return Finding(
        line,
        f"the kernel took back the windows above, to make room for {what}, and found no place for them again",
        "cold-start the host with every part attached; plug in none while it runs unless space was reserved at the start",
    )


def _why_short(snapshot: Snapshot, function: Function, index: int, window: RootWindow | None) -> tuple[str, str]:
    """The likely cause of a shortage, and what to do."""
    bits = "64" if is_high(function, index) else "32"
    bridges = snapshot.chain_up(function)[1:]
    if came := chain_log.came(snapshot, bridges):
        return (
            f"it was plugged in after the start ({came}), below windows that had been sized without it",
            "cold-start the host with the part attached, or reserve space at the start (pci=hpmmiosize=, pci=hpmmioprefsize=)",
        )
    if holder := chain_log.holder(snapshot, bridges, high=is_high(function, index)):
        return (
            f"addresses that the bridges above want in the {bits}-bit space of {function.root} are held by {holder}"
            f"{_need(snapshot, function, index)}",
            "find who holds them: the kernel's options (reserve=, memmap=), the firmware's memory map (E820), another device",
        )
    given = "" if window is None else f" of {number(window.size / 2**20)} MiB"
    return (
        f"the {bits}-bit memory window{given} of {function.root} is used up{_need(snapshot, function, index)}",
        "spread the GPUs over more root ports or attach fewer; no kernel option widens the window of a host bridge",
    )


def registers(port: Function) -> str:
    """A port's own words about its link and slot, as lspci writes them."""
    express = None if port.config is None else port.config.express
    if express is None or express.link is None:
        width = port.link.current_width
        return f"{port.bdf} link width {'unknown' if width is None else f'x{width}'} (its registers were not read)"
    link, slot = express.link, express.slot
    words = [f"{port.bdf} LnkSta gen{link.generation} x{link.width}"]
    if link.active is not None:
        words.append(f"DLActive{_sign(link.active)}")
    if slot is not None:
        words.append(f"SltSta PresDet{_sign(slot.presence)} DLLSC{_sign(slot.link_changed)}")
    return " ".join(words)


def _presence(port: Function) -> bool:
    express = None if port.config is None else port.config.express
    return express is not None and express.slot is not None and express.slot.presence


def _shortages(snapshot: Snapshot, function: Function, index: int) -> Iterator[str]:
    """Kernel lines about the BAR itself, then about a window above it that it would have been in."""
    for shortage in snapshot.log.shortages:
        if shortage.bdf == function.bdf and shortage.name == f"BAR {index}":
            yield shortage.line
    above = {bridge.bdf for bridge in snapshot.chain_up(function)[1:]}
    wide = is_high(function, index)
    for shortage in snapshot.log.shortages:
        if shortage.bdf in above and shortage.resource.kind == "mem" and shortage.resource.prefetchable == wide:
            yield shortage.line


def _driver_line(snapshot: Snapshot, function: Function, index: int) -> str:
    invalid = snapshot.log.invalid_bars
    return next((found.line for found in invalid if (found.bdf, found.bar) == (function.bdf, index)), "")


def _need(snapshot: Snapshot, function: Function, index: int) -> str:
    """What the parts of this kind behind the host bridge need at least, judged by those that have their place.

    The window above a part is rounded up to its largest BAR: 256 MiB and 32 MiB together occupy 512 MiB.
    """
    wide = is_high(function, index)
    alike = [other for other in snapshot.functions if (other.root, other.id) == (function.root, function.id)]
    least = _LEAST_WINDOW if function.parent is not None and not wide else 0
    strides = []
    for other in alike:
        bars = [bar for bar in other.bars if bar.index < 6 and bar.is_memory and is_high(other, bar.index) == wide]
        sizes = [bar.size for bar in bars]
        strides.append(max(least, -(-sum(sizes) // max(sizes)) * max(sizes)) if any(sizes) else least)
    stride = max(strides, default=0) / 2**20
    if not stride:
        return ""
    return f": {len(alike)} such parts take {number(stride)} MiB each, {number(len(alike) * stride)} MiB besides what else is there"


def _largest(snapshot: Snapshot, root: str, *, wide: bool) -> RootWindow | None:
    windows = [window for window in snapshot.windows if window.root == root and not window.is_io and window.is_32bit != wide]
    return max(windows, key=lambda window: window.size, default=None)


def _sign(value: bool) -> str:
    return "+" if value else "-"
