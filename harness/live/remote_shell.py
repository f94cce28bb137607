"""One command for whatever shell is at the other end of a line, and what the command itself wrote there.

    exec /bin/sh -c 'eval "$(printf %b "...")"'         what the login shell sees: nothing that any shell reads differently

    noise ─ mark PID ─ output of the command ─ mark STATUS        on each of stdout and stderr

What a login shell's start-up files print comes before the first mark and is dropped. An answer is whole where both streams have
their second mark, so an exit status 255 of the command is never taken for one of ssh, and output cut off by a lost connection
never for an answer.
"""

from __future__ import annotations

import shlex
import string
from collections.abc import Sequence

START_OF_MARK = b"\x1e"
"""ASCII's record separator, which programs do not print."""

_PLAIN = frozenset((string.ascii_letters + string.digits + " _./:=,@%+-").encode())
"""Bytes that mean themselves between quotes in sh, csh and fish alike; of the others, newline, backslash and ! do not."""

_FRAMED = """\
printf '\\036%s %s\\n' {mark} "$$"
printf '\\036%s %s\\n' {mark} "$$" >&2
{{ export LANG=C.UTF-8 LC_ALL=C.UTF-8; }} 2>/dev/null
( exec {command} )
status=$?
printf '\\036%s %s\\n' {mark} "$status"
printf '\\036%s %s\\n' {mark} "$status" >&2
exit "$status"
"""
"""``exec`` runs the program of that name, never the shell's own ``echo`` or ``kill``, which behave in other ways."""


def framed(argv: Sequence[str], mark: str) -> str:
    """The line that runs ``argv`` exactly as it is between two marks; the first bears the number of its process group."""
    return _encode(_FRAMED.format(mark=mark, command=shlex.join(argv)))


def killing(group: int) -> str:
    """The line that kills a framed command with everything it started. A group is sshd's session: it has its shell's number.

    ``kill -KILL -- -GROUP`` would be clearer, but dash and busybox do not understand it.
    """
    return _encode(f"kill -KILL -{group} 2>/dev/null || kill -KILL {group}")


def _encode(script: str) -> str:
    data = script.encode("utf-8", "surrogateescape")
    coded = "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in data)
    return f'exec /bin/sh -c \'eval "$(printf %b "{coded}")"\''


class Frame:
    """One stream of a framed command, read piece by piece."""

    def __init__(self, mark: str) -> None:
        self.noise = bytearray()
        self.group: int | None = None
        self.status: int | None = None
        self._mark = START_OF_MARK + mark.encode() + b" "
        self._held = bytearray()

    def take(self, piece: bytes) -> bytes:
        """What of the stream is the command's output, as far as it is known with this piece; the empty piece is the end."""
        self._held += piece
        own = bytearray()
        while (at := self._held.find(self._mark)) >= 0 and (end := self._held.find(b"\n", at)) >= 0:
            number = int(self._held[at + len(self._mark) : end])
            own += self._release(at)
            del self._held[: end + 1 - at]
            if self.group is None:
                self.group = number
            else:
                self.status = number
        if at < 0:
            own += self._release(len(self._held) - (self._started_mark() if piece else 0))
        return bytes(own)

    def _release(self, count: int) -> bytes:
        """Take ``count`` bytes from those held: noise before the first mark, the command's own after it."""
        released = bytes(self._held[:count])
        del self._held[:count]
        if self.group is None:
            self.noise += released
            return b""
        return released

    def _started_mark(self) -> int:
        """How many bytes at the end may be the beginning of a mark."""
        at = self._held.rfind(START_OF_MARK)
        return len(self._held) - at if at >= 0 and self._mark.startswith(self._held[at:]) else 0
