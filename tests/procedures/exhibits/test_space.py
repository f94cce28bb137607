"""What a host bridge has to give: taken by its windows, lacking by what has no place, whoever tells of it."""

from __future__ import annotations

from harness.devices.pcie import Bar, BusShortage, Function, KernelLog, Resource, RootResource, RootWindow, Shortage, Snapshot
from harness.procedures.exhibits.space import BUSES, HIGH, IO, LOW, show_space

MIB = 1 << 20
ROOT = "pci0000:3a"
MEMORY, WIDE, PORTS = 0x200, 0x102208 & ~0x8 | 0x100000, 0x100
UNSET = 0x20000000
WINDOWS = (
    RootWindow(ROOT, 0xB0000000, 0xB0000000 + 64 * MIB - 1),
    RootWindow(ROOT, 1 << 40, (1 << 40) + (1 << 36) - 1),
    RootWindow(ROOT, 0x4000, 0x5FFF, is_io=True),
    RootWindow("pci0000:d7", 0xD0000000, 0xD0000000 + 512 * MIB - 1),
)
TOP = Function(
    "0000:3a:00.0",
    f"{ROOT}/00.0",
    class_code="060400",
    bars=(Bar(14, 0xB0000000, 0xB0000000 + 48 * MIB - 1, MEMORY), Bar(15, 1 << 40, (1 << 40) + (1 << 33) - 1, WIDE)),
    subordinate_bus=0x48,
)


def gpu(*bars):
    return Function("0000:3b:00.0", f"{ROOT}/00.0/00.0", "0000:3a:00.0", class_code="030200", bars=bars)


def rows(*functions, log=None, windows=WINDOWS):
    shown = show_space(Snapshot(functions, windows=windows, log=log or KernelLog()), ROOT)
    assert shown["root"] == ROOT
    return {kind: tuple(rest) for kind, *rest in shown["rows"]}


def test_windows_of_the_bridge_itself_count_and_those_of_others_do_not():
    found = rows(TOP)
    assert found[LOW] == (64 * MIB, 48 * MIB, 0)
    assert found[HIGH] == (1 << 36, 1 << 33, 0)
    assert found[IO] == (8192, 0, 0)


def test_a_bar_that_sysfs_shows_without_a_place_is_lacking():
    assert rows(TOP, gpu(Bar(0, 0, 16 * MIB - 1, MEMORY | UNSET)))[LOW] == (64 * MIB, 48 * MIB, 16 * MIB)


def test_a_bar_that_only_the_log_tells_of_is_lacking_once():
    shortage = Shortage("0000:3b:00.0", "BAR 0", Resource("mem", None, 16 * MIB), "failed to assign", "line")
    log = KernelLog(shortages=(shortage,))
    assert rows(TOP, gpu(), log=log)[LOW][2] == 16 * MIB
    assert rows(TOP, gpu(Bar(0, 0, 16 * MIB - 1, MEMORY | UNSET)), log=log)[LOW][2] == 16 * MIB


def test_what_was_placed_later_and_what_is_no_bar_lacks_nothing():
    placed = Shortage("0000:3b:00.0", "BAR 0", Resource("mem", None, 16 * MIB), "no space", "line")
    rom = Shortage("0000:3b:00.0", "ROM", Resource("mem", None, MIB), "no space", "line")
    there = gpu(Bar(0, 0xB0000000, 0xB0000000 + 16 * MIB - 1, MEMORY))
    assert rows(TOP, there, log=KernelLog(shortages=(placed, rom)))[LOW][2] == 0


def test_without_a_high_window_a_wide_prefetchable_bar_is_still_wanted_high():
    low_only = tuple(window for window in WINDOWS if window.is_32bit)
    shortage = Shortage(
        "0000:3b:00.0", "BAR 1", Resource("mem", None, 256 * MIB, is_64bit=True, prefetchable=True), "no space", "line"
    )
    assert rows(TOP, gpu(), log=KernelLog(shortages=(shortage,)), windows=low_only)[HIGH] == (0, 1 << 33, 256 * MIB)


def test_bus_numbers_are_those_the_kernel_announced():
    log = KernelLog(buses=(BusShortage("0000:3a:00.0", "line"),), roots=(RootResource(ROOT, "bus", 0x3A, 0x5C),))
    assert rows(TOP, log=log)[BUSES] == (35, 15, 1)
    assert rows(TOP)[BUSES] == (None, 15, 0)


def test_a_size_that_nothing_tells_is_none_and_not_zero():
    assert rows(TOP, windows=())[LOW] == (None, 48 * MIB, 0)
