"""The machine-readable forms of lspci tell who is there, whichever of them was mailed."""

import shutil
import subprocess

import pytest

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump

BOTH = (
    '3b:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "TU102GL [Quadro RTX 8000] [1e78]" -ra1 '
    '"NVIDIA Corporation [10de]" "Device [13d8]"\n'
)
IDS = '3b:00.0 "0302" "10de" "1e78" -ra1 "10de" "13d8"\n'
NAMES = '3b:00.0 "3D controller" "NVIDIA Corporation" "Device 1e78" -ra1 "NVIDIA Corporation" "Device 13d8"\n'
BLOCK = (
    "Slot:\t0000:3b:00.0\nClass:\t3D controller [0302]\nVendor:\tNVIDIA Corporation [10de]\nDevice:\tDevice [1e78]\n"
    "SVendor:\tNVIDIA Corporation [10de]\nSDevice:\tDevice [13d8]\nRev:\ta1\nDriver:\tnvidia\nNUMANode:\t1\nIOMMUGroup:\t27\n\n"
)


def read(text):
    (harvest,) = read_dump("mailed", text.encode())
    return harvest


@pytest.mark.parametrize("text", [BOTH, IDS, NAMES, BLOCK], ids=["nnmm", "nmm", "mm", "nnvmm"])
def test_each_form_tells_the_same_of_a_function(text):
    harvest = read(text)
    assert harvest.format is Format.LSPCI_MACHINE
    (function,) = harvest.functions
    assert (function.bdf, function.id, function.subsystem) == ("0000:3b:00.0", "10de:1e78", "10de:13d8")
    assert (function.class_code, function.revision, function.is_gpu) == ("030200", "a1", True)


def test_a_block_tells_driver_node_and_group_too():
    (function,) = read(BLOCK).functions
    assert (function.driver, function.numa_node, function.iommu_group.id) == ("nvidia", 1, "27")


def test_a_function_without_a_subsystem_and_with_an_interface_is_read():
    (function,) = read('00:1c.0 "PCI bridge [0604]" "Intel Corporation [8086]" "Device [a190]" -rf9 -p00 "" ""\n').functions
    assert (function.id, function.subsystem, function.revision) == ("8086:a190", "", "f9")


def test_a_list_of_who_is_there_says_that_links_and_bars_are_not_in_it():
    picture = merge(read_dump("mailed", BOTH.encode()))
    assert picture.lists_bus
    assert "BARs, links and error registers" in [unread.what for unread in picture.snapshot.unread]


def test_bare_output_of_lspci_wins_over_the_machine_readable_one():
    bare = "3b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:1e78] (rev a1)\n\tNUMA node: 0\n"
    picture = merge((*read_dump("one", BLOCK.encode()), *read_dump("two", bare.encode())))
    assert picture.on_bus[0].numa_node == 0
    assert picture.on_bus[0].driver == "nvidia"


@pytest.mark.skipif(shutil.which("lspci") is None, reason="needs pciutils")
@pytest.mark.parametrize("form", ["-mm", "-nmm", "-nnmm", "-vmm", "-nnvmm", "-Dnmm"])
def test_what_lspci_itself_writes_is_read_to_the_same_facts_as_its_bytes(tmp_path, form):
    raw = bytearray(64)
    raw[0:4], raw[8:12], raw[0x2C:0x30] = b"\xde\x10\x78\x1e", b"\xa1\x00\x02\x03", b"\xde\x10\xd8\x13"
    rows = "".join(f"{at:02x}: {raw[at : at + 16].hex(' ')}\n" for at in range(0, 64, 16))
    dump = tmp_path / "dump"
    dump.write_text(f"3b:00.0 3D controller\n{rows}\n")
    printed = subprocess.run(["lspci", "-F", str(dump), form], capture_output=True, text=True, check=True).stdout
    (function,) = read(printed).functions
    assert (function.bdf, function.vendor, function.class_code, function.revision) == ("0000:3b:00.0", "10de", "030200", "a1")
    if "n" in form:
        assert (function.id, function.subsystem) == ("10de:1e78", "10de:13d8")
