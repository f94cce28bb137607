"""How firmware packs a host bridge's windows: nothing but BARs on their own alignment, and every bridge around what is below.

    port    [ BAR 1 256M ][32M]                   window 288 MiB on a multiple of 256 MiB: the largest register's alignment
    chassis [ port 288M ]  224M  [ port 288M ]    so a port's window costs its parent 512 MiB

This is how the ports of a C4140 (BIOS 2.11.2) read, whose 16 GiB GPUs have windows of 16416 MiB (linuxhw lspci collection), and how
OVMF places what the virtual lab holds. What Dell's firmware does beyond it, such as moving space between stacks after a start that
ran short, nobody has published: measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.procedures.budget.demand import WINDOW_GRAIN, Ask, Device, Openings, Region, Space, aligned
from harness.procedures.budget.kernel import WINDOWS

_SPACES = (Space.IO, Space.LOW, Space.WIDE)


def size_window(bridge: Device, space: Space) -> Ask | None:
    """The window that a bridge asks for in one space; None where nothing below needs one."""
    asks = [ask for child in bridge.children for ask in _asks(child, space)]
    if not asks:
        return None
    grain = WINDOW_GRAIN[space]
    return Ask(WINDOWS[space], aligned(_span(asks, 0), grain), space, max(grain, *(ask.alignment for ask in asks)))


def need(devices: Sequence[Device], space: Space, start: int) -> int:
    """Bytes that everything on a root bus occupies in one space, from ``start``, with the gaps that alignment costs."""
    return _span([ask for device in devices for ask in _asks(device, space)], start)


def fits(devices: Sequence[Device], openings: Openings) -> bool:
    """Whether memory holds everything: what is wide may lie below 4 GiB where it all fits there. I/O ports are left out."""
    low = max(openings.low, key=lambda region: region.size, default=Region(0, 0))
    narrow = need(devices, Space.LOW, low.start)
    if narrow > low.size:
        return False
    if any(need(devices, Space.WIDE, wide.start) <= wide.size for wide in openings.wide):
        return True
    behind = low.start + narrow
    return need(devices, Space.WIDE, behind) <= low.end - behind


def _asks(device: Device, space: Space) -> Iterator[Ask]:
    yield from (ask for ask in device.asks if ask.space is space)
    if device.is_bridge and (window := size_window(device, space)) is not None:
        yield window


def _span(asks: Sequence[Ask], start: int) -> int:
    """From ``start`` to the end of the last, largest alignment first."""
    end = start
    for ask in sorted(asks, key=lambda ask: -ask.alignment):
        end = aligned(end, ask.alignment) + ask.size
    return end - start
