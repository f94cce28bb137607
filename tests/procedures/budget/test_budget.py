import dataclasses

import pytest

from harness.config import load
from harness.errors import ConfigError, UsageMistake
from harness.platform import Platform
from harness.procedures.budget.budget import Resource, budgets
from harness.procedures.budget.demand import MIB
from harness.procedures.budget.risks import When, risks, told

ACTIVE, PASSIVE = "Quadro RTX 8000 (active)", "Quadro RTX 8000 (passive)"


def only(platform, model, *args, **options):
    (budget,) = budgets(platform, *args, model=model, **options)
    return budget


def test_the_modelled_twenty_fit_ten_and_ten(lqd8360):
    budget = only(lqd8360, PASSIVE)
    assert (budget.gpus, budget.split, budget.fits) == (20, "10 + 10", True)
    low = budget.shares[0].line(Resource.LOW)
    assert (low.need, low.window, low.left) == (162 * MIB, 216 * MIB, 54 * MIB)
    assert (budget.shares[0].line(Resource.BUSES).need, budget.shares[0].line(Resource.BUSES).window) == (15, 35)


def test_twenty_never_fit_behind_one_slot_and_the_way_out_is_told(lqd8360):
    budget = only(lqd8360, PASSIVE, split=(20,))
    assert not budget.fits
    assert budget.shares[0].short == (Resource.LOW,)
    assert budget.way_out == "10 + 10"


def test_thirteen_is_the_most_that_a_stack_of_216_mib_holds(lqd8360):
    by_slot = {share.stack.slot: share.most for share in only(lqd8360, PASSIVE).shares}
    assert by_slot == {"PCIe Slot 1": 13, "PCIe Slot 3": 12}
    at_most = only(lqd8360, PASSIVE, split=(13, 0, 12))
    assert at_most.fits
    assert not only(lqd8360, PASSIVE, split=(14, 0, 12)).fits
    assert not only(lqd8360, PASSIVE, split=(13, 0, 13)).fits


def test_a_rom_and_further_functions_cost_half_of_the_gpus(lqd8360):
    budget = only(lqd8360, ACTIVE)
    assert not budget.fits
    assert [share.most for share in budget.shares] == [7, 6]
    assert all(Resource.LOW in share.short for share in budget.shares)


def test_linux_alone_holds_fewer_than_firmware_packs(lqd8360):
    share = only(lqd8360, PASSIVE, split=(13,)).shares[0]
    assert share.fits
    assert share.lost == 13
    assert share.kernel_most == 12
    (risk,) = [risk for risk in risks(only(lqd8360, PASSIVE, split=(13,))) if "pci=realloc" in risk.what]
    assert risk.when is When.LINUX


def test_io_windows_are_a_risk_at_post_and_no_verdict(lqd8360):
    budget = only(lqd8360, ACTIVE, 6)
    assert budget.fits
    assert [share.io_most for share in budget.shares] == [2, 2]
    (risk,) = told([risk for risk in risks(budget) if "UEFI0256" in risk.what], When.POST)
    assert risk.where == "PCIe Slot 1, PCIe Slot 3"
    assert not [risk for risk in risks(only(lqd8360, ACTIVE, 4)) if "UEFI0256" in risk.what]


def test_a_mmio_shortage_is_told_with_its_log_id_only_where_there_is_one(lqd8360):
    assert [risk.where for risk in risks(only(lqd8360, ACTIVE)) if "UEFI0134" in risk.what] == ["PCIe Slot 1", "PCIe Slot 3"]
    assert not [risk for risk in risks(only(lqd8360, PASSIVE)) if "UEFI0134" in risk.what]


def test_many_vga_class_gpus_are_a_risk_at_post(lqd8360):
    assert [risk for risk in risks(only(lqd8360, ACTIVE)) if "VGA class" in risk.what]
    assert not [risk for risk in risks(only(lqd8360, PASSIVE)) if "VGA class" in risk.what]


def test_every_count_up_to_the_most_fits_and_the_next_does_not(lqd8360):
    most = only(lqd8360, PASSIVE).most
    counts = (1, 2, 13, most - 1, most, most + 1, 64)
    assert [only(lqd8360, PASSIVE, count).fits for count in counts] == [count <= most for count in counts]


def test_bus_numbers_are_counted_with_every_port(lqd8360):
    narrow = lqd8360.model_copy(update={"stacks": tuple(stack.model_copy(update={"buses": 14}) for stack in lqd8360.stacks)})
    budget = only(narrow, PASSIVE)
    assert not budget.fits
    assert budget.shares[0].short == (Resource.BUSES,)
    assert any("bus numbers run out" in risk.what for risk in risks(budget))


def test_virtual_functions_have_a_line_of_their_own(lqd8360):
    from harness.platform import VirtualFunctions

    card = next(model for model in lqd8360.models if model.name == PASSIVE)
    virtual = VirtualFunctions(count=48, bars={2: float(4 << 30)}, wide=(2,))
    budget = only(lqd8360.model_copy(update={"models": (card.model_copy(update={"virtual": virtual}),)}), PASSIVE)
    line = budget.shares[0].line(Resource.VIRTUAL)
    assert line.need == 10 * 48 * 4 << 30
    assert not budget.fits
    assert Resource.WIDE in budget.shares[0].short


def test_without_a_window_above_4_gib_few_fit_and_it_is_the_wide_one_that_is_short(lqd8360):
    below = lqd8360.model_copy(update={"stacks": tuple(stack.model_copy(update={"wide": None}) for stack in lqd8360.stacks)})
    budget = only(below, PASSIVE)
    assert not budget.fits
    assert budget.most == 0
    assert Resource.WIDE in budget.shares[0].short


def test_a_mistake_is_one_line(lqd8360):
    with pytest.raises(UsageMistake, match="no model 'RTX'; it has 'Quadro"):
        budgets(lqd8360, model="RTX")
    with pytest.raises(UsageMistake, match="3 stacks: PCIe Slot 1"):
        budgets(lqd8360, split=(1, 2, 3, 4))
    with pytest.raises(ConfigError, match=r"here: stack: no \[\[stack\]\]"):
        budgets(lqd8360.model_copy(update={"stacks": ()}), where="here")


def test_a_stack_that_contradicts_a_slot_is_refused():
    text = """
schema = 1
name = "p"
[[slot]]
name = "a"
path = "pci0000:3a/00.0"
hba = "PCIe Slot 1"
[[stack]]
slot = "PCIe Slot 1"
root = "pci0000:3b"
low = "216 MiB"
buses = 35
source = "measured"
"""
    with pytest.raises(ConfigError, match="not below pci0000:3b"):
        load(Platform, text, "p.toml")
    assert load(Platform, text.replace("3b", "3a"), "p.toml").stacks[0].low == 216 * MIB


def test_facts_are_frozen(lqd8360):
    with pytest.raises(dataclasses.FrozenInstanceError):
        only(lqd8360, PASSIVE).platform = "other"
