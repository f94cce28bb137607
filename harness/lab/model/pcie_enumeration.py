"""Firmware and kernel in one: number the buses depth first, hand out windows, and keep what did not fit.

    number    root bus 3a ─ root port 3a:00.0 [3b-48] ─ HBA 3b:00.0 [3c-48] ─ ...   where no number is left, a bridge gets no bus
    demand    GPU BARs → port window → ... → root port window                       bottom up, 32-bit and 64-bit apart
    give      root window → root port window → ... → GPU BARs                       top down; what fails becomes a Shortage

The kernel log and sysfs are both written from this one result, so they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.lab.model.pcie_parts import Bar, Hardware
from harness.lab.model.pcie_windows import MIB, Region, Want, needed, place
from harness.lab.model.tree import Stack

Space: TypeAlias = Literal["low", "wide"]
SPACES: tuple[Space, ...] = ("low", "wide")


@dataclass
class Placed:
    """One function after enumeration.

    ``path`` is the walk to it as a platform writes it. ``secondary`` is 0 for a bridge that got no bus. ``regions`` holds
    what each BAR got, ``windows`` what a bridge got in each space; what is missing there did not fit.
    """

    hardware: Hardware
    path: str
    bus: int
    node: int
    parent: Placed | None = None
    secondary: int = 0
    subordinate: int = 0
    regions: dict[int, Region] = field(default_factory=dict)
    windows: dict[Space, Region] = field(default_factory=dict)
    children: list[Placed] = field(default_factory=list)

    @property
    def address(self) -> str:
        """``0000:3f:00.0``."""
        return f"0000:{self.bus:02x}:{self.hardware.device:02x}.{self.hardware.function}"

    def walk(self) -> Iterator[Placed]:
        """This function and all below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Shortage:
    """A resource that did not fit: a BAR by its name, or ``bridge window``; ``flags`` as the kernel prints them."""

    function: Placed
    resource: str
    size: int
    flags: str


@dataclass(frozen=True)
class Enumerated:
    """One stack after enumeration; ``shortages`` and ``busless`` (with the bus number they wanted) in the order met."""

    stack: Stack
    functions: tuple[Placed, ...]
    shortages: tuple[Shortage, ...]
    busless: tuple[tuple[Placed, int], ...]

    def walk(self) -> Iterator[Placed]:
        """All functions, depth first."""
        for function in self.functions:
            yield from function.walk()


def enumerate_stack(stack: Stack) -> Enumerated:
    """Number and place everything below one host bridge."""
    numbering = _Numbering(stack)
    functions = numbering.bus(stack.functions, stack.first_bus, stack.path, None)
    shortages: list[Shortage] = []
    low = _wants(functions, "low")
    _give(low, stack.low, "low", shortages)
    wide = _wants(functions, "wide")
    _give(wide, _room_for(wide, _left(stack.low, functions), stack.wide), "wide", shortages)
    return Enumerated(stack, tuple(functions), tuple(shortages), tuple(numbering.busless))


class _Numbering:
    """Bus numbers, depth first, until the range is used up."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._next = stack.first_bus + 1 + stack.bus_gap
        self.busless: list[tuple[Placed, int]] = []

    def bus(self, functions: Sequence[Hardware], number: int, path: str, parent: Placed | None) -> list[Placed]:
        placed = []
        for hardware in functions:
            here = f"{path}/{hardware.device:02x}.{hardware.function}"
            function = Placed(hardware, here, number, self._stack.node, parent)
            placed.append(function)
            if hardware.is_bridge:
                self._behind(function)
        return placed

    def _behind(self, bridge: Placed) -> None:
        number = self._next
        self._next += 1
        if number > self._stack.last_bus:
            self.busless.append((bridge, number))
            return
        bridge.secondary = number
        bridge.children = self.bus(bridge.hardware.children, number, bridge.path, bridge)
        bridge.subordinate = min(self._next - 1, self._stack.last_bus)


@dataclass(frozen=True)
class _Claim:
    """A want and what to do with its region: ``take`` stores it, ``lack`` is what is missing without it."""

    want: Want
    take: Callable[[Region], None]
    lack: Shortage | None
    bridge: Placed | None = None


def _wants(functions: Sequence[Placed], space: Space) -> list[_Claim]:
    """What the functions on one bus need in one space: their BARs, and the windows of their bridges."""
    claims = []
    for function in functions:
        for bar in function.hardware.bars:
            if _space_of(bar) == space:
                claims.append(_bar_claim(function, bar))
        window = _window(function, space)
        if window is not None:
            claims.append(_window_claim(function, space, window))
    return claims


def _bar_claim(function: Placed, bar: Bar) -> _Claim:
    def take(region: Region) -> None:
        if not bar.forgotten:
            function.regions[bar.index] = region

    flags = f"{' 64bit' if bar.wide else ''}{' pref' if bar.prefetchable else ''}"
    lack = None if bar.forgotten else Shortage(function, f"BAR {bar.index}", bar.size, flags)
    return _Claim(Want(bar.size, bar.size), take, lack)


def _window_claim(bridge: Placed, space: Space, window: Want) -> _Claim:
    def take(region: Region) -> None:
        bridge.windows[space] = region

    flags = " 64bit pref" if space == "wide" else ""
    return _Claim(window, take, Shortage(bridge, "bridge window", window.size, flags), bridge)


def _window(bridge: Placed, space: Space) -> Want | None:
    """The window a bridge needs; one with bridges below makes do with less and hands the shortage down."""
    wants = [claim.want for claim in _wants(bridge.children, space)]
    return needed(wants, MIB, shrinks=any(child.hardware.is_bridge for child in bridge.children))


def _give(claims: Sequence[_Claim], window: Region | None, space: Space, lacks: list[Shortage]) -> None:
    """Hand out ``window``, and what each bridge got of it to what is below; append what did not fit to ``lacks``."""
    for claim, region in zip(claims, place(window, [claim.want for claim in claims]), strict=True):
        if region is not None:
            claim.take(region)
        elif claim.lack is not None:
            lacks.append(claim.lack)
        if claim.bridge is not None:
            _give(_wants(claim.bridge.children, space), region, space, lacks)


def _left(low: Region, functions: Sequence[Placed]) -> Region:
    """What of the 32-bit window is free behind everything handed out so far."""
    taken = [region for top in functions for region in (*top.regions.values(), *top.windows.values())]
    end = max((region.last + 1 for region in taken), default=low.start)
    return Region(end, low.last + 1 - end)


def _room_for(claims: Sequence[_Claim], left: Region, wide: Region | None) -> Region | None:
    """Where the 64-bit BARs of a stack go: below 4 GiB where all fit there, as a recorded R640 keeps its network card."""
    wants = [claim.want for claim in claims]
    given = place(left, wants)
    fits_low = all(region is not None and region.size == want.size for region, want in zip(given, wants, strict=True))
    return left if fits_low or wide is None else wide


def _space_of(bar: Bar) -> Space:
    return "wide" if bar.wide and bar.prefetchable else "low"
