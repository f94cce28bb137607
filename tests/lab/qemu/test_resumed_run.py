"""A run that is killed with -9 after it changed the BIOS and restarted the machine, and is gone on with.

By a bench of real endpoints: the kept virtual machine stands for a real one (Redfish over TLS, its host on the console).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.clock import WallClock
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.qemu.standing import find_standing
from harness.live.http import RedfishHttp
from harness.procedures.handover import NOTHING
from harness.record.reader import read_record
from harness.secret import GivenSecret

pytestmark = [pytest.mark.qemu, pytest.mark.socket]
RESETS = ("RAC0701", "RAC0702", "RAC0703", "RAC0705")
"""What the log says of a power-on, a power cycle, a hard and a soft restart that was asked for (EEMI registry 2.9.0)."""

BENCH = """
schema = 1
name = "kept"
platform = "virtual-r640"
service_tag = "{tag}"
[bmc]
url = "{url}"
user = "{user}"
password = {{ env = "KEPT_PASSWORD" }}
pin = "{pin}"
[console]
url = "{console}"
[host]
via = "console"
user = "root"
"""
KILLS = """
import os
import pathlib
import signal
import pytest


@pytest.mark.check("pcie.last")
def test_the_last_one(pcie, measure):
    if not pathlib.Path("survives").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    measure("pcie.last", 1)
"""


@pytest.fixture
def kept(needs_the_lab, tmp_path, monkeypatch):
    """A kept machine, as delivered and switched off, and a bench that leads to it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    lab = (sys.executable, "-m", "harness", "lab")
    subprocess.run([*lab, "up"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    try:
        there = find_standing()
        assert there is not None
        monkeypatch.setenv("KEPT_PASSWORD", there.password)
        words = {"tag": there.service_tag, "url": there.bmc_url, "user": there.user, "pin": there.pin, "console": there.console_url}
        (tmp_path / "kept.toml").write_text(BENCH.format(**words))
        (tmp_path / "checks").mkdir()
        (tmp_path / "checks" / "test_last.py").write_text(KILLS)
        yield there
    finally:
        subprocess.run([*lab, "down"], check=True, timeout=120, stdout=subprocess.DEVNULL)


@pytest.fixture
def run(kept, tmp_path):
    """Run the command; with the newest record."""

    def go(*words):
        command = [sys.executable, "-m", "harness", "run", "--bench", "kept.toml", "--suite", "checks", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return done, read_record(tmp_path / "reports" / "latest")

    return go


def asked(kept, look):
    lane = RedfishHttp(kept.bmc_url, kept.user, GivenSecret(kept.password), WallClock(), pin=kept.pin)
    try:
        return look(Idrac(Redfish(lane, WallClock())).located())
    finally:
        lane.close()


def resets(kept):
    """How many starts and restarts the iDRAC was ever asked for, as its log tells."""
    return len([event for event in asked(kept, Idrac.lc_log) if event.message_id in RESETS])


def test_a_run_killed_after_its_restart_goes_on_without_another_and_comes_to_the_verdict_of_a_whole_one(kept, run, tmp_path):
    killed, first = run("--live", "--apply")
    assert killed.returncode == -9, killed.stdout + killed.stderr
    assert first.stage("boot").state == "ended"
    assert first.stage("pcie").state == "started"
    asked_before = resets(kept)
    assert asked_before > 0
    (tmp_path / "survives").touch()

    done, record = run("--resume", first.run.id, "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    assert record.run.resumed.stages == ("bios", "boot")
    assert f"resumed from {first.run.id}: bios, boot carried over" in done.stdout.splitlines()[1]
    assert "LIVE on a simulated machine" in " ".join(done.stdout.split())
    assert resets(kept) == asked_before, "nothing is restarted again, although it was allowed"
    assert record.handovers[-1:] == (NOTHING,)
    before = {case.id: (case.outcome, case.message) for case in first.cases if case.stage in ("bios", "boot")}
    assert {case.id: (case.outcome, case.message) for case in record.cases if case.stage in ("bios", "boot")} == before

    whole, fresh = run("--live")
    assert (whole.returncode, fresh.end.verdict) == (done.returncode, record.end.verdict), whole.stdout + whole.stderr
    assert sorted(case.id for case in record.cases) == sorted(case.id for case in fresh.cases)
    assert sorted(case.id for case in record.cases) == sorted({case.id for case in record.cases})
