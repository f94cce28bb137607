"""Trees of real machines, as other projects recorded them, through the agent and into a snapshot."""

import os
import re
import tarfile
from pathlib import Path

import pytest

from harness.agent import pci
from harness.devices.pcie import parse_snapshot

FIELD_DATA = os.environ.get("BRINGUP_FIELD_DATA", "")
ARCHIVES = sorted((Path(FIELD_DATA) / "pcie").rglob("*.tar.*")) if FIELD_DATA else []


def only_pci(member, folder):
    """What of a recorded machine the agent looks at; the rest is not worth unpacking."""
    wanted = re.search(r"(^|/)sys/(bus/pci/|devices/.*[0-9a-f]{2}\.[0-7](/\w+)?$)", member.name)
    return tarfile.tar_filter(member, folder) if wanted else None


@pytest.mark.skipif(not ARCHIVES, reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")
def test_every_recorded_tree_becomes_a_tree(tmp_path):
    read = 0
    for number, archive in enumerate(ARCHIVES):
        folder = tmp_path / str(number)
        with tarfile.open(archive) as recorded:
            recorded.extractall(folder, filter=only_pci)
        root = next(found for found in (folder, *folder.iterdir()) if (found / "sys/bus/pci/devices").is_dir())
        listed = {entry.name for entry in (root / "sys/bus/pci/devices").iterdir()}
        snapshot = parse_snapshot(pci.read(str(root), uid=0))
        unread = {bdf for found in snapshot.unread if found.what == "the whole function" for bdf in found.of}
        assert {function.bdf for function in snapshot.functions} | unread == listed, archive.name
        for function in snapshot.functions:
            assert re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}(/[0-9a-f]{2}\.[0-7])+", function.path), archive.name
            chain = snapshot.chain_up(function)
            assert len(chain) == function.path.count("/"), f"{archive.name}: {function} has lost a bridge on its way"
            assert all(bridge.is_bridge for bridge in chain[1:]), archive.name
        read += len(snapshot.functions)
    assert read > 200
