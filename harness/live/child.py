"""A child process in a group of its own: started, fed and listened to, and ended with everything it started.

start ─> running ─ its output ends, it exits ─> dismissed
            │
            └─ time over, Ctrl-C, close ─> the whole group is killed, then dismissed
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.ports import OnLine

LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
"""What programs print must not depend on who runs them."""

_PIECE = 65536
_FAREWELL_SECONDS = 5.0
"""A killed process may hang in the kernel (a wedged GPU copy does); it is waited for this long and no longer."""

Sieve = Callable[[bytes], bytes]
"""Takes each piece as it comes and gives what of it belongs to the output; the empty piece is the end."""


def start(argv: Sequence[str], stdin: bytes = b"") -> subprocess.Popen[bytes]:
    """Start a program with pipes for its output, and for its input where there is any. Raises OSError."""
    return subprocess.Popen(  # noqa: S603 - running commands is what the command lanes are for
        argv,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, **LOCALE},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process that nobody has waited for yet: until then its number is nobody else's."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def dismiss(process: subprocess.Popen[bytes]) -> bool:
    """Kill the group unless the process was waited for, and let go of its pipes. True where it is gone."""
    kill(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_FAREWELL_SECONDS)
    return process.returncode is not None


def text(data: bytes | bytearray) -> str:
    """What a program printed, as the ports say it."""
    return data.decode("utf-8", "backslashreplace")


class Talk:
    """One process being fed and listened to, all three pipes at once, so that none can fill up and stop it.

    ``sieves`` take what is not the command's own out of output and errors as they come.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: bytes,
        clock: Clock,
        on_line: OnLine | None,
        sieves: tuple[Sieve, Sieve] = (bytes, bytes),
    ) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._process = process
        self._unsent = memoryview(stdin)
        self._clock = clock
        self._on_line = on_line
        self._sift_output, self._sift_errors = sieves
        self._told = 0

    def listen(self, deadline: Deadline) -> bool:
        """Until all output has ended and the process has exited: True; False when the deadline passed before."""
        process = self._process
        with selectors.DefaultSelector() as pipes:
            for pipe, event, take_turn in (
                (process.stdin, selectors.EVENT_WRITE, self._feed),
                (process.stdout, selectors.EVENT_READ, self._read_output),
                (process.stderr, selectors.EVENT_READ, self._read_errors),
            ):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    pipes.register(pipe, event, (pipe, take_turn))
            while pipes.get_map():
                if deadline.passed(self._clock):
                    return False
                for key, _ in pipes.select(deadline.left(self._clock)):
                    pipe, take_turn = key.data
                    if not take_turn(pipe.fileno()):
                        pipes.unregister(pipe)
                        pipe.close()
        if len(self.stdout) > self._told:
            self._tell(len(self.stdout))
        with suppress(subprocess.TimeoutExpired):
            process.wait(deadline.left(self._clock))
        return process.returncode is not None

    def last_seen(self) -> str:
        """The last line of the output, or of the errors where there is no output."""
        return text(self.stdout.rstrip().rpartition(b"\n")[2] or self.stderr.rstrip().rpartition(b"\n")[2])

    def _feed(self, pipe: int) -> bool:
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:_PIECE]) :]
        except BrokenPipeError:
            return False
        return bool(self._unsent)

    def _read_output(self, pipe: int) -> bool:
        piece = os.read(pipe, _PIECE)
        own = self._sift_output(piece)
        self.stdout += own
        if b"\n" in own:
            self._tell(self.stdout.rindex(b"\n"))
            self._told += 1
        return bool(piece)

    def _read_errors(self, pipe: int) -> bool:
        piece = os.read(pipe, _PIECE)
        self.stderr += self._sift_errors(piece)
        return bool(piece)

    def _tell(self, end: int) -> None:
        """Tell the lines between what was told and ``end``."""
        lines, self._told = self.stdout[self._told : end].split(b"\n"), end
        if self._on_line is not None:
            now = self._clock.now()
            for line in lines:
                self._on_line(text(line), now)
