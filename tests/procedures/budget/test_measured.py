import tomllib
from dataclasses import replace

import pytest

from harness.cli.map import learned, look, stacks_of
from harness.devices.pcie import RootWindow
from harness.platform import Platform
from harness.procedures.budget.measured import as_toml, differences, measure_stacks

HBAS = {"pci0000:3a": "PCIe Slot 1", "pci0000:d7": "PCIe Slot 3"}


@pytest.fixture(scope="module")
def seen():
    return look("model-lqd8360", replay=True)


def test_the_platforms_stacks_are_what_the_recorded_machine_says(seen, lqd8360):
    measured = stacks_of(seen, learned(seen))
    assert [stack.slot for stack in measured] == ["PCIe Slot 1", "PCIe Slot 3"]
    assert differences(lqd8360.stacks, measured) == ()
    declared = {stack.slot: stack for stack in lqd8360.stacks}
    for stack in measured:
        assert (stack.low_at, stack.wide_at) == (declared[stack.slot].low_at, declared[stack.slot].wide_at)


def test_what_is_written_is_read_again_as_the_same_stack(seen):
    stacks = measure_stacks(seen.snapshot, HBAS, "measured: here")
    text = "\n".join(line for stack in stacks for line in ("", *as_toml(stack)))
    assert Platform.model_validate({"schema": 1, "name": "p", **tomllib.loads(text)}).stacks == stacks


def test_a_window_that_a_setting_changed_is_told_with_both_figures(seen, lqd8360):
    windows = tuple(
        RootWindow(window.root, window.start, window.start + (138 << 20) - 1, window.is_io)
        if window.root == "pci0000:d7" and window.is_32bit and not window.is_io
        else window
        for window in seen.snapshot.windows
    )
    roots = tuple(replace(root, end=root.start + 11) if root.kind == "bus" else root for root in seen.snapshot.log.roots)
    log = replace(seen.snapshot.log, roots=roots)
    measured = measure_stacks(replace(seen.snapshot, windows=windows, log=log), HBAS, "here")
    assert differences(lqd8360.stacks, measured) == (
        "PCIe Slot 1: it has 35 bus numbers by the platform and 12 on the machine",
        "PCIe Slot 3: 32-bit MMIO is 216 MiB by the platform and 138 MiB on the machine",
        "PCIe Slot 3: it has 41 bus numbers by the platform and 12 on the machine",
    )


def test_a_machine_without_a_wide_window_has_none(seen, lqd8360):
    narrow = tuple(window for window in seen.snapshot.windows if window.is_32bit)
    (stack,) = measure_stacks(replace(seen.snapshot, windows=narrow), {"pci0000:3a": "PCIe Slot 1"}, "here")
    assert stack.wide is None
    assert differences(lqd8360.stacks, [stack]) == ("PCIe Slot 1: 64-bit MMIO is 64 GiB by the platform and none on the machine",)


def test_nothing_is_made_up_for_what_the_machine_does_not_tell(seen):
    assert measure_stacks(replace(seen.snapshot, windows=()), HBAS, "here") == ()
    assert measure_stacks(replace(seen.snapshot, log=replace(seen.snapshot.log, roots=())), HBAS, "here") == ()
