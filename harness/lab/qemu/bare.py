"""A virtual machine whose firmware places no PCI resource, so that the kernel's own allocator does all of it, and one look at it.

    Wired ─ root port ─ switch ─ ports ─ endpoints   (any shape, BARs of any size)
      │  QEMU, qboot instead of OVMF, Linux, one script as its first process
    Shown ─ root windows, and of each function its walk and its lines of sysfs ``resource``

qboot numbers buses and leaves BARs and windows alone (bonzini/qboot), so nothing is kept from firmware. There is no network, no
disk and no console but what the script prints; a start takes about five seconds under software emulation.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import BenchError
from harness.lab.qemu.archive import Entry, pack
from harness.lab.qemu.image import Image
from harness.lab.qemu.tools import QEMU

FIRMWARE = "qboot.rom"
"""QEMU finds it beside its other firmware (Debian: qemu-system-data)."""

_SCRIPT = """\
#!/bin/sh
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
dmesg | grep -o 'root bus resource .*'
for function in /sys/bus/pci/devices/*; do
    echo "function $(readlink -f $function)"
    test -f $function/secondary_bus_number && echo "buses $(cat $function/secondary_bus_number $function/subordinate_bus_number)"
    cat $function/resource
done
echo the end
poweroff -f
"""
_WINDOW = re.compile(r"root bus resource \[(io|mem)\s+(0x[0-9a-f]+)-(0x[0-9a-f]+)")
_HOP = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:([0-9a-f]{2}\.[0-7])")


@dataclass(frozen=True)
class Wired:
    """One device as it is plugged in: QEMU's ``model`` with its options, at ``place`` (device and function) on the bus above.

    ``children`` are on the bus behind it, where it is a bridge.
    """

    model: str
    place: str = "00.0"
    options: str = ""
    children: tuple[Wired, ...] = ()


@dataclass(frozen=True)
class Range:
    """A range of addresses, both ends included."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Shown:
    """What the kernel made of it: the host bridge's ranges, and by walk (``01.0/00.0``) each line of ``resource``.

    A line is (start, end, flags); all zeros where there is nothing or it has no place. ``buses`` are the first and the last number
    behind a bridge.
    """

    windows: tuple[Range, ...]
    functions: dict[str, tuple[tuple[int, int, int], ...]]
    buses: dict[str, tuple[int, int]] = field(default_factory=dict)


def boot_bare(
    image: Image, folder: Path, tree: Sequence[Wired], *, memory_mib: int = 256, wide_gib: int = 64, timeout: float = 120.0
) -> Shown:
    """Start the machine, wait for its end, and say what it showed. ``folder`` is empty and stays with two files in it.

    More memory leaves less space below 4 GiB: 256 MiB leave 3.4 GiB in two ranges, 2816 MiB leave 1004 MiB in one. ``wide_gib`` is
    the size of the range above. Raises BenchError, quoting QEMU, where the script does not come to its end.
    """
    initrd = folder / "initrd"
    initrd.write_bytes(image.initrd.read_bytes() + pack([Entry.file("look", _SCRIPT.encode(), 0o755)]))
    line = [QEMU, "-machine", "q35,sata=off,smbus=off", "-accel", "tcg", "-cpu", "qemu64,phys-bits=42"]
    line += ["-m", str(memory_mib), "-smp", "1", "-nodefaults", "-display", "none", "-no-reboot", "-bios", FIRMWARE]
    line += ["-global", f"q35-pcihost.pci-hole64-size={wide_gib}G", "-serial", "stdio"]
    line += ["-kernel", str(image.kernel), "-initrd", str(initrd), "-append", "console=ttyS0 rdinit=/look loglevel=1"]
    line += _devices(tree, "pcie.0")
    try:
        done = subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, cwd=folder, timeout=timeout, check=False)  # noqa: S603 - a fixed program with arguments made here
    except subprocess.TimeoutExpired:
        raise BenchError(f"the bare machine did not come to its end within {timeout:g} s") from None
    text = done.stdout.decode(errors="replace").replace("\r", "")
    if "\nthe end\n" not in text:
        said = done.stderr.decode(errors="replace").strip().splitlines() or text.strip().splitlines() or ["nothing"]
        raise BenchError(f"the bare machine did not come to its end: {said[-1]}")
    return read_shown(text)


def read_shown(text: str) -> Shown:
    """What the script printed."""
    windows = tuple(Range(kind, int(start, 16), int(end, 16)) for kind, start, end in _WINDOW.findall(text))
    functions: dict[str, tuple[tuple[int, int, int], ...]] = {}
    buses: dict[str, tuple[int, int]] = {}
    walk = ""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("function "):
            walk = "/".join(_HOP.findall(line))
            functions[walk] = ()
        elif line.startswith("buses "):
            buses[walk] = (int(line.split()[1]), int(next(lines)))
        elif walk and line.startswith("0x"):
            start, end, flags = (int(word, 16) for word in line.split())
            functions[walk] = (*functions[walk], (start, end, flags))
    return Shown(windows, functions, buses)


def _devices(tree: Sequence[Wired], bus: str, numbers: Iterator[int] | None = None) -> Iterator[str]:
    """The options that wire ``tree`` to ``bus``."""
    numbers = iter(range(1, 1000)) if numbers is None else numbers
    for wired in tree:
        number = next(numbers)
        is_function = wired.place.endswith(".0") and any(
            other.place[:2] == wired.place[:2] and other is not wired for other in tree
        )
        options = [wired.model, f"bus={bus}", f"addr={wired.place}", f"id=d{number}"]
        options += ["multifunction=on"] * is_function
        if wired.model in ("pcie-root-port", "xio3130-downstream"):
            options += [f"chassis={number}", f"slot={number}", "hotplug=off"]
        yield from ("-device", ",".join([*options, *filter(None, [wired.options])]))
        yield from _devices(wired.children, f"d{number}", numbers)
