from __future__ import annotations

import gzip
import shutil
import stat
import subprocess

import pytest

from harness.errors import BenchError
from harness.lab.qemu import recipe
from harness.lab.qemu.door import make_door

KEYGEN = shutil.which("ssh-keygen")
needs_keygen = pytest.mark.skipif(KEYGEN is None, reason="install openssh-client")


@pytest.fixture
def door(tmp_path):
    return make_door(KEYGEN or "", tmp_path)


@needs_keygen
def test_the_keys_are_private_and_each_machine_has_its_own(door, tmp_path):
    (tmp_path / "other").mkdir()
    other = make_door(KEYGEN, tmp_path / "other")
    for name in ("host_key", "client_key"):
        assert stat.S_IMODE((door.folder / name).stat().st_mode) == 0o600
        assert (door.folder / name).read_text() != (other.folder / name).read_text()


@needs_keygen
def test_ssh_is_told_of_this_machine_s_keys_alone_and_knows_the_host(door):
    known = (door.folder / "known_hosts").read_text()
    assert known == f"[127.0.0.1]:{door.port} {(door.folder / 'host_key.pub').read_text()}"
    told = subprocess.run(
        ["ssh", *door.options, "-G", door.address], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert f"port {door.port}" in told
    assert f"identityfile {door.folder / 'client_key'}" in told
    assert f"userknownhostsfile {door.folder / 'known_hosts'}" in told
    assert "globalknownhostsfile none" in told
    assert "stricthostkeychecking true" in told
    assert "identitiesonly yes" in told
    assert door.command.startswith("ssh -F none -p ")
    assert door.command.endswith(" root@127.0.0.1")


@needs_keygen
def test_the_machine_s_own_part_of_the_file_system_has_its_keys(door):
    laid_over = gzip.decompress(door.overlay())
    for path, file in ((recipe.HOST_KEY, "host_key"), (recipe.KNOWN_KEYS, "client_key.pub")):
        assert f"{path}\0".encode() in laid_over
        assert (door.folder / file).read_bytes() in laid_over
    assert (door.folder / "client_key").read_bytes() not in laid_over


def test_a_key_that_cannot_be_made_is_one_line(tmp_path):
    with pytest.raises(BenchError, match=r"^false: exit status 1$"):
        make_door("false", tmp_path)
