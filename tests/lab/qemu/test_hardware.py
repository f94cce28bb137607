from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import locator
from harness.errors import BenchError, UsageMistake
from harness.lab.catalogue import find, qemu_catalogue
from harness.lab.qemu import recipe, tools
from harness.lab.qemu.door import Door
from harness.lab.qemu.faults import ABSENT, FAULTS, HALT, KERNEL, PANIC, SSH_DEAD, WINDOW, WRONG_PORT
from harness.lab.qemu.hardware import ENDPOINTS, Board, Lines, address_bits, command, damage, prepare_board
from harness.lab.qemu.image import Image
from harness.lab.qemu.pcie_faults import ADDED, BUSES, IO, SHALLOW
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


def test_the_part_that_comes_later_has_its_port_and_its_memory_and_is_not_plugged_in(board):
    line = build(board, ADDED)
    assert len(devices(line, "xio3130-downstream")) == 20
    assert not [part for part in devices(line, "nvme") if "part08" in part]
    assert [word for word in line if word.startswith("memory-backend-file,id=memory08")]


def test_what_a_pcie_fault_wires_and_types_is_on_the_command_line_of_that_fault_alone(board):
    def typed(line):
        return line[line.index("-append") + 1]

    assert devices(build(board, BUSES), "pxb-pcie") == ["pxb-pcie,id=other,bus=pcie.0,addr=4.0,bus_nr=16"]
    assert typed(build(board, BUSES)).endswith(" pci=assign-busses")
    assert typed(build(board, SHALLOW)).endswith(" reserve=0x40000000,0x70000000,0xc1000000,0x3dc00000")
    assert len(devices(build(board, IO), "pci-testdev")) == 16
    assert typed(build(board)) == typed(build(board, IO)) == "console=ttyS0,115200"
    assert not devices(build(board), "pxb-pcie")
    assert not devices(build(board), "pci-testdev")


def test_a_panic_and_a_bad_kernel_are_what_is_booted(board):
    assert "rdinit=/missing" in build(board, PANIC)[build(board, PANIC).index("-append") + 1]
    line = build(board, KERNEL)
    booted = Path(line[line.index("-kernel") + 1])
    assert booted != board.image.kernel
    assert booted.read_bytes() == damage(board.image.kernel.read_bytes()) != board.image.kernel.read_bytes()


def test_the_network_card_leads_in_from_loopback_only_and_nothing_leads_out(board):
    line = build(board)
    assert "user,id=network,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22" in line
    (card,) = devices(line, "vmxnet3")
    assert card.endswith("bus=pcie.0,addr=2.0")
    assert recipe.NETWORK_CARD == "enp0s2"


def test_dead_ssh_is_a_card_on_another_bus(board):
    line = build(board, SSH_DEAD)
    assert len(devices(line, "pcie-root-port")) == 2
    (card,) = devices(line, "vmxnet3")
    assert card.endswith("bus=aside")


def test_at_the_wrong_port_something_writes_numbers(board):
    assert "lab.numbers" in build(board, WRONG_PORT)[build(board, WRONG_PORT).index("-append") + 1]
    assert not [word for word in build(board) if "lab.numbers" in word]


def test_the_machine_s_own_file_system_is_the_image_s_with_its_keys_laid_over(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("install openssh-client")
    (tmp_path / "vars").write_bytes(b"empty")
    (tmp_path / "image").write_bytes(b"image")
    tools = Tools("qemu", Path("code"), tmp_path / "vars", "ssh-keygen")
    board = prepare_board(tools, Image(Path("kernel"), tmp_path / "image", "test"), tmp_path)
    assert board.initrd.read_bytes() == b"image" + board.door.overlay()
    assert (tmp_path / "vars.fd").read_bytes() == b"empty"


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
    assert all(fault.id.startswith("qemu.") and fault.source for fault in FAULTS)
    assert [fault.id for fault in FAULTS if fault.is_benign] == [fault.id for fault in FAULTS if "benign" in fault.id] != []
