"""``bringup agent build``."""

import json
import subprocess
import sys

from harness.devices.payload import build_payload


def test_the_file_is_the_agent_that_travels_and_the_same_bytes_every_time(shell, tmp_path):
    done = shell('"${bringup[@]}" agent build && "${bringup[@]}" agent build other.pyz')
    assert (done.returncode, done.stderr) == (0, "")
    first, other = tmp_path / "bringup-agent.pyz", tmp_path / "other.pyz"
    assert first.read_bytes() == other.read_bytes() == build_payload()
    assert f"wrote bringup-agent.pyz, {len(build_payload())} bytes, sha256 " in done.stdout
    assert sorted(tmp_path.iterdir()) == [first, other]


def test_the_file_runs_by_itself(shell, tmp_path):
    assert shell('"${bringup[@]}" agent build').returncode == 0
    done = subprocess.run(
        [sys.executable, "-I", "bringup-agent.pyz", "pci", "--root", str(tmp_path)], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.splitlines()[-1])["kind"] == "end"


def test_a_place_that_cannot_be_written_is_one_line_and_nothing_half_written(shell, tmp_path):
    done = shell('"${bringup[@]}" agent build missing/agent.pyz')
    assert done.returncode == 2
    assert "missing/agent.pyz: cannot be written: No such file or directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
