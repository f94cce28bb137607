"""What a machine without a firmware that places anything is wired from, and what is read of it. Booted in test_budget.py."""

import pytest

from harness.errors import BenchError
from harness.lab.qemu import bare
from harness.lab.qemu.bare import Range, Wired, boot_bare, read_shown
from harness.lab.qemu.image import Image

SAID = """\
root bus resource [io  0x0d00-0xffff window]
root bus resource [mem 0x10000000-0xafffffff window]
root bus resource [bus 00-ff]
function /sys/devices/pci0000:00/0000:00:01.0
buses 1
4
0x0000000017000000 0x0000000017000fff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
function /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0
0x0000000000000000 0x0000000000000000 0x0000000000000000
the end
"""


def test_windows_and_resources_are_read_by_their_walk():
    shown = read_shown(SAID)
    assert shown.windows == (Range("io", 0xD00, 0xFFFF), Range("mem", 0x10000000, 0xAFFFFFFF))
    assert list(shown.functions) == ["01.0", "01.0/00.0"]
    assert shown.functions["01.0"][0] == (0x17000000, 0x17000FFF, 0x40200)
    assert shown.functions["01.0/00.0"] == ((0, 0, 0),)
    assert shown.buses == {"01.0": (1, 4)}


def test_every_device_hangs_from_the_one_above_and_has_a_number_of_its_own():
    port = Wired("xio3130-downstream", "01.0", children=(Wired("edu"), Wired("edu", "00.1")))
    tree = (Wired("pcie-root-port", "01.0", children=(Wired("x3130-upstream", children=(port,)),)),)
    options = [*bare._devices(tree, "pcie.0")][1::2]
    assert [option.split(",")[:3] for option in options] == [
        ["pcie-root-port", "bus=pcie.0", "addr=01.0"],
        ["x3130-upstream", "bus=d1", "addr=00.0"],
        ["xio3130-downstream", "bus=d2", "addr=01.0"],
        ["edu", "bus=d3", "addr=00.0"],
        ["edu", "bus=d3", "addr=00.1"],
    ]
    assert len({option.split("id=")[1].split(",")[0] for option in options}) == 5
    assert [("multifunction=on" in option) for option in options] == [False, False, False, True, False]
    assert all("hotplug=off" in option for option in options if "chassis=" in option)


@pytest.mark.parametrize("says", ["could not load PC BIOS 'qboot.rom'", ""])
def test_a_machine_that_does_not_come_to_its_end_is_told_with_qemus_words(tmp_path, monkeypatch, says):
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\necho "{says}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(bare, "QEMU", str(program))
    (tmp_path / "some-initrd").write_bytes(b"")
    with pytest.raises(BenchError, match=f"did not come to its end: {says or 'nothing'}"):
        boot_bare(Image(program, tmp_path / "some-initrd", "made here"), tmp_path, ())
