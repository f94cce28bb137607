from dataclasses import replace

import pytest

from harness.devices.fabric import FabricPart
from harness.devices.gpu import Gpu
from harness.devices.idrac_pcie import BmcDevice, BmcInventory
from harness.devices.pcie import ConfigSpace, Function, Snapshot
from harness.limits import Outcome
from harness.platform import Slot
from harness.procedures.views import View, Views, differences, is_joined, judge_views, machine_of, serial_of, views

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


def cards(**serials):
    return {f"box/{name[1:]}": Gpu(int(name[1:]), serial=serial) for name, serial in serials.items()}


def bmc_list(*serials):
    """What a BMC lists of the three slots; None for a slot that is not in its list."""
    listed = (BmcDevice(f"0000:3a:0{number}", serial) for number, serial in enumerate(serials, start=1) if serial is not None)
    return BmcInventory(tuple(listed), "2026-01-05T08:30:55-06:00")


def wrong(snapshot, fabric=FABRIC, driver=None, bmc=None):
    return [line for seen in views(snapshot, SLOTS, fabric, bmc, driver) for line in differences(seen, fabric, "us")]


def test_all_views_agree_on_a_healthy_machine():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    numbers = [f"999000000000{number}" for number in (1, 2, 3)]
    driver = cards(**{f"s{number[-1]}": number for number in numbers})
    first = views(healthy, SLOTS, FABRIC, bmc_list(*numbers), driver)[0]
    assert dict(first.serials) == dict.fromkeys(View, numbers[0])
    assert wrong(healthy) == []
    assert wrong(healthy, driver=driver, bmc=bmc_list(*numbers)) == []


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
    (line,) = wrong(healthy, driver=cards(s1="9990000000001", s2="9990000000002", s3="9990000000055"))
    assert line.startswith("box/3: the driver's view differs")
    stale = (*FABRIC[:2], FabricPart("box/3", "9990000000044", "us"))
    (line,) = wrong(healthy, stale, driver=cards(s1="9990000000001", s2="9990000000002", s3="9990000000003"))
    assert line.startswith("box/3: the fabric's view differs")


def test_a_slot_that_the_fabric_does_not_know_is_said_to_be_unknown():
    (line,) = wrong(machine(dashed(1), dashed(2), dashed(3)), FABRIC[:2])
    assert line.startswith("box/3: the fabric knows no part there")


def test_a_capability_that_speaks_another_language_is_no_view():
    other = machine("00-04-4b-ff-fe-12-34-56", "00-04-4b-ff-fe-12-34-57", "")
    assert {tuple(seen.serials) for seen in views(other, SLOTS, FABRIC)} == {(View.FABRIC,)}
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
    assert line == "box/3: the fabric knows no part there (fabric is missing it, system 9990000000055)"


def test_without_slot_names_and_serial_numbers_nothing_joins_the_two_lists():
    (seen, *_) = views(machine("", "", ""), SLOTS, NAMELESS)
    assert not is_joined(seen, NAMELESS)
    assert is_joined(seen, FABRIC)
    (seen, *_) = views(machine("", "", ""), SLOTS, NAMELESS, driver=cards(s1="9990000000001"))
    assert is_joined(seen, NAMELESS)


@pytest.mark.parametrize(("named", "name"), [("", "us"), ("r640-07", "r640-07")])
def test_the_machine_is_the_one_the_bench_names_else_the_owner_of_most_slots(named, name):
    assert machine_of(FABRIC, SLOTS, named) == name


def test_a_fabric_that_gave_nothing_away_knows_no_machine():
    assert machine_of((FabricPart("box/1", "1"),), SLOTS) == ""


def test_views_print_themselves():
    first = views(machine(dashed(1)), SLOTS, FABRIC, bmc_list(None, None, None))[0]
    assert str(first) == (
        "fabric 9990000000001, system 9990000000001, "
        "BMC not measured (it lists none of these 1 parts, as of 2026-01-05T08:30:55-06:00)"
    )
    assert str(Views("box/1")) == "nobody was asked"


