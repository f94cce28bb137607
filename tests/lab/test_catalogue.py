from __future__ import annotations

import pytest

from harness.errors import UsageMistake
from harness.lab.catalogue import catalogue, find
from harness.lab.faults import machine


def test_ids_are_unique_and_begin_with_the_check_that_catches_them() -> None:
    ids = [fault.id for fault in catalogue()]
    assert len(ids) == len(set(ids))
    for fault in catalogue():
        if fault.caught_by is None:
            assert fault.id.startswith("benign.")
        else:
            assert fault.id == fault.caught_by or fault.id.startswith(f"{fault.caught_by}.")


def test_every_fault_says_what_it_does_and_where_it_is_known_from() -> None:
    assert [fault.id for fault in catalogue() if not fault.does or not fault.source] == []


def test_the_faults_of_bmc_bios_and_boot_are_all_there() -> None:
    stages = [fault.id.split(".")[0] for fault in machine.FAULTS]
    assert [stages.count(stage) for stage in ("bmc", "bios", "boot", "benign")] == [6, 15, 9, 6]


def test_ids_are_found_and_become_a_set() -> None:
    assert find(["bmc.auth", "boot.loop", "bmc.auth"]) == frozenset({"bmc.auth", "boot.loop"})
    assert find([]) == frozenset()


def test_an_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UsageMistake, match=r"did you mean 'bios\.readback'"):
        find(["bios.readbak"])
