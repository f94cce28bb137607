"""What holds of Linux' allocator for any tree. That it is Linux' is shown with a kernel: tests/lab/qemu/test_budget.py."""

import itertools

from harness.procedures.budget.demand import GIB, MIB, WINDOW_GRAIN, Ask, Device, Openings, Region, Space
from harness.procedures.budget.kernel import WINDOWS, assign, size_window

ROOMY = Openings(io=(Region(0x1000, 0xF000),), low=(Region(0x80000000, 2 * GIB),), wide=(Region(1 << 40, 64 * GIB),))
TIGHT = Openings(io=(Region(0x1000, 0x2000),), low=(Region(0x80000000, 200 * MIB),), wide=(Region(1 << 40, GIB),))
IN_OUR_WAY = Openings(io=(Region(0x1000, 0x3000),), low=(Region(0xB8800000, 216 * MIB),), wide=())


def placed(tree, openings):
    found = assign(tree, openings)
    assert len({(each.path, each.ask.name) for each in found}) == len(found)
    return found


def test_nothing_overlaps_on_any_bus(tree):
    for openings in (ROOMY, TIGHT, IN_OUR_WAY):
        buses = {}
        for each in placed(tree, openings):
            if each.region is not None:
                kind = "io" if each.ask.space is Space.IO else "memory"
                buses.setdefault((each.path.rpartition("/")[0], kind), []).append(each.region)
        for regions in buses.values():
            assert not [pair for pair in itertools.combinations(regions, 2) if pair[0].meets(pair[1])]


def test_everything_lies_aligned_and_inside_what_is_above_it(tree):
    for openings in (ROOMY, TIGHT, IN_OUR_WAY):
        found = placed(tree, openings)
        windows = {}
        for each in found:
            if each.ask.name in WINDOWS.values() and each.region is not None:
                windows.setdefault(each.path, []).append(each.region)
        for each in (each for each in found if each.region is not None):
            above = each.path.rpartition("/")[0]
            around = windows.get(above, []) if above else [*openings.io, *openings.low, *openings.wide]
            assert any(window.holds(each.region) for window in around), each
            assert not each.region.start % each.ask.alignment, each


def test_windows_are_as_coarse_as_a_bridge_can_express(tree):
    for each in placed(tree, ROOMY):
        if each.ask.name in WINDOWS.values():
            assert not each.ask.size % WINDOW_GRAIN[each.ask.space]


def test_a_roomy_machine_places_all_memory(tree):
    need = sum(window.size for device in tree for space in Space if (window := size_window(device, space)))
    lost = [each for each in placed(tree, ROOMY) if each.region is None and each.ask.space is not Space.IO]
    assert need >= GIB or not lost


def test_a_larger_window_never_holds_fewer_equal_parts():
    """Of parts that are all alike, as GPUs behind one switch are."""
    for mib in (1, 16, 32):
        ports = tuple(
            Device(f"{number:02x}.0", (), True, (Device("00.0", (Ask("BAR 0", mib * MIB, Space.LOW),)),)) for number in range(12)
        )
        counts = [
            sum(
                each.region is not None and each.ask.name == "BAR 0"
                for each in assign(ports, Openings(low=(Region(1 << 30, room),)))
            )
            for room in range(0, 13 * mib * MIB, MIB)
        ]
        assert counts == sorted(counts)
        assert (counts[0], counts[-1]) == (0, 12)


def test_a_window_of_unequal_bars_starts_lower_than_its_largest_bar():
    """256 MiB and 32 MiB: the kernel takes 384 MiB on a multiple of 128 MiB, where firmware takes 288 MiB on one of 256 MiB."""
    port = Device("00.0", (), True, (Device("00.0", (Ask("1", 256 * MIB, Space.WIDE), Ask("3", 32 * MIB, Space.WIDE))),))
    window = size_window(port, Space.WIDE)
    assert (window.size, window.alignment) == (384 * MIB, 128 * MIB)


def test_a_port_with_nothing_behind_it_asks_for_nothing():
    assert [size_window(Device("00.0", is_bridge=True), space) for space in Space] == [None, None, None]


def test_wide_parts_go_below_4_gib_where_there_is_no_window_above():
    port = Device("00.0", (), True, (Device("00.0", (Ask("1", 64 * MIB, Space.WIDE),)),))
    found = assign((port,), IN_OUR_WAY)
    assert all(IN_OUR_WAY.low[0].holds(each.region) for each in found)
