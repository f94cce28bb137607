from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.clock import Deadline
from harness.errors import Unreachable, UsageMistake
from harness.live.terminal import CommandStream


@pytest.fixture
def start(clock):
    """Open the terminal of a command; all are closed at the end."""
    opened = []

    def make(command: str, **other) -> CommandStream:
        opened.append(CommandStream(command, clock, **other))
        return opened[-1]

    yield make
    for stream in opened:
        stream.close()


def hear(stream, clock, wanted: bytes) -> bytes:
    heard, deadline = b"", Deadline.after(clock, 5)
    while wanted not in heard:
        chunk = stream.read(deadline)
        assert chunk.data, f"heard only {heard!r}"
        heard += chunk.data
    return heard


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def test_a_command_is_talked_to_and_nothing_is_changed_on_the_way(start, clock):
    stream = start("cat")
    every = bytes(range(256))
    stream.write(every)
    assert hear(stream, clock, b"\xff") == every


def test_nothing_is_started_before_the_first_use(start, tmp_path):
    start(f"touch {tmp_path / 'started'}")
    time.sleep(0.1)
    assert not (tmp_path / "started").exists()


def test_a_command_that_ended_is_unreachable_after_its_last_words(start, clock):
    stream = start("sh -c 'echo cannot open session; exit 7'")
    assert b"cannot open session" in hear(stream, clock, b"\n")
    with pytest.raises(Unreachable, match=r"exit status 7.*cannot open session"):
        stream.read(Deadline.after(clock, 5))
    with pytest.raises(Unreachable, match="exit status 7"):
        stream.write(b"x")


def test_a_command_ended_by_a_signal_says_so(start, clock):
    stream = start("sh -c 'kill -9 $$'")
    with pytest.raises(Unreachable, match="signal 9"):
        stream.read(Deadline.after(clock, 5))


def test_a_missing_program_is_named(start, clock):
    with pytest.raises(Unreachable, match=r"no-such-program cannot be started: command not found"):
        start("no-such-program x").read(Deadline.after(clock, 1))


@pytest.mark.parametrize("command", ["", "'unbalanced"])
def test_a_command_that_cannot_be_meant_is_refused(start, clock, command):
    with pytest.raises(UsageMistake):
        start(command).read(Deadline.after(clock, 1))


def test_there_is_no_shell(start, clock):
    assert hear(start("echo '$HOME;' *"), clock, b"\n").strip() == b"$HOME; *"


def test_close_ends_everything_that_the_command_started_and_the_thread(start, clock):
    threads = threading.active_count()
    stream = start("sh -c 'trap : TERM; sleep 60 & echo $! $$; wait; sleep 60'")
    pids = [int(word) for word in hear(stream, clock, b"\n").split()]
    assert all(is_alive(pid) for pid in pids)
    handle = stream._handle
    stream.close()
    stream.close()
    assert not any(is_alive(pid) for pid in pids)
    assert threading.active_count() == threads
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
    with pytest.raises(Unreachable, match="closed"):
        stream.read(Deadline.after(clock, 1))


GOODBYE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], "w"), sys.exit()))
print("up", flush=True)
time.sleep(60)
"""


def test_a_command_may_say_goodbye(start, clock, tmp_path):
    (tmp_path / "polite.py").write_text(GOODBYE)
    stream = start(f"{sys.executable} {tmp_path / 'polite.py'} {tmp_path / 'bye'}")
    hear(stream, clock, b"up")
    stream.close()
    assert (tmp_path / "bye").exists()


def test_writing_is_paced_where_asked(start, clock):
    stream = start("cat", pace=1000)
    began = clock.now()
    stream.write(b"x" * 300)
    assert 0.28 < clock.now() - began < 2
