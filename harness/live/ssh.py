"""Commands on another machine, over the OpenSSH client with the user's own configuration.

ask ─ connected? ─ no ─▶ open ─▶ Untrusted, AuthRefused (for good), Unreachable: nothing was run
            │ yes           │
            ▼◀──────────────┘
         command ─ both streams whole ─▶ answer
            ├─ time over, Ctrl-C, a listener fails ─▶ killed there and here; Timeout
            └─ broken off ─▶ Unreachable, saying whether it had begun; the next ask connects anew
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence

from harness.clock import Clock, Deadline
from harness.errors import AuthRefused, BringupError, Timeout, Unreachable, UsageMistake
from harness.live.child import Talk, dismiss, kill, start, text
from harness.live.remote_shell import Frame, framed, killing
from harness.live.ssh_connection import Connection
from harness.ports import CommandAnswer, CommandQuestion, OnLine

_SSH_FAILED = 255
_KILLING_SECONDS = 5.0
_LONGEST_COMMAND = 120_000
"""Bytes of a coded command; one word of a command line has 128 KiB at most (execve(2))."""


class SshCommands:
    """The command lane of ``address``: ``user@host`` or an alias; ``options`` go to ssh as they are, such as ``("-p", "2222")``.

    Raises UsageMistake for an address or a command that cannot be meant, Untrusted, AuthRefused (once refused, no second attempt is
    made), Unreachable, and Timeout with the last output line seen. No command is ever sent twice. A program that is missing is an
    answer, with the status that a shell gives, and so is death by a signal (128 + its number).
    """

    def __init__(self, address: str, clock: Clock, *, options: Sequence[str] = ()) -> None:
        self._clock = clock
        self._connection = Connection(address, options, clock)
        self._running: list[subprocess.Popen[bytes]] = []
        self._refused = ""

    def ask(self, question: CommandQuestion, on_line: OnLine | None = None) -> CommandAnswer:
        mark = secrets.token_hex(16)
        command = _command(question, mark)
        started = self._clock.now()
        deadline = Deadline.after(self._clock, question.timeout)
        self._connect(deadline)
        output, errors = Frame(mark), Frame(mark)
        process = start(self._connection.client(command), question.stdin)
        self._running.append(process)
        talk = Talk(process, question.stdin, self._clock, on_line, (output.take, errors.take))
        finished = False
        try:
            finished = talk.listen(deadline)
        finally:
            if not finished:
                self._kill_there(output.group)
            if dismiss(process):
                self._running.remove(process)
        if not finished:
            raise Timeout(question.key, question.timeout, talk.last_seen())
        if output.status is None or errors.status is None:
            raise self._lost(question, process.returncode, output, errors)
        ended = self._clock.now()
        return CommandAnswer(output.status, text(talk.stdout), text(talk.stderr), ended, ended - started)

    def close(self) -> None:
        """End what still runs and the connection, and leave nothing behind."""
        for process in tuple(self._running):
            kill(process)
        self._connection.close()

    def _connect(self, deadline: Deadline) -> None:
        if self._refused:
            raise AuthRefused(self._refused)
        if self._connection.is_open:
            return
        try:
            self._connection.open(deadline)
        except AuthRefused as error:
            self._refused = str(error)
            raise

    def _kill_there(self, group: int | None) -> None:
        """End the command at the other end; where that cannot be done in time, or it was not seen to begin, end the connection."""
        done = False
        if group is not None:
            process = start(self._connection.client(killing(group)))
            self._running.append(process)
            try:
                done = Talk(process, b"", self._clock, None).listen(Deadline.after(self._clock, _KILLING_SECONDS))
            finally:
                if dismiss(process):
                    self._running.remove(process)
            done = done and process.returncode != _SSH_FAILED
        if not done:
            self._connection.drop()

    def _lost(self, question: CommandQuestion, status: int, output: Frame, errors: Frame) -> BringupError:
        """Why there is no whole answer, and what may have happened to the command."""
        address, reason, not_run = self._connection.address, self._connection.reason(), self._connection.not_run()
        self._connection.drop()
        if output.group is not None or errors.group is not None:
            fate = "it had begun, and whether it finished is not known"
            return Unreachable(f"{question.key}: the connection to {address} was lost: {reason}; {fate}")
        if not_run:
            return Unreachable(f"{question.key}: no session on {address}: {not_run}; it was not run")
        if status != _SSH_FAILED:
            said = text(output.noise + errors.noise).strip().splitlines()
            why = f": {said[-1]}" if said else ""
            return Unreachable(f"{question.key}: {address} let us in but ran no shell command (exit status {status}{why})")
        return Unreachable(f"{question.key}: the connection to {address} was lost: {reason}; it may have begun")


def _command(question: CommandQuestion, mark: str) -> str:
    """The line for the shell at the other end. Raises UsageMistake for a command that cannot be meant."""
    argv = question.argv
    if not argv or any("\0" in word for word in argv):
        raise UsageMistake(f"{question.key!r}: a command is a program and its arguments, without NUL characters")
    if argv[0].startswith("-"):
        raise UsageMistake(f"{question.key!r}: {argv[0]!r} is no program: its name begins with a dash")
    command = framed(argv, mark)
    if len(command) > _LONGEST_COMMAND:
        raise UsageMistake(f"{question.key[:80]!r}: {len(command)} bytes are too long for a command line; send the data on stdin")
    return command
