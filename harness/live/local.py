"""Commands on this very machine, without a shell."""

from __future__ import annotations

import subprocess

from harness.clock import Clock, Deadline
from harness.errors import Timeout, UsageMistake
from harness.live.child import Talk, dismiss, kill, start, text
from harness.ports import CommandAnswer, CommandQuestion, OnLine

NOT_EXECUTABLE = 126
NOT_FOUND = 127
BY_SIGNAL = 128
"""Exit statuses as a shell gives them: a program that cannot be run, one that does not exist, and 128 + signal."""


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
            process = start(question.argv, question.stdin)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            ended = self._clock.now()
            why = f"{question.argv[0]}: {'command not found' if missing else error.strerror}\n"
            return CommandAnswer(NOT_FOUND if missing else NOT_EXECUTABLE, "", why, ended, ended - started)
        self._running.append(process)
        talk = Talk(process, question.stdin, self._clock, on_line)
        try:
            finished = talk.listen(Deadline.after(self._clock, question.timeout))
        finally:
            if dismiss(process):
                self._running.remove(process)
        if not finished:
            raise Timeout(question.key, question.timeout, talk.last_seen())
        ended = self._clock.now()
        status = process.returncode if process.returncode >= 0 else BY_SIGNAL - process.returncode
        return CommandAnswer(status, text(talk.stdout), text(talk.stderr), ended, ended - started)

    def close(self) -> None:
        """Kill what still runs."""
        for process in tuple(self._running):
            kill(process)
