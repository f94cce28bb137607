"""Firmware's packing, against what recorded machines show."""

import json

from harness import locator
from harness.devices.pcie import parse_snapshot
from harness.procedures.budget.demand import GIB, MIB, Ask, Device, Openings, Region, Space
from harness.procedures.budget.firmware import fits, need, size_window
from harness.procedures.budget.kernel import WINDOWS
from harness.procedures.budget.layout import cable, openings_of

INDEX = {Space.LOW: 14, Space.WIDE: 15}


def snapshot_of(bench):
    """What the tape's machine answered when its tree was read."""
    file = locator.find_tape(bench) / "bodies" / "host-agent-pci@1.txt"
    return parse_snapshot([json.loads(line) for line in file.read_text().splitlines()])


def windows_of(devices, root):
    """Every bridge below a host bridge with the windows that it asks for: (path, space) to bytes."""

    def walk(devices, above):
        for device in devices:
            if device.is_bridge:
                path = f"{above}/{device.place}"
                for space in INDEX:
                    window = size_window(device, space)
                    yield (path, space), window.size if window else 0
                yield from walk(device.children, path)

    return dict(walk(devices, root))


def test_the_budget_agrees_with_the_tape_of_the_twenty_gpus(lqd8360):
    """Each of the 28 bridges on the way to a GPU has, on the tape, the windows that the budget foretells, in bytes."""
    snapshot = snapshot_of("model-lqd8360")
    passive = next(model for model in lqd8360.models if "passive" in model.name)
    compared = 0
    for stack in lqd8360.stacks:
        count = sum(function.path.startswith(f"{stack.root}/") for function in snapshot.gpus)
        if not count:
            continue
        for (path, space), size in windows_of(cable(lqd8360, stack, passive, count), stack.root).items():
            bar = snapshot.at(path).bar(INDEX[space])
            assert (bar.size if bar is not None and bar.assigned else 0) == size, (path, space)
            compared += 1
    assert compared == 2 * 28


def test_the_windows_of_the_platform_are_those_of_the_tape(lqd8360):
    shown = {
        (window.root, window.is_io, window.is_32bit, window.start, window.size) for window in snapshot_of("model-lqd8360").windows
    }
    for stack in lqd8360.stacks:
        openings = openings_of(stack)
        for region in (*openings.low, *openings.wide):
            assert (stack.root, False, region.end <= 1 << 32, region.start, region.size) in shown


def test_what_ovmf_did_with_the_virtual_machine_is_what_the_packing_says():
    """Twenty ports of 16 GiB, by firmware that nobody here wrote. Below 4 GiB it adds hot-plug reserves at some ports."""
    snapshot = snapshot_of("virtual-r640")
    part = Device("00.0", (Ask("BAR 0", 16 << 10, Space.LOW), Ask("BAR 4", 16 * GIB, Space.WIDE)))
    ports = tuple(Device(f"{number:02x}.0", (), True, (part,)) for number in range(20))
    tree = (Device("01.0", (), True, (Device("00.0", (), True, ports),)),)
    foretold = windows_of(tree, "pci0000:00")
    shown = {(path, space): snapshot.at(path).bar(INDEX[space]).size for path, space in foretold}
    assert len(foretold) == 2 * 22
    assert {at: size for at, size in shown.items() if at[1] is Space.WIDE} == {
        at: size for at, size in foretold.items() if at[1] is Space.WIDE
    }
    assert all(shown[at] >= size for at, size in foretold.items())


def test_the_port_of_a_c4140_is_packed_as_it_reads():
    """16 GiB and 32 MiB behind a port read as a window of 16416 MiB (C4140 in the linuxhw lspci collection)."""
    gpu = Device("00.0", (Ask("BAR 1", 16 * GIB, Space.WIDE), Ask("BAR 3", 32 * MIB, Space.WIDE)))
    assert size_window(Device("00.0", (), True, (gpu,)), Space.WIDE).size == 16416 * MIB


def test_nothing_asked_needs_nothing(tree):
    for space in Space:
        if not any(ask.space is space for device in tree for ask in device.every_ask()):
            assert need(tree, space, 0) == 0


def test_what_fits_still_fits_in_a_larger_window(tree):
    for step in range(8):
        small = Openings(low=(Region(1 << 30, 64 * MIB << step),), wide=(Region(1 << 40, 256 * MIB << step),))
        large = Openings(low=(Region(1 << 30, 128 * MIB << step),), wide=(Region(1 << 40, 512 * MIB << step),))
        assert not fits(tree, small) or fits(tree, large)


def test_wide_bars_may_lie_below_4_gib_where_all_of_them_fit_there():
    port = Device("00.0", (), True, (Device("00.0", (Ask("BAR 1", 64 * MIB, Space.WIDE),)),))
    assert fits((port,), Openings(low=(Region(1 << 30, 64 * MIB),)))
    assert not fits((port, Device("01.0", (Ask("BAR 0", MIB, Space.LOW),))), Openings(low=(Region(1 << 30, 64 * MIB),)))


def test_windows_have_names_in_every_space():
    assert set(WINDOWS) == set(Space)
