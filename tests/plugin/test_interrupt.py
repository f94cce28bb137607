"""Ctrl-C and kill -9 in the middle leave a readable record; Ctrl-C also ends the session and prints the hand-over line."""

import json
import signal
import subprocess
import sys
import time

import pytest

from harness import locator
from harness.record.reader import read_record

STUCK = """
import pytest
from pathlib import Path
from harness.clock import WallClock

@pytest.mark.check("bios.stuck")
def test_this_takes_long(bios):
    Path("stuck").touch()
    WallClock().sleep(120)
"""


def heed_signals():
    """A shell starts background jobs with SIGINT ignored, and the tests may be such a job."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def started(tmp_path, clean_environment):
    """A live run on the model that hangs after the BIOS stage began."""
    (tmp_path / "test_aaa_stuck.py").write_text(STUCK)
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "--bench", "model-lqd8360", "--live", "--suite", "test_aaa_stuck.py"],
        cwd=tmp_path,
        env=clean_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )
    end = time.monotonic() + 120
    while not (tmp_path / "stuck").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


def record_of(folder):
    (run,) = [path for path in (folder / "reports").iterdir() if not path.is_symlink()]
    return run, read_record(run / "results.jsonl")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_its_session_and_says_what_was_left(started, tmp_path, how):
    started.send_signal(how)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert "INTERRUPTED" in out
    assert "left on the machine" in out
    run, record = record_of(tmp_path)
    assert record.closed
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["exit"] == 130
    assert (run / "junit.xml").is_file()


@pytest.mark.parametrize("gap", [0.0, 0.1, pytest.param(0.01, marks=pytest.mark.slow), pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("second", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_more_signals_do_not_lose_the_hand_over_line(started, tmp_path, gap, second):
    started.send_signal(signal.SIGINT)
    time.sleep(gap)
    started.send_signal(second)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert "left on the machine" in out + err
    assert record_of(tmp_path)[1].closed


def test_a_killed_run_leaves_a_readable_record(started, tmp_path, bringup):
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=60)
    run, record = record_of(tmp_path)
    assert not record.closed
    assert any(case.check.startswith("bmc.") for case in record.cases)
    done = bringup("report", run.name, folder=tmp_path)
    assert done.status == 3, done.err
    assert "UNFINISHED" in done.out
    assert "this is no whole record" in done.err
    assert (run / "junit.xml").is_file()
    assert (run / "tape").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_under_pytest_itself_the_hand_over_line_is_said_too(tmp_path, clean_environment, how):
    (tmp_path / "test_aaa_stuck.py").write_text(STUCK)
    arguments = ["--bringup-bench", "model-lqd8360", "--bringup-live", "--rootdir", str(tmp_path)]
    suites = [str(locator.suites()), str(tmp_path / "test_aaa_stuck.py")]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-c", str(locator.suites() / "pytest.toml"), "-p", "harness.plugin", *arguments, *suites],
        cwd=tmp_path,
        env=clean_environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_signals,
    )
    end = time.monotonic() + 120
    while not (tmp_path / "stuck").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(how)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2, out  # pytest's own status of an interrupted session
    assert "INTERRUPTED" in out
    assert "left on the machine" in out
    assert record_of(tmp_path)[1].closed


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
"""


@pytest.mark.parametrize("room", [100, 15_000, 120_000])
def test_a_full_disk_is_the_bench_s_fault_and_the_hand_over_line_is_said_all_the_same(bringup, room):
    done = bringup("run", "--bench", "model-lqd8360", "--live", prelude=FULL.format(room=room))
    assert done.status == 3, done.out + done.err
    assert "Traceback" not in done.out + done.err
    assert "make room" in " ".join((done.out + done.err).split())
    assert "left on the machine" in done.out + done.err


APPLYING = """
import harness.lab.model.lanes as lanes
from dataclasses import replace
original = lanes.open_model

class Killing:
    def __init__(self, port): self.port = port
    def close(self): self.port.close()
    def ask(self, question, on_line=None):
        answer = self.port.ask(question, on_line)
        if question.method == "PATCH":
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

def open_model(*arguments, **keywords):
    opened = original(*arguments, **keywords)
    return replace(opened, bmc=Killing(opened.bmc))

lanes.open_model = open_model
"""


def test_a_run_that_is_killed_while_it_applies_has_said_what_it_may_leave(bringup, tmp_path):
    done = bringup("run", "--bench", "model-lqd8360", "--live", prelude=APPLYING, folder=tmp_path)
    assert done.status == -signal.SIGKILL
    shown = bringup("report", "latest", folder=tmp_path).out.replace("\n", " ")
    assert "UNFINISHED" in shown
    assert "MmioAbove4Gb" in shown
    assert "undo" in shown
