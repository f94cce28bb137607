"""Nothing is left behind: not after the end, not after an exception, not after kill -9 of the owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.lab.qemu.workplace import processes_of, sweep

pytestmark = [pytest.mark.qemu, pytest.mark.socket]

OWNER = """
import sys, pathlib
from harness.clock import WallClock
from harness.lab.qemu.endpoints import open_qemu
clock = WallClock()
with open_qemu(clock, root=pathlib.Path(sys.argv[1])) as reached:
    reached.machine.reset("On")
    print(reached.machine.pid, flush=True)
    clock.sleep(600)
"""


def is_open(url: str) -> bool:
    split = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((split.hostname, split.port)) == 0


def test_after_the_end_there_is_no_process_no_socket_and_no_file(open_bench, tmp_path):
    temporary = set(Path(tempfile.gettempdir()).glob("bringup*"))
    with open_bench(root=tmp_path) as bench:
        bench.reset("On")
        pid, urls = bench.machine.pid, (bench.reached.bmc_url, bench.reached.console_url)
        assert processes_of(tmp_path) == (pid,)
        assert all(is_open(url) for url in urls)
    assert processes_of(tmp_path) == ()
    assert not Path(f"/proc/{pid}").exists()
    assert not any(is_open(url) for url in urls)
    assert list(tmp_path.iterdir()) == []
    assert set(Path(tempfile.gettempdir()).glob("bringup*")) <= temporary


def test_after_an_exception_there_is_nothing_either(open_bench, tmp_path):
    def break_off() -> None:
        with open_bench(root=tmp_path) as bench:
            bench.reset("On")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert processes_of(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_owner_leaves_nothing_beyond_the_next_start(needs_the_lab, tmp_path, number):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(number)
        owner.wait(timeout=20)
    if number == signal.SIGKILL:
        assert processes_of(tmp_path) == (pid,)
        assert len(sweep(tmp_path)) == 1
    assert processes_of(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_qemu_that_is_killed_leaves_the_machine_off_and_says_so(open_bench, tmp_path):
    with open_bench(root=tmp_path) as bench:
        bench.reset("On")
        os.kill(bench.machine.pid, signal.SIGKILL)
        bench.follow("Off", within=10)
        assert "QEMU ended by itself" in bench.machine.trouble
        bench.reset("On")
        assert bench.state()[0] == "On"


def test_a_machine_kept_for_work_by_hand_comes_and_goes(needs_the_lab, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "harness", "lab", *words], capture_output=True, text=True, timeout=60)

    assert lab("status").returncode == 1
    up = lab("up")
    try:
        assert up.returncode == 0, up.stderr
        console = next(line.split()[1] for line in up.stdout.splitlines() if line.startswith("console"))
        assert is_open(console)
        assert lab("status").stdout == up.stdout
        again = lab("up")
        assert again.returncode == 2
        assert "is up already" in again.stderr
        assert "Traceback" not in again.stderr
    finally:
        down = lab("down")
    assert down.stdout == "the virtual machine is gone\n"
    assert not is_open(console)
    assert list((tmp_path / "bringup-lab").iterdir()) == []
    assert lab("status").returncode == 1
