"""The serial console: bytes with times, and whether they are a boot at all.

what came ─┬─ nothing ──────────────────── silent    wrong port, or redirection is off
           ├─ mostly unprintable ───────── garbage   wrong baud rate
           ├─ text without a word of boot  strange   another machine's port, or another device
           └─ text of a boot ───────────── boot
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from harness.clock import Clock, Deadline
from harness.ports import Chunk, Streams

READABLE = 0.7
"""The share of printable characters from which on text is text; a wrong baud rate leaves well under half (ours)."""

MARKS = tuple(
    re.compile(mark, re.IGNORECASE)
    for mark in (
        r"linux version \d",
        r"^\S* ?login:",
        r"\bbios\b",
        r"\buefi\b",
        r"poweredge",
        r"lifecycle controller",
        r"\bgrub\b",
        r"booting ",
        r"command line:",
        r"systemd\[1\]",
    )
)
"""What a machine says between power-on and login: Dell's POST, boot loaders, the Linux kernel, systemd and getty."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()#][0-9A-Za-z]|[=>78cDEHMNOZ])")
_LAYOUT = "\r\n\t\b\f\x1b"


class Reading(StrEnum):
    """What a console turned out to carry."""

    SILENT = "silent"
    GARBAGE = "garbage"
    STRANGE = "strange"
    BOOT = "boot"


@dataclass(frozen=True)
class Transcript:
    """What a console said, oldest first."""

    chunks: tuple[Chunk, ...] = ()

    def __add__(self, other: Transcript) -> Transcript:
        return Transcript(self.chunks + other.chunks)

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join(chunk.data for chunk in self.chunks)

    @property
    def text(self) -> str:
        """The text without terminal control; bytes that are no UTF-8 as backslash escapes."""
        return _plain(self.data.decode("utf-8", "backslashreplace"))

    @property
    def reading(self) -> Reading:
        """What it is, judged by the bytes alone."""
        if not self.data.strip(b"\x00\r\n \t"):
            return Reading.SILENT
        if self.readable < READABLE:
            return Reading.GARBAGE
        return Reading.BOOT if self.mark else Reading.STRANGE

    @property
    def readable(self) -> float:
        """The share of characters that can be read, 0 to 1; 1 of nothing."""
        characters = _ESCAPES.sub("", self.data.decode("utf-8", "replace"))
        if not characters:
            return 1.0
        good = sum(1 for character in characters if character in _LAYOUT or (character.isprintable() and character != "\ufffd"))
        return good / len(characters)

    @property
    def mark(self) -> str:
        """The first line that only a booting machine says, empty where there is none."""
        return next((line.strip() for line in self.text.splitlines() if any(mark.search(line.strip()) for mark in MARKS)), "")

    def tail(self, lines: int = 12) -> tuple[str, ...]:
        """The last lines that are not empty, as evidence."""
        return tuple([line.rstrip() for line in self.text.splitlines() if line.strip()][-lines:])

    def says(self, pattern: str) -> bool:
        """True where a line matches the regular expression anywhere."""
        return any(re.search(pattern, line) for line in self.text.splitlines())

    def line(self, pattern: str) -> str:
        """The first line that matches the regular expression anywhere, empty where none does."""
        return next((line.strip() for line in self.text.splitlines() if re.search(pattern, line)), "")


class Console:
    """The console of one machine, read only."""

    def __init__(self, stream: Streams, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def drain(self) -> Transcript:
        """Everything that has come by now, without waiting. Raises what the lane raises."""
        chunks = []
        while (chunk := self._stream.read(Deadline(self._clock.now()))).data:
            chunks.append(chunk)
        return Transcript(tuple(chunks))


def _plain(text: str) -> str:
    bare = _ESCAPES.sub("", text)
    return "".join(character for character in bare if character in "\r\n\t" or character.isprintable()).replace("\r\n", "\n")
