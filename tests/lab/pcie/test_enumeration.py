from dataclasses import replace
from itertools import pairwise

import pytest

from harness.lab.model.parts import CHASSIS, GPUS
from harness.lab.model.pcie_enumeration import enumerate_stack
from harness.lab.model.pcie_setup import Setup
from harness.lab.model.pcie_windows import GIB, MIB, Region
from harness.lab.model.tree import stacks

CONDITIONS = [
    Setup(),
    Setup(above_4g=False),
    Setup(frozenset({"pcie.bars"})),
    Setup(frozenset({"pcie.buses"})),
    Setup(frozenset({"pcie.aperture.window"})),
    Setup(frozenset({"benign.bdfs-moved"})),
    Setup(disabled=frozenset({"PCIe Slot 3"})),
]


def enumerated(setup):
    return [enumerate_stack(stack) for stack in stacks(setup)]


def functions(setup):
    return {function.path: function for stack in enumerated(setup) for function in stack.walk()}


def named(setup):
    """The same name in every process, whatever order its sets have there."""
    low = () if setup.above_4g else ("below 4 GiB",)
    return " ".join((*sorted(setup.faults), *low, *sorted(setup.disabled))) or "healthy"


@pytest.mark.parametrize("setup", CONDITIONS, ids=named)
def test_every_region_lies_in_a_window_of_the_bridge_above_and_none_overlap(setup):
    for stack in enumerated(setup):
        roots = [window for window in (stack.stack.low, stack.stack.wide) if window is not None]
        for function in stack.walk():
            around = roots if function.parent is None else list(function.parent.windows.values())
            held = [*function.regions.values(), *function.windows.values()]
            for region in held:
                assert any(window.start <= region.start and region.last <= window.last for window in around)
        spans = sorted((bar.start, bar.last) for function in stack.walk() for bar in function.regions.values())
        assert all(before[1] < after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize("setup", CONDITIONS, ids=named)
def test_bus_numbers_nest_and_stay_in_the_range_of_the_host_bridge(setup):
    for stack in enumerated(setup):
        seen = set()
        for function in stack.walk():
            if not function.hardware.is_bridge or not function.secondary:
                continue
            assert function.secondary not in seen
            seen.add(function.secondary)
            assert function.bus < function.secondary <= function.subordinate <= stack.stack.last_bus
            if function.parent is not None:
                assert function.parent.secondary < function.secondary
                assert function.subordinate <= function.parent.subordinate


@pytest.mark.parametrize("setup", CONDITIONS, ids=named)
def test_what_has_no_place_is_a_shortage_and_nothing_else_is(setup):
    for stack in enumerated(setup):
        short = {(shortage.function.address, shortage.resource) for shortage in stack.shortages}
        for function in stack.walk():
            for bar in function.hardware.bars:
                has_place = bar.index in function.regions
                assert has_place != ((function.address, f"BAR {bar.index}") in short)


def test_a_healthy_machine_gives_every_gpu_its_three_bars():
    placed = functions(Setup())
    for gpu in GPUS:
        regions = placed[gpu.path].regions
        assert {index: region.size for index, region in regions.items()} == {0: 16 * MIB, 1: 256 * MIB, 3: 32 * MIB}
        assert regions[0].last < 4 * GIB
        assert regions[1].start >= 4 * GIB


def test_the_gpus_have_the_addresses_that_a_depth_first_walk_gives():
    placed = functions(Setup())
    assert placed[GPUS[0].path].address == "0000:3f:00.0"
    assert placed[GPUS[9].path].address == "0000:48:00.0"
    assert placed[GPUS[10].path].address == "0000:dc:00.0"
    assert placed[GPUS[19].path].address == "0000:e5:00.0"


def test_small_64_bit_bars_stay_below_4_gib_as_on_the_recorded_machine():
    card = functions(Setup())["pci0000:17/02.0/00.0"]
    assert all(region.last < 4 * GIB for region in card.regions.values())


def test_thirteen_gpus_fit_behind_one_host_bridge_and_the_fourteenth_loses_its_bar_0():
    stack = next(stack for stack in stacks(Setup()) if stack.first_bus == CHASSIS[0].root_bus)
    top = stack.functions[0]
    ports = top.children[0].children[0].children[0].children
    many = tuple(replace(ports[0], device=device) for device in range(1, 15))
    chassis = replace(top.children[0].children[0].children[0], bars=(), children=many)
    cable = replace(top.children[0].children[0], children=(chassis,))
    hba = replace(top.children[0], bars=(), children=(cable,))
    placed = enumerate_stack(replace(stack, functions=(replace(top, children=(hba,)),)))
    gpus = [function for function in placed.walk() if function.hardware.identity.vendor == 0x10DE]
    assert [0 in gpu.regions for gpu in gpus] == [True] * 13 + [False]


def test_a_stack_without_functions_hands_out_nothing():
    empty = next(stack for stack in stacks(Setup()) if stack.name == "PC03")
    assert empty.functions == ()
    assert enumerate_stack(empty).shortages == ()


def test_a_slot_switched_off_in_the_bios_hides_the_whole_branch():
    placed = functions(Setup(disabled=frozenset({"PCIe Slot 3"})))
    assert [path for path in placed if path.startswith("pci0000:d7")] == []


def test_without_64_bit_space_no_gpu_has_an_aperture_and_all_have_bar_0():
    placed = functions(Setup(above_4g=False))
    assert [sorted(placed[gpu.path].regions) for gpu in GPUS] == [[0]] * 20


def test_the_windows_are_those_of_the_recorded_machine():
    first, last = (next(stack for stack in stacks(Setup()) if stack.name == name) for name in ("PC02", "PC09"))
    assert (first.low, first.wide) == (Region(0xAB000000, 216 * MIB), Region(0x382000000000, 64 * GIB))
    assert (last.low.last, last.wide.last) == (0xFBFFFFFF, 0x387FFFFFFFFF)
