"""How Linux hands out a host bridge's windows where firmware has not.

    size     bottom up: what every bridge asks for         pbus_size_mem, pbus_size_io, calculate_mem_align
    assign   top down: largest alignment first, first fit  pdev_sort_resources, pci_assign_resource, find_resource

Behaviour of drivers/pci/setup-bus.c, setup-res.c, kernel/resource.c and arch/x86/pci/i386.c of Linux 6.1, stated in own words
and compared with that kernel in QEMU. It is one pass, as without ``pci=realloc``; reserves for hot-plug and the optional
registers of virtual functions, which a kernel adds where there is room, are left out. Kernels of 2026 and later size windows in
another way (bugzilla.kernel.org 220775): compare again before relying on it for those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.procedures.budget.demand import MIB, WINDOW_GRAIN, Ask, Device, Openings, Placement, Region, Space, aligned

WINDOWS = {Space.IO: "I/O window", Space.LOW: "memory window", Space.WIDE: "prefetchable window"}
"""What a bridge's own asks are called."""

_SPACES = (Space.IO, Space.LOW, Space.WIDE)
_ISA_ALIAS = 0x300
"""I/O addresses with one of these bits belong to ISA cards' aliases; x86 moves on to the next multiple of 0x400."""


def size_window(bridge: Device, space: Space) -> Ask | None:
    """The window that a bridge asks for in one space; None where nothing below needs one."""
    asks = [ask for child in bridge.children for ask in _all_asks(child, (space,))]
    if not asks:
        return None
    grain = WINDOW_GRAIN[space]
    if space is Space.IO:
        align = max(grain, *(ask.alignment for ask in asks))
        return Ask(WINDOWS[space], aligned(sum(ask.size for ask in asks), align), space, align)
    align = max(grain, _relaxed_alignment(asks))
    return Ask(WINDOWS[space], aligned(sum(max(ask.size, ask.alignment) for ask in asks), align), space, align)


def _relaxed_alignment(asks: Sequence[Ask]) -> int:
    """The smallest alignment of a window at which what is smaller still fills the gap before what is larger.

    What is larger than its own alignment, such as the window of a bridge below, does not take part.
    """
    orders = [max(MIB, ask.alignment) for ask in asks]
    sums: dict[int, int] = {}
    for ask, order in zip(asks, orders, strict=True):
        if ask.size <= ask.alignment:
            sums[order] = sums.get(order, 0) + ask.alignment
    total, relaxed, order = 0, 0, MIB
    while order <= max(orders):
        if not total:
            relaxed = order
        elif aligned(total + relaxed, relaxed) < order:
            relaxed = order >> 1
        total += sums.get(order, 0)
        order <<= 1
    return relaxed


def assign(devices: Sequence[Device], openings: Openings) -> tuple[Placement, ...]:
    """Place everything that ``devices`` on a root bus and all below them ask for. Whatever gets a place keeps it."""
    return tuple(_assign_bus(devices, "", _Root(openings)))


def _assign_bus(devices: Sequence[Device], above: str, pool: _Root | _Bus) -> Iterator[Placement]:
    asked = [(device, ask) for device in devices for ask in _all_asks(device)]
    given: dict[tuple[str, str], Region] = {}
    for device, ask in sorted(asked, key=lambda pair: -pair[1].alignment):
        region = pool.take(ask)
        if region is not None:
            given[device.place, ask.name] = region
        yield Placement(f"{above}{device.place}", ask, region)
    for device in devices:
        if device.is_bridge:
            windows = {space: given.get((device.place, WINDOWS[space])) for space in _SPACES}
            yield from _assign_bus(device.children, f"{above}{device.place}/", _Bus(windows))


def _all_asks(device: Device, spaces: Sequence[Space] = _SPACES) -> Iterator[Ask]:
    """What a device asks for in some spaces: registers and, of a bridge, windows, in the order in which the kernel numbers them."""
    yield from (ask for ask in device.asks if ask.space in spaces)
    if device.is_bridge:
        for space in spaces:
            if (window := size_window(device, space)) is not None:
                yield window


class _Range:
    """A window and what of it is taken."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._taken: list[Region] = []

    def take(self, ask: Ask) -> Region | None:
        """The first gap that holds ``ask``, which is taken then."""
        gap = self._region.start
        for taken in (*self._taken, Region(self._region.end, 0)):
            found = Region(_first_address(gap, ask), ask.size)
            if found.end <= taken.start:
                self._taken = sorted([*self._taken, found], key=lambda region: region.start)
                return found
            gap = max(gap, taken.end)
        return None


def _first_address(gap: int, ask: Ask) -> int:
    start = aligned(gap, ask.alignment)
    if ask.space is Space.IO and start & _ISA_ALIAS:
        return aligned(start, 0x400)
    return start


class _Root:
    """The root bus. What is wide is put above 4 GiB first, and then wherever there is memory."""

    def __init__(self, openings: Openings) -> None:
        self._ranges = {space: [_Range(region) for region in openings.of(space)] for space in _SPACES}

    def take(self, ask: Ask) -> Region | None:
        return _first([*self._ranges[ask.space], *(self._ranges[Space.LOW] if ask.space is Space.WIDE else ())], ask)


class _Bus:
    """The bus below a bridge. What is wide and finds no room in the prefetchable window is tried in the other one."""

    def __init__(self, windows: dict[Space, Region | None]) -> None:
        self._ranges = {space: _Range(region) for space, region in windows.items() if region is not None}

    def take(self, ask: Ask) -> Region | None:
        spaces = (ask.space, Space.LOW) if ask.space is Space.WIDE else (ask.space,)
        return _first([self._ranges[space] for space in spaces if space in self._ranges], ask)


def _first(ranges: Sequence[_Range], ask: Ask) -> Region | None:
    for each in ranges:
        if (region := each.take(ask)) is not None:
            return region
    return None
