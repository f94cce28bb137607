"""Commands on this very machine, without a shell.

start ─> running ─ its output ends, it exits ─> answer
            │
            └─ time over, Ctrl-C, close ─> the whole process group is killed
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.errors import Timeout, UsageMistake
from harness.ports import CommandAnswer, CommandQuestion, OnLine

NOT_EXECUTABLE = 126
NOT_FOUND = 127
BY_SIGNAL = 128
"""Exit statuses as a shell gives them: a program that cannot be run, one that does not exist, and 128 + signal."""

LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
"""What programs print must not depend on who runs them."""

_PIECE = 65536
_FAREWELL_SECONDS = 5.0
"""A killed process may hang in the kernel (a wedged GPU copy does); it is waited for this long and no longer."""


class LocalCommands:
    """The command lane of the machine that the harness itself runs on.

    Raises Timeout with the last output line seen, after the process group was killed; UsageMistake for a command that cannot be
    meant. A program that is missing or cannot be run is an answer, with the status that a shell would give.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: list[subprocess.Popen[bytes]] = []

    def ask(self, question: CommandQuestion, on_line: OnLine | None = None) -> CommandAnswer:
        if not question.argv or any("\0" in word for word in question.argv):
            raise UsageMistake(f"{question.key!r}: a command is a program and its arguments, without NUL characters")
        started = self._clock.now()
        try:
            process = _start(question)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            ended = self._clock.now()
            why = f"{question.argv[0]}: {'command not found' if missing else error.strerror}\n"
            return CommandAnswer(NOT_FOUND if missing else NOT_EXECUTABLE, "", why, ended, ended - started)
        self._running.append(process)
        talk = _Talk(process, question.stdin, self._clock, on_line)
        try:
            finished = talk.listen(Deadline.after(self._clock, question.timeout))
        finally:
            self._end(process)
        if not finished:
            raise Timeout(question.key, question.timeout, talk.last_seen())
        ended = self._clock.now()
        status = process.returncode if process.returncode >= 0 else BY_SIGNAL - process.returncode
        return CommandAnswer(status, _text(talk.stdout), _text(talk.stderr), ended, ended - started)

    def close(self) -> None:
        """Kill what still runs."""
        for process in tuple(self._running):
            _kill(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group unless the process was waited for, and let go of its pipes."""
        _kill(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_FAREWELL_SECONDS)
            self._running.remove(process)


class _Talk:
    """One process being fed and listened to, all three pipes at once, so that none can fill up and stop it."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, clock: Clock, on_line: OnLine | None) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._process = process
        self._unsent = memoryview(stdin)
        self._clock = clock
        self._on_line = on_line
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
        return _text(self.stdout.rstrip().rpartition(b"\n")[2] or self.stderr.rstrip().rpartition(b"\n")[2])

    def _feed(self, pipe: int) -> bool:
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:_PIECE]) :]
        except BrokenPipeError:
            return False
        return bool(self._unsent)

    def _read_output(self, pipe: int) -> bool:
        piece = os.read(pipe, _PIECE)
        self.stdout += piece
        if b"\n" in piece:
            self._tell(self.stdout.rindex(b"\n"))
            self._told += 1
        return bool(piece)

    def _read_errors(self, pipe: int) -> bool:
        piece = os.read(pipe, _PIECE)
        self.stderr += piece
        return bool(piece)

    def _tell(self, end: int) -> None:
        """Tell the lines between what was told and ``end``."""
        lines, self._told = self.stdout[self._told : end].split(b"\n"), end
        if self._on_line is not None:
            now = self._clock.now()
            for line in lines:
                self._on_line(_text(line), now)


def _start(question: CommandQuestion) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - running commands is what this lane is for
        question.argv,
        stdin=subprocess.PIPE if question.stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, **LOCALE},
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process that nobody has waited for yet: until then its number is nobody else's."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")
