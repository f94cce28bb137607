from __future__ import annotations

import pytest

from harness.clock import Deadline, VirtualClock
from harness.devices.console import Console, Reading, Transcript
from harness.ports import Chunk

BOOT = b"\x1b[2J\x1b[01;01HPowerEdge R640\r\nConfiguring memory\r\n[    0.000000] Linux version 6.1.0\r\nr640 login: "


def transcript(data: bytes) -> Transcript:
    return Transcript((Chunk(data, 1.0),))


@pytest.mark.parametrize(
    ("data", "reading"),
    [
        (b"", Reading.SILENT),
        (b"\x00\x00\r\n \r\n", Reading.SILENT),
        (BOOT, Reading.BOOT),
        ("\u2554\u2550\u2550 BIOS \u2550\u2550\u2557".encode(), Reading.BOOT),
        (bytes(0x80 | (byte * 37 + 13) & 0x7F for byte in BOOT), Reading.GARBAGE),
        (bytes(range(0, 32)) * 8 + b"ab", Reading.GARBAGE),
        (b"switch01> show version\r\nswitch01> ", Reading.STRANGE),
    ],
)
def test_silence_noise_and_strangers_are_told_from_a_boot(data, reading):
    assert transcript(data).reading is reading


def test_the_text_has_no_terminal_control_left():
    assert transcript(BOOT).text == "PowerEdge R640\nConfiguring memory\n[    0.000000] Linux version 6.1.0\nr640 login: "


def test_the_tail_has_the_last_lines_that_say_something():
    assert transcript(b"one\r\n\r\ntwo\r\n  \r\nthree").tail(2) == ("two", "three")


def test_the_mark_is_the_first_line_of_a_boot():
    assert transcript(b"hello\r\nGRUB loading\r\nlogin:").mark == "GRUB loading"


def test_a_character_that_is_split_over_two_chunks_stays_whole():
    first, second = "\u2550".encode()[:1], "\u2550".encode()[1:]
    assert (transcript(first) + transcript(second)).text == "\u2550"


def test_draining_takes_what_has_come_and_does_not_wait():
    class Stream:
        def __init__(self) -> None:
            self.left = [Chunk(b"a", 0.0), Chunk(b"b", 0.0)]

        def read(self, deadline: Deadline) -> Chunk:
            assert deadline.at == clock.now()
            return self.left.pop(0) if self.left else Chunk(b"", clock.now())

        def write(self, data: bytes) -> None:
            raise AssertionError("a console is only read")

        def close(self) -> None:
            pass

    clock = VirtualClock()
    console = Console(Stream(), clock)
    assert console.drain().data == b"ab"
    assert console.drain().data == b""
    assert clock.now() == 0.0
