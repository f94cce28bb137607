from dataclasses import replace

import pytest

from harness.devices.fabric import FabricPart
from harness.devices.pcie import ConfigSpace, Function, Snapshot
from harness.platform import Slot
from harness.procedures.views import Views, differences, is_joined, machine_of, serial_of, views

SLOTS = tuple(Slot(name=f"box/{number}", path=f"pci0000:3a/0{number}.0") for number in (1, 2, 3))
FABRIC = (
    FabricPart("box/1", "9990000000001", "us"),
    FabricPart("box/2", "9990000000002", "us"),
    FabricPart("box/3", "9990000000003", "us"),
    FabricPart("far/1", "9990000000099", "neighbour"),
)


def part(number, serial):
    config = ConfigSpace(bytes(4096), gone=False, problems=(), serial=serial)
    return Function(f"0000:3a:0{number}.0", f"pci0000:3a/0{number}.0", config=config)


def dashed(number):
    return f"00-09-99-00-00-00-00-{number:02d}"


def machine(*serials):
    return Snapshot(tuple(part(number, serial) for number, serial in enumerate(serials, start=1) if serial is not None))


def wrong(snapshot, fabric=FABRIC, driver=None):
    return [line for seen in views(snapshot, SLOTS, fabric, driver) for line in differences(seen, fabric, "us")]


def test_all_views_agree_on_a_healthy_machine():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    assert next(dict(seen.serials) for seen in views(healthy, SLOTS, FABRIC)) == {
        "fabric": "9990000000001",
        "system": "9990000000001",
    }
    assert wrong(healthy) == []
    assert wrong(healthy, driver={f"box/{number}": f"999000000000{number}" for number in (1, 2, 3)}) == []


def test_a_serial_number_capability_is_read_without_dashes_and_leading_zeros():
    assert serial_of(part(1, dashed(7))) == "9990000000007"
    assert serial_of(part(1, "")) == ""
    assert serial_of(Function("0000:3a:01.0", "pci0000:3a/01.0")) == ""


def test_a_part_that_the_fabric_gave_to_a_neighbour_is_named_with_serial_and_owner():
    fabric = (*FABRIC[:2], FabricPart("box/3", "9990000000003", "neighbour"))
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(3)), fabric)
    assert line.startswith("box/3: the fabric has given the part with serial 9990000000003 to neighbour, not to us")


def test_a_part_that_the_fabric_gave_to_nobody_is_not_ours_either():
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(3)), (*FABRIC[:2], FabricPart("box/3", "9990000000003")))
    assert "to nobody, not to us" in line


def test_a_neighbours_part_in_our_slot_is_found_in_the_fabrics_list():
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(99)))
    assert line.startswith("box/3: the system's view differs")
    assert line.endswith("by the fabric it sits in far/1 of neighbour")


def test_two_parts_that_changed_places_are_both_named():
    first, second = wrong(machine(dashed(2), dashed(1), dashed(3)))
    assert "by the fabric it sits in box/2 of us" in first
    assert "by the fabric it sits in box/1 of us" in second


def test_of_three_views_the_one_that_stands_alone_is_named():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    (line,) = wrong(healthy, driver={"box/1": "9990000000001", "box/2": "9990000000002", "box/3": "9990000000055"})
    assert line.startswith("box/3: the driver's view differs")
    stale = (*FABRIC[:2], FabricPart("box/3", "9990000000044", "us"))
    (line,) = wrong(healthy, stale, driver={"box/3": "9990000000003"})
    assert line.startswith("box/3: the fabric's view differs")


def test_a_slot_that_the_fabric_does_not_know_is_said_to_be_unknown():
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(3)), FABRIC[:2])
    assert line.startswith("box/3: the fabric knows no part there")


def test_a_capability_that_speaks_another_language_is_no_view():
    other = machine("00-04-4b-ff-fe-12-34-56", "00-04-4b-ff-fe-12-34-57", "")
    assert {tuple(seen.serials) for seen in views(other, SLOTS, FABRIC)} == {("fabric",)}
    assert wrong(other) == []


def test_cards_without_a_serial_number_are_judged_by_owner_alone():
    assert wrong(machine("", "", "")) == []
    taken = (FabricPart("box/1", "9990000000001", "neighbour"), *FABRIC[1:])
    assert len(wrong(machine("", "", ""), taken)) == 1


NAMELESS = tuple(replace(part, slot="") for part in FABRIC)


def test_a_fabric_that_names_no_slots_is_joined_by_serial_number():
    assert wrong(machine(dashed(1), dashed(2), dashed(3)), NAMELESS) == []
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(99)), NAMELESS)
    assert line.startswith("box/3: the fabric has given the part with serial 9990000000099 to neighbour, not to us")


def test_a_serial_number_that_a_slotless_fabric_does_not_list_is_unknown():
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(55)), NAMELESS)
    assert line == "box/3: the fabric knows no part there (system 9990000000055)"


def test_without_slot_names_and_serial_numbers_nothing_joins_the_two_lists():
    (seen, *_) = views(machine("", "", ""), SLOTS, NAMELESS)
    assert not is_joined(seen, NAMELESS)
    assert is_joined(seen, FABRIC)
    (seen, *_) = views(machine("", "", ""), SLOTS, NAMELESS, {"box/1": "9990000000001"})
    assert is_joined(seen, NAMELESS)


@pytest.mark.parametrize(("named", "name"), [("", "us"), ("r640-07", "r640-07")])
def test_the_machine_is_the_one_the_bench_names_else_the_owner_of_most_slots(named, name):
    assert machine_of(FABRIC, SLOTS, named) == name


def test_a_fabric_that_gave_nothing_away_knows_no_machine():
    assert machine_of((FabricPart("box/1", "1"),), SLOTS) == ""


def test_views_print_themselves():
    assert str(Views("box/1", "1", "1", "2")) == "fabric 1, system 1, driver 2"
    assert str(Views("box/1")) == "no view knows a serial number"
