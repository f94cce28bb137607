"""The same boot recorded again: a real firmware and kernel take other times and other numbers, and tell the same."""

import subprocess
import sys

import pytest

from harness import locator

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


def bringup(folder, *arguments):
    program = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=550, check=False)


def test_a_boot_recorded_today_tells_the_same_as_the_bundled_one(needs_the_lab, tmp_path):
    """The times are those of another machine on another day, so they get two minutes; states, values and lines get nothing."""
    bundled = locator.find_tape("virtual-r640", None)
    done = bringup(tmp_path, "run", "--bench", "virtual-r640", "--live", "--apply", "--record", "--tapes", str(tmp_path / "tapes"))
    assert done.returncode == 0, done.stdout + done.stderr
    today = tmp_path / "tapes" / "virtual-r640"
    compared = bringup(tmp_path, "tape", "diff", str(bundled.absolute()), str(today), "--tolerance", "2 min")
    assert (compared.returncode, compared.stdout.count("\n")) == (0, 1), compared.stdout + compared.stderr
    (today / "session" / "pcie.jsonl").unlink()
    assert bringup(tmp_path, "tape", "diff", str(bundled.absolute()), str(today), "--tolerance", "2 min").returncode == 1
