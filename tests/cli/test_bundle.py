"""A run as one archive that can be mailed."""

import hashlib
import json
import subprocess
import sys
import tarfile

import pytest

from harness.cli import bundle as bundles
from harness.cli.bundle import bundle
from harness.errors import UsageMistake
from harness.record.reader import read_record

RUN = {
    "kind": "run", "seq": 1, "schema": 1, "id": "r1", "started": "2026-01-01T00:00:00+00:00", "mode": "replay", "source": "model",
    "bench": "model-lqd8360", "platform": "lqd8360", "stages": ["bmc"], "harness": "1", "tape": None, "faults": [], "apply": False,
    "command": ["bringup"],
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "20260101-model"
    (folder / "evidence").mkdir(parents=True)
    (folder / "results.jsonl").write_text(json.dumps(RUN) + "\n")
    (folder / "evidence" / "boot-screen.png").write_bytes(b"\x89PNG picture")
    (folder / "evidence" / "boot-console.txt").write_text("login: root\npassword = hunter2\n")
    return folder


def packed(file):
    with tarfile.open(file) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


def test_it_holds_everything_with_checksums_and_no_secret(run, tmp_path):
    done = bundle(run, tmp_path / "out.tar.gz")
    files = packed(done.file)
    manifest = json.loads(files.pop("20260101-model/manifest.json"))
    assert sorted(files) == [
        f"20260101-model/{name}" for name in ("evidence/boot-console.txt", "evidence/boot-screen.png", "results.jsonl")
    ]
    assert {f"20260101-model/{each['name']}": each["sha256"] for each in manifest["files"]} == {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items()
    }
    assert (manifest["source"], manifest["verdict"], manifest["left_out"]) == ("model", "UNFINISHED", [])
    assert b"hunter2" not in b"".join(files.values())
    assert files["20260101-model/evidence/boot-screen.png"] == b"\x89PNG picture"


def test_the_same_folder_gives_the_same_bytes(run, tmp_path):
    one, two = (bundle(run, tmp_path / name).file.read_bytes() for name in ("one.tar.gz", "two.tar.gz"))
    assert one == two


def test_links_and_large_files_are_left_out_and_listed(run, tmp_path, monkeypatch):
    monkeypatch.setattr(bundles, "MOST", 1000)
    (run / "evidence" / "shadow").symlink_to("/etc/passwd")
    (run / "evidence" / "huge.txt").write_text("x" * 1001)
    done = bundle(run, tmp_path / "out.tar.gz")
    assert dict(done.left_out) == {"evidence/huge.txt": "larger than 0 MiB", "evidence/shadow": "no plain file"}
    assert not [name for name in packed(done.file) if "shadow" in name or "huge" in name]


@pytest.mark.parametrize("spoil", ["exists", "folder", "link", "nowhere"])
def test_what_cannot_be_written_is_one_line_and_changes_nothing(run, tmp_path, spoil):
    target = tmp_path / ("no/such/place.tar.gz" if spoil == "nowhere" else "out.tar.gz")
    match spoil:
        case "exists":
            target.write_text("mine")
        case "folder":
            target.mkdir()
        case "link":
            target.symlink_to(run / "results.jsonl")
    with pytest.raises(UsageMistake):
        bundle(run, target, force=spoil != "exists")
    assert spoil != "exists" or target.read_text() == "mine"
    assert json.loads((run / "results.jsonl").read_text()) == RUN


def test_a_folder_without_a_record_is_no_run(tmp_path):
    with pytest.raises(UsageMistake, match="no record"):
        bundle(tmp_path, tmp_path / "out.tar.gz")


def test_a_whole_replay_is_packed_and_can_be_read_again(tmp_path):
    bringup = (sys.executable, "-m", "harness")
    subprocess.run([*bringup, "run"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    done = subprocess.run([*bringup, "bundle", "latest"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    (archive,) = tmp_path.glob("*.tar.gz")
    assert done.stdout.startswith(f"wrote {archive.name}: ")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "there", filter="data")
    (folder,) = (tmp_path / "there").iterdir()
    there, here = read_record(folder), read_record(tmp_path / "reports" / "latest")
    assert (there.damage, len(there.cases), there.end) == ((), len(here.cases), here.end)
