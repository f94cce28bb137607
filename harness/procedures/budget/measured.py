"""What a machine that has booted says of its host bridges, as a budget takes it: from the kernel's own list and its log.

    /proc/iomem, /proc/ioports ─▶ low, wide, io        kernel log "root bus resource [bus 3a-5c]" ─▶ buses

Only the largest range of a kind counts: the small ones below 1 MiB are the legacy video memory and the like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.devices.pcie import RootWindow, Snapshot
from harness.platform import Stack
from harness.units import amount


def measure_stacks(snapshot: Snapshot, hbas: dict[str, str], source: str) -> tuple[Stack, ...]:
    """One stack for each host bridge (``pci0000:3a``) in ``hbas``, which names its slot of the server.

    A bridge whose 32-bit window or bus numbers the machine does not tell is left out: nothing is made up for it.
    """
    found = (_measure(snapshot, root, slot, source) for root, slot in hbas.items())
    return tuple(stack for stack in found if stack is not None)


def differences(declared: Sequence[Stack], measured: Sequence[Stack]) -> tuple[str, ...]:
    """Where the platform's stacks are not what the machine has, one line each figure."""
    by_root = {stack.root: stack for stack in declared}
    return tuple(line for stack in measured if stack.root in by_root for line in _differences(by_root[stack.root], stack))


def as_toml(stack: Stack) -> Iterator[str]:
    """The table of a platform file."""
    yield "[[stack]]"
    yield f'slot = "{stack.slot}"'
    yield f'root = "{stack.root}"'
    yield f'low = "{_size(stack.low)}"'
    yield f'low_at = "{stack.low_at}"'
    if stack.wide is not None:
        yield f'wide = "{_size(stack.wide)}"'
        yield f'wide_at = "{stack.wide_at}"'
    if stack.io is not None:
        yield f'io = "{_size(stack.io)}"'
    yield f"buses = {stack.buses}"
    yield f'source = "{stack.source}"'


def _measure(snapshot: Snapshot, root: str, slot: str, source: str) -> Stack | None:
    own = [window for window in snapshot.windows if window.root == root]
    low = _largest([window for window in own if not window.is_io and window.is_32bit])
    wide = _largest([window for window in own if not window.is_io and not window.is_32bit])
    io = _largest([window for window in own if window.is_io])
    buses = next((each.size for each in snapshot.log.roots if each.root == root and each.kind == "bus"), None)
    if low is None or buses is None:
        return None
    return Stack(
        slot=slot,
        root=root,
        low=float(low.size),
        low_at=f"{low.start:#x}",
        wide=None if wide is None else float(wide.size),
        wide_at="" if wide is None else f"{wide.start:#x}",
        io=None if io is None else float(io.size),
        buses=buses,
        source=source,
    )


def _largest(windows: Sequence[RootWindow]) -> RootWindow | None:
    return max(windows, key=lambda window: window.size, default=None)


def _differences(declared: Stack, measured: Stack) -> Iterator[str]:
    figures = (
        ("32-bit MMIO", declared.low, measured.low),
        ("64-bit MMIO", declared.wide, measured.wide),
        ("I/O ports", declared.io, measured.io),
    )
    for name, wanted, seen in figures:
        if wanted != seen:
            yield f"{declared.slot}: {name} is {_size(wanted)} by the platform and {_size(seen)} on the machine"
    if declared.buses != measured.buses:
        yield f"{declared.slot}: it has {declared.buses} bus numbers by the platform and {measured.buses} on the machine"


def _size(size: float | None) -> str:
    if size is None:
        return "none"
    (text,), unit = amount(size, unit="B")
    return f"{text} {unit}"
