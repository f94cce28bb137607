"""The same boot recorded twice: a real firmware and kernel take other times and other numbers, and tell the same."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


def bringup(folder, *arguments):
    program = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=550, check=False)


def test_a_boot_recorded_twice_tells_the_same(needs_the_lab, tmp_path):
    """The machine that emulates may be busy in one of them, so times get two minutes; states, values and lines get nothing."""
    for name in ("one", "two"):
        done = bringup(tmp_path, "run", "--bench", "virtual-r640", "--live", "--apply", "--record", "--tapes", name)
        assert done.returncode == 0, done.stdout + done.stderr
    tapes = ("one/virtual-r640", "two/virtual-r640")
    compared = bringup(tmp_path, "tape", "diff", *tapes, "--tolerance", "2 min")
    assert (compared.returncode, compared.stdout) == (0, f"{tapes[0]} and {tapes[1]} tell the same\n"), compared.stdout
    (tmp_path / tapes[1] / "session" / "pcie.jsonl").unlink()
    assert bringup(tmp_path, "tape", "diff", *tapes, "--tolerance", "2 min").returncode == 1
