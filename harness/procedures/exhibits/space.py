"""What a host bridge may hand out, what is taken, and what has no place: memory below and above 4 GiB, I/O ports, bus numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.devices.pcie import Bar, Role, RootWindow, Snapshot

IO, LOW, HIGH, BUSES = "I/O ports", "memory below 4 GiB", "memory above 4 GiB", "bus numbers"


def show_space(snapshot: Snapshot, root: str) -> dict[str, Any]:
    """``rows`` of (kind, what there is, what is taken, what has no place) of one host bridge; null where nothing tells.

    Memory and I/O in bytes. Taken is what the functions right below the bridge occupy, their windows included, for a window
    is taken whole. Without a place are BARs anywhere below it, by sysfs or, where an old kernel drops them, by its log.
    """
    given = _given(snapshot, root)
    taken = _taken(snapshot, root)
    homeless = _homeless(snapshot, root, has_high=bool(given[HIGH]))
    rows = [[kind, given[kind] if snapshot.windows else None, taken[kind], homeless[kind]] for kind in (LOW, HIGH, IO)]
    return {"root": root, "rows": [*rows, [BUSES, *_buses(snapshot, root)]]}


def _given(snapshot: Snapshot, root: str) -> Counter[str]:
    given: Counter[str] = Counter()
    for window in snapshot.windows:
        if window.root == root:
            given[_kind_of_window(window)] += window.size
    return given


def _taken(snapshot: Snapshot, root: str) -> Counter[str]:
    taken: Counter[str] = Counter()
    for function in snapshot.functions:
        if function.root == root and function.parent is None:
            for bar in function.bars:
                if bar.assigned:
                    taken[_kind_of(bar)] += bar.size
    return taken


def _homeless(snapshot: Snapshot, root: str, *, has_high: bool) -> Counter[str]:
    """Bytes of BARs without a place; each BAR once, whoever tells of it."""
    lacking: dict[tuple[str, str], tuple[str, int]] = {}
    for shortage in snapshot.log.shortages:
        function, wanted = snapshot.by_bdf.get(shortage.bdf), shortage.resource
        if function is None or function.root != root or not shortage.name.startswith("BAR"):
            continue
        bar = function.bar(int(shortage.name.removeprefix("BAR")))
        if bar is None or not bar.assigned:
            high = wanted.is_64bit and (wanted.prefetchable or has_high)
            lacking[shortage.bdf, shortage.name] = (IO if wanted.kind == "io" else HIGH if high else LOW, wanted.size)
    for function in snapshot.functions:
        for bar in function.bars if function.root == root else ():
            if bar.role is Role.BAR and bar.size and not bar.assigned:
                high = bar.is_64bit and (bar.prefetchable or has_high)
                lacking[function.bdf, bar.name] = (IO if bar.is_io else HIGH if high else LOW, bar.size)
    homeless: Counter[str] = Counter()
    for kind, size in lacking.values():
        homeless[kind] += size
    return homeless


def _buses(snapshot: Snapshot, root: str) -> tuple[int | None, int, int]:
    """Bus numbers by what the kernel announced; without a place are bridges that got none."""
    given = next((each for each in snapshot.log.roots if each.root == root and each.kind == "bus"), None)
    first = int(root.rpartition(":")[2], 16)
    tops = [function for function in snapshot.functions if function.root == root and function.parent is None]
    highest = max((top.subordinate_bus or first for top in tops), default=first)
    short = sum(
        (bridge := snapshot.by_bdf.get(shortage.bdf)) is not None and bridge.root == root for shortage in snapshot.log.buses
    )
    return None if given is None else given.size, highest - first + 1, short


def _kind_of_window(window: RootWindow) -> str:
    return IO if window.is_io else LOW if window.is_32bit else HIGH


def _kind_of(bar: Bar) -> str:
    return IO if bar.is_io else LOW if bar.end < 1 << 32 else HIGH
