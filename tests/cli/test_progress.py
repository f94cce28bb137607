"""Progress: short in a log, as wide as the terminal on a terminal, and never a reason to stop."""

from __future__ import annotations

import errno
import io
import os
import pty

import pytest

from harness.cli.progress import ProgressLines


class Log(io.StringIO):
    """A stream that is no terminal."""

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def watcher(log):
    progress = ProgressLines(log)
    progress.stage_begins("p2p", 83)
    return progress


def test_two_hundred_counts_of_a_short_wait_are_one_line(watcher, log):
    for pair in range(200):
        watcher.waits("p2p", 283.0, f"pairs {pair} of 380")
    assert log.lines == ["p2p       p2p: 4:43, last seen pairs 0 of 380"]


def test_a_long_wait_says_every_two_minutes_that_it_goes_on(watcher, log):
    for second in range(0, 601, 5):
        watcher.waits("p2p", float(second), f"pairs {second} of 600")
    assert [line.split()[2] for line in log.lines] == ["0:00,", "2:00,", "4:00,", "6:00,", "8:00,", "10:00,"]


def test_another_state_and_another_wait_are_news(watcher, log):
    watcher.waits("the host", 0.0, "InPOST")
    watcher.waits("the host", 5.0, "InPOST")
    watcher.waits("the host", 9.0, "OutOfPOST")
    watcher.waits("the job", 1.0, "OutOfPOST")
    assert [line[10:] for line in log.lines] == [
        "the host: 0:00, last seen InPOST",
        "the host: 0:09, last seen OutOfPOST",
        "the job: 0:01, last seen OutOfPOST",
    ]


def test_states_that_alternate_at_every_look_do_not_flood_the_log(watcher, log):
    for second in range(100):
        watcher.waits("the host", float(second), "up" if second % 2 else "down")
    assert len(log.lines) == 2


def test_a_wait_of_the_same_name_that_begins_again_is_silent_until_two_minutes_passed(watcher, log):
    for _ in range(50):
        for second in (0.0, 60.0, 119.0):
            watcher.waits("the agent", second, "at work")
    assert len(log.lines) == 1


@pytest.mark.parametrize("seen", ["", (), [], None])
def test_nothing_seen_is_said_in_words(watcher, log, seen):
    watcher.waits("the values", 1.0, seen)
    assert log.lines == ["p2p       the values: 0:01, nothing yet"]


def test_what_a_machine_says_cannot_steer_the_terminal(watcher, log):
    watcher.waits("the console", 1.0, "\x1b[2Jboo\nnext")
    assert log.lines == ["p2p       the console: 0:01, last seen \\x1b[2Jboo next"]


def test_an_error_counts_as_failed_as_it_does_in_the_table(watcher, log):
    for outcome in ("passed", "error", "failed"):
        watcher.case_ends("p2p.write", outcome, 1.0)
    watcher.stage_ends("p2p", "closed", 2.0)
    assert log.lines == ["p2p       1 passed, 2 failed; gate closed; at 0:02"]


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        ([], "p2p       nothing ran; at 0:02"),
        (["blocked", "blocked"], "p2p       2 blocked; at 0:02"),
        (["blocked", "not applicable"], "p2p       1 blocked, 1 not applicable; at 0:02"),
        (["failed"], "p2p       1 failed; at 0:02"),
        (["passed", "blocked"], "p2p       1 passed, 1 blocked; gate open; at 0:02"),
    ],
)
def test_a_gate_is_open_only_where_something_passed(watcher, log, outcomes, line):
    for outcome in outcomes:
        watcher.case_ends("p2p.write", outcome, 1.0)
    watcher.stage_ends("p2p", "open", 2.0)
    assert log.lines == [line]


class Refusing(Log):
    """A stream whose writes fail, and that counts them."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise self.error


@pytest.mark.parametrize(
    "error", [BrokenPipeError(errno.EPIPE, "Broken pipe"), OSError(errno.ENOSPC, "full"), ValueError("closed file")]
)
def test_a_stream_that_takes_nothing_is_tried_once_and_stops_nothing(error):
    stream = Refusing(error)
    progress = ProgressLines(stream)
    progress.begins("REPLAY")
    progress.stage_begins("bmc", 1)
    progress.waits("the host", 1.0, "InPOST")
    progress.case_ends("bmc.identity", "passed", 1.0)
    progress.stage_ends("bmc", "open", 1.0)
    assert stream.tries == 1
    assert progress.gone is error


@pytest.fixture
def terminal(monkeypatch):
    """A pseudo-terminal: its writing end as a stream, and what it has shown."""
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w", encoding="utf-8")
    yield stream, ours
    stream.close()
    os.close(ours)


def resize(stream, columns):
    import fcntl
    import struct
    import termios

    fcntl.ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def shown(ours):
    return os.read(ours, 65536).decode()


def test_a_line_is_as_wide_as_the_terminal_is_at_that_moment(terminal):
    stream, ours = terminal
    progress = ProgressLines(stream)
    for columns in (40, 120, 60):
        resize(stream, columns)
        progress.waits("w" * 200, 1.0, "x")
        assert len(shown(ours).removeprefix("\r\x1b[2K")) == columns - 1


def test_a_terminal_without_a_size_is_taken_for_eighty_columns(terminal):
    stream, ours = terminal
    resize(stream, 0)
    ProgressLines(stream).waits("w" * 200, 1.0, "x")
    assert len(shown(ours).removeprefix("\r\x1b[2K")) == 79


def test_wide_characters_count_twice(terminal):
    stream, ours = terminal
    resize(stream, 40)
    progress = ProgressLines(stream)
    progress.stage_begins("bmc", 1)
    shown(ours)
    progress.waits("漢" * 100, 1.0, "x")
    text = shown(ours).removeprefix("\r\x1b[2K").rstrip()
    assert text.count("漢") == 14  # after ten columns of the stage


def test_a_dumb_terminal_gets_lines_without_escape_codes(terminal, monkeypatch):
    stream, ours = terminal
    monkeypatch.setenv("TERM", "dumb")
    progress = ProgressLines(stream)
    progress.stage_begins("bmc", 3)
    progress.case_ends("bmc.identity", "passed", 1.0)
    progress.stage_ends("bmc", "open", 1.0)
    assert shown(ours) == "bmc       1 passed; gate open; at 0:01\r\n"
