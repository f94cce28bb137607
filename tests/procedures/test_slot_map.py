import tomllib
from dataclasses import replace

import pytest

from harness import locator
from harness.cli.map import learned, look
from harness.devices.fabric import FabricPart
from harness.devices.pcie import Snapshot
from harness.platform import Platform
from harness.procedures.slot_map import as_toml, contradictions, learn, needs_the_driver, owner_in


@pytest.fixture(scope="module")
def seen():
    """What the bundled recording's fabric and operating system say."""
    return look("model-lqd8360", replay=True)


@pytest.fixture(scope="module")
def lqd8360():
    return locator.find_platform("lqd8360")[0]


def test_every_part_gets_the_path_that_the_platform_has_for_its_slot(seen, lqd8360):
    found = learned(seen)
    assert found.is_whole
    assert {place.slot: place.path for place in found.places} == {slot.name: slot.path for slot in lqd8360.slots}
    assert contradictions(found, lqd8360) == ()
    assert all(place.path.startswith(f"{place.port}/") for place in found.places)


def test_what_is_written_is_what_the_platform_file_says(seen, lqd8360):
    text = "\n".join(as_toml(learned(seen), lqd8360, "a tape"))
    tables = tomllib.loads(text)
    assert [(slot["name"], slot["path"], slot["hba"], slot["uplink"]) for slot in tables["slot"]] == [
        (slot.name, slot.path, slot.hba, slot.uplink) for slot in lqd8360.slots
    ]
    assert {uplink["name"]: uplink["path"] for uplink in tables["uplink"]} == {
        uplink.name: uplink.path for uplink in lqd8360.uplinks
    }
    piece = Platform.model_validate({"schema": 1, "name": "p", **tables})
    assert len(piece.slots) == 20


def test_two_cards_that_changed_places_contradict_the_platform(seen, lqd8360):
    by_slot = {part.slot: part for part in seen.fabric}
    one, other = by_slot["jbogA/slot01"], by_slot["jbogB/slot10"]
    swapped = [replace(part, slot=other.slot if part is one else one.slot if part is other else part.slot) for part in seen.fabric]
    found = learn(swapped, seen.snapshot, {}, "model-lqd8360")
    assert found.is_whole
    lines = contradictions(found, lqd8360)
    assert len(lines) == 2
    assert "which is jbogB/slot10 there" in lines[0]


def test_a_part_that_only_one_side_knows_is_told_and_not_placed(seen):
    known = [replace(part, serial="4711") if part.slot == "jbogA/slot03" else part for part in seen.fabric]
    found = learn(known, seen.snapshot, {}, "model-lqd8360")
    assert [part.slot for part in found.unseen] == ["jbogA/slot03"]
    assert [function.path for function in found.strangers] == ["pci0000:3a/00.0/00.0/00.0/00.0/03.0/00.0"]
    assert len(found.places) == 19
    assert not found.is_whole


def test_a_neighbours_part_is_a_stranger(seen):
    given = [replace(part, owner="r640-08") if part.slot == "jbogB/slot07" else part for part in seen.fabric]
    found = learn(given, seen.snapshot, {}, owner_in(given, seen.snapshot, {}))
    assert found.machine == "model-lqd8360"
    assert [function.path for function in found.strangers] == ["pci0000:d7/00.0/00.0/00.0/00.0/07.0/00.0"]


def test_cards_without_a_serial_capability_are_joined_by_what_the_driver_reads(seen):
    """Function addresses and NVML's serial numbers stand in for the capability."""
    plain = Snapshot(
        tuple(replace(function, config=None) for function in seen.snapshot.functions), seen.snapshot.host, seen.snapshot.slots
    )
    assert needs_the_driver(seen.fabric, plain)
    assert not needs_the_driver(seen.fabric, seen.snapshot)
    serials = {place.path: place.serial for place in learned(seen).places}
    driver = {function.bdf: serials[function.path] for function in plain.gpus if function.path in serials}
    found = learn(seen.fabric, plain, driver, "model-lqd8360")
    assert found.is_whole
    assert len(found.places) == 20
    assert not learn(seen.fabric, plain, {}, "model-lqd8360").places


def test_the_machine_of_the_bench_is_taken_before_any_guess(seen):
    assert owner_in(seen.fabric, seen.snapshot, {}, "r640-07") == "r640-07"
    assert learn(seen.fabric, seen.snapshot, {}, "r640-07").doubts == ("the fabric has given no part to r640-07",)
    assert "it has given parts to nobody" in learn([], seen.snapshot, {}, "").doubts[0]


def test_the_tree_of_another_machine_is_no_map(seen):
    pinned = replace(seen, bench=seen.bench.model_copy(update={"service_tag": "OTHER01"}))
    found = learned(pinned)
    assert not found.is_whole
    assert "service tag MODEL01, and the bench pins OTHER01" in found.doubts[0]


def test_what_the_fabric_says_twice_or_not_at_all_is_a_doubt(seen):
    twice = [*seen.fabric, replace(seen.fabric[0], owner="")]
    assert f"the fabric lists serial {seen.fabric[0].serial} 2 times" in learn(twice, seen.snapshot, {}, "model-lqd8360").doubts
    silent = [replace(part, slot="", location="") for part in seen.fabric]
    assert "the fabric does not say where 20 parts sit" in learn(silent, seen.snapshot, {}, "model-lqd8360").doubts


def test_a_controller_without_slot_names_has_its_own_locations(seen):
    located = [replace(part, slot="") for part in seen.fabric]
    places = learn(located, seen.snapshot, {}, "model-lqd8360").places
    assert (places[0].slot, places[-1].slot) == ("rack1-shelf1/node01", "rack1-shelf2/node10")


def test_what_a_controller_says_cannot_break_the_file(seen, lqd8360):
    nasty = [FabricPart('a"\n[x]\n', seen.fabric[0].serial, "model-lqd8360", "m\nodel\n[bios]")]
    tables = tomllib.loads("\n".join(as_toml(learn(nasty, seen.snapshot, {}, "model-lqd8360"), lqd8360, "a tape")))
    assert tables["slot"][0]["name"] == 'a"\n[x]\n'
    assert set(tables) == {"slot"} | ({"uplink"} & set(tables))
