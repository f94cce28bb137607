"""An apply that is killed with -9 between its writes, on a firmware whose 64-bit window really depends on the setting.

What stays is what the dead process left on the iDRAC; the next run finds it by reading and goes on, and writes nothing twice.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading

import pytest

from harness.clock import WallClock
from harness.devices.idrac import Idrac
from harness.devices.jobs import SUCCEEDED
from harness.devices.redfish import Redfish
from harness.lab.qemu.standing import find_standing
from harness.live.http import RedfishHttp
from harness.secret import GivenSecret

pytestmark = [pytest.mark.qemu, pytest.mark.socket]
RESETS = ("RAC0701", "RAC0702", "RAC0703", "RAC0705")
"""What the log says of a power-on, a power cycle, a hard and a soft restart that was asked for (EEMI registry 2.9.0)."""
APPLY = (sys.executable, "-m", "harness", "bios", "apply", "--bench", "virtual-r640")


@pytest.fixture
def kept(needs_the_lab, tmp_path, monkeypatch):
    """A kept machine, as delivered and switched off: MmioAbove4Gb is Disabled."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    bringup = (sys.executable, "-m", "harness", "lab")
    subprocess.run([*bringup, "up"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    try:
        yield find_standing()
    finally:
        subprocess.run([*bringup, "down"], check=True, timeout=120, stdout=subprocess.DEVNULL)


def killed_when_it_says(words, *options):
    """Start an apply and kill it at the first line with ``words``; False where it ended before."""
    process = subprocess.Popen([*APPLY, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        found = any(words in line for line in process.stderr)
        process.kill()
    finally:
        guard.cancel()
        process.stderr.close()
        process.wait()
    return found


def applied(*options):
    return subprocess.run([*APPLY, *options], capture_output=True, text=True, timeout=300, check=False)


def asked(kept, look):
    lane = RedfishHttp(kept.bmc_url, kept.user, GivenSecret(kept.password), WallClock(), pin=kept.pin)
    try:
        return look(Idrac(Redfish(lane, WallClock())).located())
    finally:
        lane.close()


def bios_jobs(kept):
    return asked(kept, lambda idrac: [job for job in idrac.jobs() if job.is_bios])


def resets(kept):
    """How many starts and restarts the iDRAC was ever asked for, as its log tells; those of a BIOS job are not among them."""
    log = asked(kept, lambda idrac: idrac.lc_log())
    return [event.message_id for event in log if event.message_id in RESETS]


def lost_bars(kept):
    """How many 64-bit regions the kernel could not place; I/O windows of empty ports never have one."""
    done = subprocess.run(
        [*shlex.split(kept.ssh), "dmesg | grep 'failed to assign' | grep -c '64bit pref' || true"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return int(done.stdout)


def test_an_apply_killed_after_its_patch_or_after_its_reset_converges_and_writes_nothing_twice(kept, tmp_path):
    assert killed_when_it_says("to be scheduled")
    (left,) = bios_jobs(kept)
    assert left.is_active
    done = applied()
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = bios_jobs(kept)
    assert (job.id, job.message_id in SUCCEEDED) == (left.id, True), "the job of the killed run, and no second one"
    assert asked(kept, lambda idrac: idrac.bios().attributes["MmioAbove4Gb"]) == "Enabled"
    assert len(resets(kept)) == 1
    assert lost_bars(kept) == 0

    (tmp_path / "narrow.toml").write_text('MmioAbove4Gb = "Disabled"\n')
    narrow = ("--attributes", "narrow.toml", "--danger", "mmio")
    assert killed_when_it_says("to complete", *narrow)
    assert len(resets(kept)) == 2
    done = applied(*narrow)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = bios_jobs(kept)
    assert len(jobs) == 2, "one job for each change"
    assert all(job.message_id in SUCCEEDED for job in jobs)
    assert asked(kept, lambda idrac: (idrac.bios().attributes["MmioAbove4Gb"], dict(idrac.bios().pending))) == ("Disabled", {})
    assert len(resets(kept)) == 2, "one reset for each change"
    assert lost_bars(kept) > 0
