"""What the kernel's log tells of parts that came or left while the machine ran, and of windows that were taken from a bridge.

    hot-plug port    Card present, Link Up ─▶ came     pressed button, Link Down, Card not present ─▶ left     the last word counts
    bridge window    released ─▶ taken back to fit something else        address conflict with X ─▶ held by X

Wordings: Linux drivers/pci/hotplug/pciehp_ctrl.c, drivers/pci/setup-bus.c, drivers/pci/setup-res.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.devices.pcie import Function, Snapshot, strip_stamp

_LEFT = re.compile(r"pciehp: Slot\([^)]*\): (?:Powering off due to button press|Link Down(?!/Up ignored)|Card not present)")
_CAME = re.compile(r"pciehp: Slot\([^)]*\): (?:Card present|Link Up)")
_RELEASED = re.compile(r"(?:resource \d+|bridge window) \[mem [^\]]+\] released")
_HELD = re.compile(r"can't claim; address conflict with (?P<holder>.+? \[mem [^\]]+\])")


def left(snapshot: Snapshot, port: Function) -> str:
    """The line that tells of a part that left a hot-plug port; "" where there is none, or where one came afterwards."""
    return _last_said(snapshot, port, _LEFT, _CAME)


def came(snapshot: Snapshot, bridges: Sequence[Function]) -> str:
    """The line that tells of a part that came to one of these ports; "" where there is none."""
    return next((line for bridge in bridges if (line := _last_said(snapshot, bridge, _CAME, _LEFT))), "")


def last_came(snapshot: Snapshot) -> str:
    """The last line that tells of a part that came to any port; "" where there is none."""
    return next((strip_stamp(line) for line in reversed(snapshot.log.lines) if _CAME.search(line)), "")


def released(snapshot: Snapshot, bridges: Sequence[Function], *, high: bool) -> str:
    """The line with which the kernel took back a memory window of one of these bridges; ``high``: the prefetchable one."""
    for bridge in bridges:
        for line in snapshot.log.lines:
            if bridge.bdf in line and _RELEASED.search(line) and ("pref]" in line) == high:
                return strip_stamp(line)
    return ""


def holder(snapshot: Snapshot, bridges: Sequence[Function], *, high: bool) -> str:
    """Who has the addresses of a memory window that still has no place, as the kernel names it with its range; "" if not told."""
    without = {
        shortage.bdf
        for shortage in snapshot.log.shortages
        if shortage.resource.kind == "mem" and shortage.resource.prefetchable == high
    }
    for bridge in bridges:
        if bridge.bdf not in without:
            continue
        for line in snapshot.log.lines:
            named = f"{bridge.bdf}: bridge window" in line and ("pref]" in line) == high
            if named and (found := _HELD.search(line)):
                return found["holder"]
    return ""


def _last_said(snapshot: Snapshot, port: Function, wanted: re.Pattern[str], otherwise: re.Pattern[str]) -> str:
    """The last line about ``port`` of one shape, unless a later one of the other shape takes it back."""
    last = ""
    for line in snapshot.log.lines:
        if port.bdf in line:
            if wanted.search(line):
                last = strip_stamp(line)
            elif otherwise.search(line):
                last = ""
    return last
