from __future__ import annotations

from pathlib import Path

import pytest

from harness import locator
from harness.errors import BenchError, UsageMistake
from harness.lab.catalogue import find, qemu_catalogue
from harness.lab.qemu import tools
from harness.lab.qemu.door import Door
from harness.lab.qemu.faults import ABSENT, FAULTS, HALT, KERNEL, PANIC, WINDOW
from harness.lab.qemu.hardware import ENDPOINTS, Board, Lines, address_bits, command, damage
from harness.lab.qemu.image import Image
from harness.lab.qemu.tools import Tools, find_tools

LINES = Lines(console=5, aside=6, monitor=7)


@pytest.fixture
def board(tmp_path):
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(bytes(200_000))
    tools = Tools("qemu", Path("code"), Path("vars"), "ssh-keygen")
    return Board(tools, Image(kernel, Path("initrd"), "test"), tmp_path, Door(tmp_path, 2222))


def devices(line, kind):
    return [line[index + 1] for index, word in enumerate(line) if word == "-device" and line[index + 1].startswith(kind)]


def build(board, *faults, boots=True):
    return command(board, 42, frozenset(faults), LINES, boots=boots)


def test_each_slot_of_the_platform_has_its_port(board):
    platform, _ = locator.find_platform("virtual-r640")
    ports = devices(build(board), "xio3130-downstream")
    addresses = [dict(part.split("=") for part in port.split(",")[1:])["addr"] for port in ports]
    assert [slot.path for slot in platform.slots] == [f"pci0000:00/01.0/00.0/{address.zfill(4)}/00.0" for address in addresses]
    assert len(devices(build(board), "nvme")) == ENDPOINTS == 20


def test_an_absent_endpoint_leaves_its_port(board):
    line = build(board, ABSENT)
    assert len(devices(line, "xio3130-downstream")) == 20
    parts = devices(line, "nvme")
    assert len(parts) == 19
    assert not [part for part in parts if "part08" in part]


@pytest.mark.parametrize(
    ("setting", "faults", "bits"),
    [("Enabled", [], 42), ("Enabled", [WINDOW], 38), ("Disabled", [], 36), ("Disabled", [WINDOW], 36)],
)
def test_the_bios_decides_what_can_be_addressed(setting, faults, bits):
    assert address_bits({"MmioAbove4Gb": setting}, frozenset(faults)) == bits


def test_only_a_wide_machine_has_a_window_of_half_a_tebibyte(board):
    assert "name=opt/ovmf/X-PciMmio64Mb,string=524288" in build(board)
    assert not [word for word in command(board, 38, frozenset(), LINES, boots=True) if "X-PciMmio64Mb" in word]


def test_firmware_alone_has_nothing_to_boot(board):
    assert "-kernel" in build(board)
    assert "-kernel" not in build(board, boots=False)
    assert "-kernel" not in build(board, HALT)


def test_a_panic_and_a_bad_kernel_are_what_is_booted(board):
    assert "rdinit=/missing" in build(board, PANIC)[build(board, PANIC).index("-append") + 1]
    line = build(board, KERNEL)
    booted = Path(line[line.index("-kernel") + 1])
    assert booted != board.image.kernel
    assert booted.read_bytes() == damage(board.image.kernel.read_bytes()) != board.image.kernel.read_bytes()


def test_a_damaged_kernel_keeps_its_length_and_its_loader():
    kernel = bytes(1 << 20)
    broken = damage(kernel)
    assert len(broken) == len(kernel)
    assert broken[: len(kernel) // 2] == kernel[: len(kernel) // 2]


def test_what_is_missing_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(BenchError, match=r"needs qemu-system-x86_64.*apt-get install qemu-system-x86 ovmf openssh-client"):
        find_tools()
    monkeypatch.setattr(tools, "_FIRMWARE", ())
    with pytest.raises(BenchError, match="needs qemu-system-x86_64 and OVMF and ssh-keygen"):
        find_tools()


def test_faults_of_the_other_grade_are_unknown():
    assert find(["qemu.panic"], qemu_catalogue()) == {PANIC}
    with pytest.raises(UsageMistake, match=r"no fault 'bmc\.auth'"):
        find(["bmc.auth"], qemu_catalogue())
    assert all(fault.id.startswith("qemu.") and fault.caught_by and fault.source for fault in FAULTS)
