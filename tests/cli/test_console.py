"""``bringup console`` on a pseudo-terminal, against a device on another one."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import tty
from pathlib import Path

import pytest

from harness.live.lock import MachineLock, owner_of_run

BENCH = """
schema = 1
name = "rack"
platform = "lqd8360"
service_tag = "CONSOLE{unique}"
[console]
{console}
"""


class Device:
    """The far end of a serial line: a login prompt at 57600 baud, garbage at every other rate."""

    def __init__(self) -> None:
        self.far, self.near = pty.openpty()
        tty.setraw(self.near)
        self.path = os.ttyname(self.near)
        self.heard = b""
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while not self.stop.is_set():
            if not select.select([self.far], [], [], 0.02)[0]:
                continue
            heard = os.read(self.far, 4096)
            self.heard += heard
            right = termios.tcgetattr(self.near)[4] == termios.B57600
            os.write(self.far, heard + b"\nr640 login: " if right else bytes(range(0x80, 0xB0)))

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        os.close(self.far)
        os.close(self.near)


@pytest.fixture
def device():
    made = Device()
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Write a bench file and return its path and its machine's lock, which is in a folder of the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def write(console: str) -> tuple[Path, MachineLock]:
        file = tmp_path / "rack.toml"
        file.write_text(BENCH.format(console=console, unique=os.getpid()))
        return file, MachineLock(f"CONSOLE{os.getpid()}", owner_of_run("rack"), tmp_path / "bringup-locks")

    return write


def bringup(*arguments) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_probe_finds_the_rate_that_talks(device, bench):
    file, _ = bench(f'url = "{device.path}"')
    done = bringup("console", "probe", file)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert [line.split(" at ")[1].split(":")[0] for line in lines] == ["115200", "57600", "38400", "19200", "9600"]
    assert [("talks: 'r640 login:'" in line, "garbage" in line) for line in lines] == [
        (False, True), (True, False), (False, True), (False, True), (False, True),
    ]  # fmt: skip
    assert device.heard == b"\r" * 5


def test_a_probe_that_finds_nothing_says_so_in_its_status(bench, tmp_path):
    file, _ = bench('command = "sleep 60"')
    done = bringup("console", "probe", file, tmp_path / "no-such-device")
    assert done.returncode == 3
    assert "sleep 60: silent" in done.stdout
    assert done.stdout.count("cannot be opened: No such file") == 5


class Terminal:
    """A terminal with ``bringup console`` on it."""

    def __init__(self, *arguments) -> None:
        self.near, far = pty.openpty()
        self.before = termios.tcgetattr(far)
        self.far = far
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness", "console", *map(str, arguments)],
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
        )

    def see(self, wanted: bytes) -> None:
        while wanted not in self.seen:
            assert select.select([self.near], [], [], 20)[0], f"saw only {self.seen!r}"
            self.seen += os.read(self.near, 4096)

    def type(self, data: bytes) -> None:
        os.write(self.near, data)

    def wait(self) -> int:
        try:
            return self.process.wait(20)
        finally:
            if self.process.returncode is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()

    def close(self) -> None:
        os.close(self.near)
        os.close(self.far)


def test_a_console_is_passed_through_until_the_leaving_key(device, bench):
    file, lock = bench(f'url = "{device.path}"\nbaud = 57600')
    terminal = Terminal(file)
    terminal.see(b"Ctrl-] ends")
    terminal.type(b"\x03abc")
    terminal.see(b"r640 login: ")
    assert lock.holding() is not None
    terminal.type(b"z\x1d")
    assert terminal.wait() == 0
    assert device.heard == b"\x03abcz"
    assert termios.tcgetattr(terminal.far) == terminal.before
    assert lock.holding() is None
    terminal.close()


def test_a_console_whose_far_end_dies_ends_with_its_last_words(bench):
    file, _ = bench("command = \"sh -c 'echo session is taken; exit 1'\"")
    terminal = Terminal(file)
    terminal.see(b"session is taken")
    assert terminal.wait() == 3
    assert termios.tcgetattr(terminal.far) == terminal.before
    terminal.close()


def test_a_console_is_refused_while_a_run_holds_the_machine(device, bench):
    file, lock = bench(f'url = "{device.path}"')
    with lock:
        done = bringup("console", "probe", file)
    assert done.returncode == 2
    assert f"{lock.machine} is held by" in done.stderr
    assert (done.stdout, device.heard) == ("", b"")


def test_a_console_without_a_terminal_is_refused(device, bench):
    done = bringup("console", bench(f'url = "{device.path}"')[0])
    assert (done.returncode, done.stderr) == (2, "bringup: bringup console needs a terminal on standard input and output\n")


def test_a_bench_without_a_console_and_one_that_is_not_up_are_refused(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file, _ = bench('command = "x"')
    file.write_text(file.read_text().split("[console]")[0] + '[host]\nvia = "local"\n')
    assert "there is no [console]" in bringup("console", file).stderr
    assert "is a model within the run; it has no console" in bringup("console", "model-lqd8360").stderr
    done = bringup("console", "virtual-r640")
    assert (done.returncode, "`bringup lab up` starts it" in done.stderr) == (2, True)


def test_only_a_probe_takes_more_than_a_bench(bench):
    assert "takes one bench" in bringup("console", bench('command = "x"')[0], "more").stderr
