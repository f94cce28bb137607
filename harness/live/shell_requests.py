"""Requests to the loop beyond a console: asked until the answer comes whole, and files by way of them.

say ─> exchange ─┬─ whole ──────────────── answer
                 ├─ damaged or silent ──── the same again, with a new number; files in smaller pieces
                 ├─ too often in a row ─── Unreachable
                 └─ a login prompt, a kernel that begins ── Unreachable

Every request may be made again: none changes what an earlier one did.
"""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.errors import Unreachable
from harness.live.shell_frames import UNIT, Frames, Reply, sha256
from harness.live.shell_login import is_lost, last_line
from harness.ports import Streams

_FAILURES = 12
_SILENCE_COUNTS = 3
"""Answers in a row that were damaged; one that did not come at all counts as three."""

_TALKING = 4.0
"""An answer takes this many times the patience at most, however much others talk."""

_LARGEST_UNITS = 32
_LARGEST_PIECE = 1536
"""Bytes of a file in one request: its line must stay below the 4095 characters that a terminal takes (termios(3))."""

_SMALLEST_PIECE = 48
_SMALL = 1024


class Requests:
    """One session with the loop: ``tag`` marks its answers, ``patience`` is in seconds.

    Raises Unreachable, and what the stream raises.
    """

    def __init__(self, stream: Streams, clock: Clock, tag: str, patience: float) -> None:
        self.tag = tag
        self.frames = Frames(tag)
        self.last = b""
        self._stream = stream
        self._clock = clock
        self._patience = patience
        self._number = 0
        self._failures = 0
        self._is_silent = False

    def request(self, verb: str, *arguments: str) -> bytes:
        """Ask until the answer comes whole. Every request may be made again: none changes what an earlier one did."""
        numbers: set[int] = set()
        while True:
            payload = self._attempt(verb, *arguments, numbers=numbers)
            if payload is not None:
                self._failures = 0
                return payload
            self._fail(verb)

    def _attempt(self, verb: str, *arguments: str, numbers: set[int] | None = None) -> bytes | None:
        """Ask once; None where nothing whole came. ``numbers`` are those of earlier attempts, whose late answers count too."""
        asked = set() if numbers is None else numbers
        asked.add(self.say(verb, *arguments))
        reply = self.exchange(asked)
        self._is_silent = reply is None
        if reply is None or reply.request != " ".join((verb, *arguments[:3])):
            return None
        return reply.payload

    def say(self, verb: str, *arguments: str) -> int:
        """Send a request and return its number."""
        self._number += 1
        flush = "\n" if self._failures else ""  # a request that lost its newline is ended before the next
        self._stream.write(f"{flush}{' '.join((verb, str(self._number), *arguments))}\n".encode("ascii"))
        return self._number

    def exchange(self, numbers: set[int]) -> Reply | None:
        """The next reply to one of ``numbers``; None after silence, or when others have talked for long."""
        deadline = Deadline.after(self._clock, _TALKING * self._patience)
        while not deadline.passed(self._clock):
            chunk = self._stream.read(Deadline.after(self._clock, self._patience))
            if not chunk.data:
                break
            self.last = (self.last + chunk.data)[-_SMALL:]
            for reply in self.frames.feed(chunk.data):
                if reply.number in numbers:
                    return reply
            self._insist_on_session(self.frames.raw if b"\n" in chunk.data else b"")
        self._insist_on_session(self.frames.raw)
        self.frames.drop()
        return None

    def _insist_on_session(self, said: bytes) -> None:
        if said and is_lost(said):
            self.frames.drop()
            last = last_line(said)
            raise Unreachable(f"the session on the console is over: the host restarted or logged out; last seen: {last!r}")

    def _fail(self, verb: str) -> None:
        """Count what did not come whole in a row. Raises Unreachable where it is too much."""
        self._failures += _SILENCE_COUNTS if self._is_silent else 1
        if self._failures > _FAILURES:
            self._failures = 0
            last = last_line(self.last)
            raise Unreachable(f"the console gives no whole answer ({verb}); last seen: {last!r}")

    def upload(self, name: str, data: bytes) -> None:
        """Write a file there, piece by piece; each is acknowledged before the next is sent, which is all the pacing there is.

        The loop answers with the file's size, so a piece whose acknowledgement was lost is not written twice.
        """
        done, piece = 0, _LARGEST_PIECE
        while done < len(data):
            part = data[done : done + piece]
            size = _number(self._attempt("u", name, str(done), sha256(part), base64.b64encode(part).decode()))
            if size is not None and size > done:
                done, self._failures = size, 0
                piece = min(_LARGEST_PIECE, 2 * piece)
            else:
                piece = max(_SMALLEST_PIECE, piece // 2)
                self._fail("u")

    def rest(self, name: str, begin: int) -> bytes:
        """A file from ``begin`` on, packed where that is shorter; what comes is what was there, or Unreachable."""
        digest, size, packed = words(self.request("z", name, str(begin)))
        if not size.isdigit():
            raise Unreachable(f"the file {name} is gone from the host")
        plain = f"{name}.z{begin}"
        if packed.isdigit() and int(size) > _SMALL and int(packed) < int(size):
            with suppress(zlib.error):
                data = zlib.decompress(self.read(f"{plain}.gz", 0, int(packed)), wbits=31)
                if sha256(data) == digest:
                    return data
        data = self.read(plain, 0, int(size))
        if sha256(data) != digest:
            raise Unreachable(f"the file {name} came over the console with a wrong checksum")
        return data

    def read(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from ``begin`` to ``end``, in blocks that grow smaller where they are damaged."""
        first = begin // UNIT
        begin, end = begin - first * UNIT, end - first * UNIT
        data, units = b"", _LARGEST_UNITS
        while len(data) < end:
            wanted = min(units * UNIT, end - len(data))
            block = self._attempt("b", name, str(first + len(data) // UNIT), str(-(-wanted // UNIT)))
            if block is None or len(block) < wanted:
                units = max(1, units // 2)
                self._fail("b")
            else:
                units, self._failures = min(_LARGEST_UNITS, units + 1), 0
                data += block[:wanted]
        return data[begin:end]


def words(payload: bytes) -> tuple[str, str, str]:
    """The three words of an answer, empty where there are fewer."""
    first, second, third, *_ = (*payload.decode("ascii", "replace").split(), "", "", "")
    return first, second, third


def _number(payload: bytes | None) -> int | None:
    text = b"" if payload is None else payload.strip()
    return int(text) if text.isdigit() else None