def test_a_bmc_that_lists_none_of_the_parts_is_not_measured_and_fails_nothing():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    assert wrong(healthy, bmc=BmcInventory((BmcDevice("0000:17:00", "", "Model Fabric"),))) == []
    assert wrong(healthy, bmc=BmcInventory(unread="the BMC's list of PCIe devices: HTTP 503")) == []
    finding = judge_views("pcie", SLOTS[0], views(healthy, SLOTS, FABRIC, bmc_list(None, None, None)), FABRIC, "us")
    told = {measured.name: measured.value for measured in finding.measurements}
    assert told["pcie.view.bmc"].startswith("not measured (it lists none of these 3 parts")
    assert {measured.outcome for measured in finding.measurements} == {Outcome.RECORDED}
    assert not finding.explanation
    assert not finding.unmeasured


def test_the_first_slot_that_differs_names_the_others_because_the_stage_ends_with_it():
    seen = views(machine(dashed(2), dashed(1), dashed(3)), SLOTS, FABRIC)
    first, *_, last = (judge_views("pcie", slot, seen, FABRIC, "us").explanation for slot in SLOTS)
    assert first.splitlines()[0].startswith("box/1: the system's view differs")
    assert first.splitlines()[-1] == "the views of 1 more differ: box/2"
    assert last == ""


def test_a_bmc_that_lists_most_parts_has_lost_the_one_that_is_missing():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    (line,) = wrong(healthy, bmc=bmc_list("9990000000001", "", None))
    assert line.startswith("box/3: the BMC's view has lost the part with serial 9990000000003")
    assert wrong(healthy, bmc=bmc_list("9990000000001", None, None)) == []


def test_a_bmc_that_tells_no_serial_numbers_still_sees_the_parts():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    assert wrong(healthy, bmc=bmc_list("", "", "")) == []
    assert "BMC sees it (it tells no serial number)" in str(views(healthy, SLOTS, FABRIC, bmc_list("", "", ""))[0])


def test_bus_numbers_that_moved_since_the_bmc_made_its_list_are_no_exchange():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    moved = BmcInventory(tuple(BmcDevice(f"0000:3a:0{number + 1}", f"999000000000{number}") for number in (1, 2, 3)))
    assert wrong(healthy, bmc=moved) == []
    assert dict(views(healthy, SLOTS, FABRIC, moved)[1].serials)[View.BMC] == "9990000000002"


def test_a_neighbours_serial_number_in_the_bmcs_list_is_recognised():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    (line,) = wrong(healthy, bmc=bmc_list("9990000000001", "9990000000002", "9990000000099"))
    assert line.startswith("box/3: the BMC's view differs")
    assert line.endswith("by the fabric it sits in far/1 of neighbour")


def test_a_part_that_the_driver_cannot_open_is_lost_by_the_driver():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    driver = cards(s1="9990000000001", s2="9990000000002") | {"box/3": Gpu(2, error="Unknown Error")}
    (line,) = wrong(healthy, driver=driver)
    assert line.startswith("box/3: the driver's view has lost the part with serial 9990000000003")
    assert "driver is missing it (Unknown Error)" in line


def test_a_driver_without_a_serial_number_sees_the_part_and_is_not_called_different():
    healthy = machine(dashed(1), dashed(2), dashed(3))
    silent = {f"box/{number}": Gpu(number, unread={"serial": "Not Supported"}) for number in (1, 2, 3)}
    assert wrong(healthy, driver=silent) == []
    assert "driver sees it (serial number: Not Supported)" in str(views(healthy, SLOTS, FABRIC, driver=silent)[0])


def test_a_part_that_the_system_does_not_show_is_lost_by_the_system():
    (line,) = wrong(machine(dashed(1), dashed(2), None))
    assert line.startswith("box/3: the system's view has lost the part with serial 9990000000003")
