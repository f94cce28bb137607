"""The tree as the kernel log tells it: what was found at boot, which addresses it had, and which it got in the end.

    pci 0000:3b:00.0: [10de:1e30] type 00 class 0x030000      a function
    pci 0000:3b:00.0: reg 0x14: [mem 0x... 64bit pref]        a BAR as firmware left it; newer kernels write "BAR 1 [mem ...]"
    pci 0000:3a:00.0: PCI bridge to [bus 3b]                  the buses behind a bridge
    pci 0000:3a:00.0:   bridge window [mem ...]               its windows
    pci 0000:3b:00.0: BAR 1: assigned [mem ...]               the final word: the last one counts

The log ranks below every other source: it tells what was, not what is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.devices.dumps.harvest import Format, Harvest
from harness.devices.pcie import Bar, Function, parse_kernel_log, strip_stamp
from harness.devices.pcie.resources import RootWindow

_DEVICE = re.compile(r"[\w-]+ (?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?P<rest>.*)")
_FOUND = re.compile(
    r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\] type (?P<type>[0-9a-f]{2}) class (?:0x)?(?P<class>[0-9a-f]{6})"
)
_BRIDGE = re.compile(r"PCI bridge to \[bus (?P<first>[0-9a-f]{2})(?:-(?P<last>[0-9a-f]{2}))?\]")
_SPAN = r"\[(?P<kind>io|mem) +(?:size (?P<size>0x[0-9a-f]+)|(?P<start>0x[0-9a-f]+)-(?P<end>0x[0-9a-f]+))(?P<flags>[^\]]*)\]"
_REGISTER = re.compile(r"reg 0x(?P<register>[0-9a-f]{2}): " + _SPAN)
_NAMED = re.compile(r"(?P<name>BAR \d|ROM|bridge window) " + _SPAN + r"(?P<after>.*)")
_OLDER = re.compile(r"BAR (?P<index>\d+): (?P<event>no space for|failed to assign|assigned|releasing) " + _SPAN)
_WINDOW = re.compile(r" +bridge window " + _SPAN + r"(?P<after>.*)")
_FLAGS = {"64bit": 0x100000, "pref": 0x2000}
_UNSET = 0x20000000


def parse_kernel_tree(lines: Iterable[str], source: str) -> Harvest:
    """Functions, bridges, BARs and root windows that a kernel log tells of. Never raises."""
    kept = tuple(lines)
    found: dict[str, _Logged] = {}
    for line in kept:
        if line.count(":") < 3:
            continue
        told = _DEVICE.match(strip_stamp(line))
        if told is not None:
            _read(found, told["bdf"], told["rest"])
    windows = tuple(
        RootWindow(root.root, root.start, root.end, root.kind == "io")
        for root in parse_kernel_log(line for line in kept if "root bus resource" in line).roots
        if root.kind != "bus"
    )
    functions = tuple(logged.freeze(bdf) for bdf, logged in found.items() if logged.ids)
    summary = f"{len(kept)} lines" + (f", {len(functions)} functions found at boot" if functions else "")
    return Harvest(Format.KERNEL_LOG, source, summary, functions, lines=kept, windows=windows)


@dataclass
class _Logged:
    """One function while its lines come in."""

    ids: tuple[str, str, str] | None = None
    buses: tuple[int, int] | None = None
    bars: dict[int, Bar] = field(default_factory=dict)

    def freeze(self, bdf: str) -> Function:
        vendor, device, class_code = self.ids or ("", "", "")
        return Function(
            bdf=bdf,
            path="",
            vendor=vendor,
            device=device,
            class_code=class_code,
            bars=tuple(bar for _, bar in sorted(self.bars.items())),
            secondary_bus=self.buses[0] if self.buses else None,
            subordinate_bus=self.buses[1] if self.buses else None,
        )


def _read(found: dict[str, _Logged], bdf: str, rest: str) -> None:
    if rest.startswith("["):
        if told := _FOUND.match(rest):
            found.setdefault(bdf, _Logged()).ids = (told["vendor"], told["device"], told["class"])
        return
    logged = found.get(bdf)
    if logged is None:
        return
    if told := _BRIDGE.match(rest):
        logged.buses = (int(told["first"], 16), int(told["last"] or told["first"], 16))
    elif told := _REGISTER.match(rest):
        register = int(told["register"], 16)
        index = 6 if register in (0x30, 0x38) else (register - 0x10) // 4
        if 0 <= index <= 6:
            logged.bars[index] = _bar(index, told)
    elif told := _OLDER.match(rest):
        index = int(told["index"])
        logged.bars[index] = _bar(index, told, is_placed=told["event"] == "assigned")
    elif told := _WINDOW.match(rest):
        index = _window_index(told)
        logged.bars[index] = _bar(index, told)
    elif told := _NAMED.match(rest):
        index = 6 if told["name"] == "ROM" else _window_index(told) if told["name"] == "bridge window" else int(told["name"][-1])
        after = told["after"]
        if not after or after.startswith((": assigned", ": can't assign", ": failed to assign")):
            logged.bars[index] = _bar(index, told, is_placed=not after or "assigned" in after)


def _window_index(told: re.Match[str]) -> int:
    return 13 if told["kind"] == "io" else 15 if "pref" in told["flags"] else 14


def _bar(index: int, told: re.Match[str], *, is_placed: bool = True) -> Bar:
    flags = (0x100 if told["kind"] == "io" else 0x200) | sum(_FLAGS.get(word, 0) for word in told["flags"].split())
    if told["size"] is not None:
        return Bar(index, 0, int(told["size"], 16) - 1, flags | _UNSET)
    start, end = int(told["start"], 16), int(told["end"], 16)
    if not is_placed or (start == 0 and told["kind"] == "mem"):
        return Bar(index, 0, max(end - start, 0), flags | _UNSET)
    return Bar(index, start, end, flags)
