"""Machines that other people recorded: the healthy ones give no fault, the others give theirs.

What each file is known to show follows its own repository's description, never what the analysis says.
"""

import os
from pathlib import Path

import pytest

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.errors import UsageMistake
from harness.procedures.analysis.analysis import analyse
from harness.procedures.analysis.diagnosis import Severity

FIELD_DATA = os.environ.get("BRINGUP_FIELD_DATA", "")
ROOT = Path(FIELD_DATA) / "pcie"
pytestmark = pytest.mark.skipif(not FIELD_DATA, reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")

BROKEN = {
    "bad_nvlink_status.txt": {"fabric"},
    "bad_nvsmi8_output.txt": {"retirement"},
    "qx-gb200-ecc-injected.xml": {"remap", "ecc"},
    "qx-gb200-fabric-degraded.xml": {"fabric"},
    "qx-gb200-lost.xml": {"lost", "remap", "ecc"},
    "dmesg-with-xid-119.log": {"xid-119"},
}
NO_MACHINE = {
    "README.md", "PROVENANCE.md", "LICENSE", "xid_catalog_data.json", "fabricmanager.log", "nvidia-smi.nvlink.status.a10",
    "a100.yaml", "b200.yaml", "gb200.yaml", "gb300.yaml", "h100.yaml", "l40s.yaml", "t4.yaml",
}  # fmt: skip


def files():
    return sorted(file for file in ROOT.rglob("*") if file.is_file()) if FIELD_DATA else []


def analysis_of(file):
    return analyse(merge(read_dump(file.name, file.read_bytes())))


def test_every_recorded_machine_is_healthy_or_shows_its_own_faults():
    seen = set()
    for file in files():
        if file.name in NO_MACHINE:
            with pytest.raises(UsageMistake):
                read_dump(file.name, file.read_bytes())
            continue
        found = {diagnosis.check for diagnosis in analysis_of(file).of(Severity.FAIL)}
        assert found == BROKEN.get(file.name, set()), file.name
        seen.add(file.name)
    assert seen >= BROKEN.keys()
    assert len(seen) > 70


def test_pages_that_wait_for_retirement_are_told_by_gpu():
    (file,) = ROOT.rglob("bad_nvsmi8_output.txt")
    pending = [diagnosis.parts for diagnosis in analysis_of(file).of(Severity.FAIL)]
    assert pending == [(f"000{number}:00:00.0",) for number in (2, 4, 6, 8)]


def test_the_lost_gpu_is_the_second_one():
    (file,) = ROOT.rglob("qx-gb200-lost.xml")
    (lost,) = [diagnosis for diagnosis in analysis_of(file).of(Severity.FAIL) if diagnosis.check == "lost"]
    assert lost.parts == ("0000:0b:00.0",)
    assert lost.quote == "GPU is lost"


def test_eight_h100_are_found_with_their_apertures_behind_their_switches():
    (file,) = ROOT.rglob("lspci-vvv")
    picture = analysis_of(file).picture
    assert len(picture.on_bus) == 8
    assert {function.bar(2).size for function in picture.on_bus} == {128 << 30}
    assert {len(picture.snapshot.chain_up(function)) for function in picture.on_bus} == {4}


def test_sixteen_v100_are_found_two_switch_levels_down_with_their_serial_numbers():
    (file,) = ROOT.rglob("nvidiaDGX2.xml")
    picture = analysis_of(file).picture
    assert len(picture.on_bus) == 16
    assert {len(picture.snapshot.chain_up(function)) for function in picture.on_bus} == {6}
    assert len({gpu.serial for gpu in picture.gpus}) == 16


def test_a_udev_database_gives_the_tree_of_eight_a100():
    (file,) = ROOT.rglob("NVIDIA_DGXA100.txt")
    picture = analysis_of(file).picture
    assert len(picture.on_bus) == 8
    assert all(function.parent for function in picture.on_bus)


def test_slots_of_an_r640_are_named_with_their_addresses():
    (file,) = [file for file in ROOT.rglob("PowerEdge_R640*.txt") if "Bus Address: 0000:3b" in file.read_text()]
    picture = analysis_of(file).picture
    assert {slot.name: slot.address for slot in picture.slots if slot.used and slot.name.startswith("PCIe")} == {
        "PCIe Slot 1": "0000:3b:00.0",
        "PCIe Slot 3": "0000:d8:00.0",
    }
    assert picture.system["product"] == "PowerEdge R640"
