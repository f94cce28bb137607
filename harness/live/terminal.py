"""A serial console behind a command: ``ssh -e none idrac console com2``, ``ipmitool -I lanplus ... sol activate``.

The command gets a terminal of its own (raw: nothing is echoed or changed on the way) and a process group of its own; there is
no shell in between.

closed ── first read or write ──> running ── it ends ──> gone: its last words are read first, then Unreachable
                                     └── close(): SIGTERM to the group (SOL wants to say goodbye), then SIGKILL
"""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import tty
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.errors import Timeout, Unreachable, UsageMistake
from harness.live.intake import Intake, fetch_from, paced, write_all
from harness.ports import Chunk

GRACE_SECONDS = 2.0
"""How long a command has to end by itself: a serial-over-LAN session that is cut off stays active and blocks the next one."""

_REAPING_SECONDS = 5.0


class CommandStream:
    """A command's terminal as Streams. ``pace`` limits what is written, in bytes a second; 0 does not.

    Started at the first use. Raises Unreachable where the command cannot be started or has ended, UsageMistake for a command that
    cannot be meant, Timeout where it takes nothing.
    """

    def __init__(self, command: str, clock: Clock, *, pace: float = 0.0) -> None:
        self._command = command
        self._clock = clock
        self._pace = pace
        self._process: subprocess.Popen[bytes] | None = None
        self._handle = -1
        self._intake: Intake | None = None
        self._is_closed = False

    def read(self, deadline: Deadline) -> Chunk:
        return self._started().take(deadline)

    def write(self, data: bytes) -> None:
        intake = self._started()
        intake.insist()
        paced(data, self._pace, lambda piece: self._write(piece, intake), self._clock)

    def close(self) -> None:
        """End the command with everything it started, and the thread. Closing twice is harmless."""
        self._is_closed = True
        process, self._process = self._process, None
        intake, self._intake = self._intake, None
        if process is not None:
            self._end(process)
        if intake is not None:
            intake.stop()
            os.close(self._handle)

    def _started(self) -> Intake:
        if self._is_closed:
            raise Unreachable(f"console command {self._command!r}: it was closed")
        if self._intake is None:
            self._process, self._handle = _start(self._command)
            self._intake = Intake(f"console command {self._command!r}", self._clock, self._fetch)
            self._intake.start()
        return self._intake

    def _fetch(self) -> bytes:
        """What the terminal says. A terminal without a process on it gives EIO; one that a grandchild keeps gives nothing."""
        try:
            data = fetch_from(self._handle)
        except OSError:
            raise Unreachable(self._why_ended()) from None
        if not data and self._process is not None and _has_ended(self._process):
            raise Unreachable(self._why_ended())
        return data

    def _why_ended(self) -> str:
        process = self._process
        if process is None:
            return "it was closed"
        with suppress(Timeout):
            self._clock.until(lambda: _has_ended(process), bool, what=self._command, every=0.02, within=GRACE_SECONDS)
            return _fate(process)
        return "it let go of its terminal"

    def _write(self, data: bytes, intake: Intake) -> None:
        write_all(self._handle, data, self._clock, f"console command {self._command!r}", intake.last_seen)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(Timeout):
                self._clock.until(lambda: _has_ended(process), bool, what=self._command, every=0.02, within=GRACE_SECONDS)
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAPING_SECONDS)


def _start(command: str) -> tuple[subprocess.Popen[bytes], int]:
    """The process and the near end of its terminal."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageMistake(f"console command {command!r}: {error}") from None
    if not words or "\0" in command:
        raise UsageMistake(f"console command {command!r}: a command is a program and its arguments")
    near, far = pty.openpty()
    try:
        tty.setraw(far)
        process = subprocess.Popen(words, stdin=far, stdout=far, stderr=far, bufsize=0, start_new_session=True)  # noqa: S603
    except OSError as error:
        os.close(near)
        why = "command not found" if isinstance(error, FileNotFoundError) else error.strerror
        raise Unreachable(f"console command {command!r}: {words[0]} cannot be started: {why}") from None
    finally:
        os.close(far)
    os.set_blocking(near, False)
    return process, near


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return bool(_fate(process))


def _fate(process: subprocess.Popen[bytes]) -> str:
    """How the process itself ended, empty while it runs. It is left to be waited for: until then its number is nobody else's."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return "it ended"
    if ended is None:
        return ""
    return (
        f"it ended with exit status {ended.si_status}" if ended.si_code == os.CLD_EXITED else f"signal {ended.si_status} ended it"
    )
