from __future__ import annotations

import pytest

from harness.lab.qemu.post import HALTED, HARDWARE, LOADING, READY, RESOURCES, RUNNING, Post

FIRMWARE = b"\x1b[2J\x1b[01;01H\x1b[=3h"


def heard(*pieces: bytes) -> Post:
    post = Post()
    for piece in pieces:
        post = post.hear(piece)
    return post


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", HARDWARE),
        (FIRMWARE, READY),
        (FIRMWARE + b"EFI stub: Loaded initrd from LINUX_EFI_INITRD_MEDIA_GUID device path\r\n", LOADING),
        (b"[    0.000000] Linux version 6.1.0-57-cloud-amd64\r\n", LOADING),
        (FIRMWARE + b"\x1b[06;01H\x1b[1m\x1b[33m\x1b[40mShell> \x1b[0m\x1b[37m\x1b[40m", HALTED),
        (b"\r\n\r\nvirtual-r640 login: ", RUNNING),
        (b"virtual-r640 login: [    3.874326] random: crng init done\r\n", RUNNING),
        (b"login[105]: root login on 'ttyS0'\r\n", READY),
    ],
)
def test_what_is_said_tells_the_stage(said, status):
    assert heard(said).status == status


def test_a_sign_that_comes_byte_by_byte_is_seen():
    said = b"Linux version 6.1\r\nvirtual-r640 login: "
    assert heard(*[said[index : index + 1] for index in range(len(said))]).status == RUNNING


def test_a_start_never_goes_back():
    assert heard(b"\nhost login: ", b"root\r\nLinux version 6.1\r\n# ").status == RUNNING


def test_bus_numbers_show_what_firmware_does_before_it_speaks():
    assert Post().number_buses().status == RESOURCES
    assert heard(FIRMWARE).number_buses().status == READY
