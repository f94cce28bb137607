from __future__ import annotations

import gzip
import shutil
import stat
import subprocess

import pytest

from harness.lab.qemu.archive import Entry, pack

ENTRIES = (
    Entry.file("etc/deep/down/text", b"hello\n", 0o640),
    Entry.link("bin/sh", "busybox"),
    Entry.node("dev/console", 5, 1),
    Entry.folder("root", 0o700),
)


def test_the_same_entries_give_the_same_bytes_in_any_order():
    assert pack(ENTRIES) == pack(tuple(reversed(ENTRIES)))


def test_the_last_entry_of_one_path_wins():
    assert pack((Entry.file("a", b"old"), Entry.file("a", b"new"))) == pack((Entry.file("a", b"new"),))


@pytest.mark.skipif(shutil.which("cpio") is None, reason="install cpio")
def test_cpio_unpacks_what_was_packed(tmp_path):
    packed = gzip.decompress(pack([entry for entry in ENTRIES if entry.device == (0, 0)]))
    subprocess.run(["cpio", "-idm", "--quiet"], input=packed, cwd=tmp_path, check=True)
    text = tmp_path / "etc" / "deep" / "down" / "text"
    assert text.read_bytes() == b"hello\n"
    assert stat.S_IMODE(text.stat().st_mode) == 0o640
    assert (tmp_path / "bin" / "sh").readlink().as_posix() == "busybox"
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o700


@pytest.mark.skipif(shutil.which("cpio") is None, reason="install cpio")
def test_cpio_lists_a_device_with_its_numbers():
    listed = subprocess.run(["cpio", "-itv", "--quiet"], input=gzip.decompress(pack(ENTRIES)), capture_output=True, check=True)
    line = next(line for line in listed.stdout.decode().splitlines() if line.endswith("dev/console"))
    assert line.startswith("crw-------")
    assert "5,   1" in line
