"""Child processes that may hang: the driver is only called in one, and the parent never waits longer than it said.

    parent ── {"do": ...} ─▶ child          one JSON object a line, each way
           ◀─ {"say": ...} ──               alive... then done, or stuck | shut | failed | trouble, after which the child ends

A child that says nothing for its patience is killed. One that stays after SIGKILL hangs in the driver: only a reboot helps.
The parent must not have called the driver before it forks; here it never does.
"""

import contextlib
import json
import os
import select
import signal
import sys
from typing import Any, Callable, Dict, Iterator, List

from .clock import now, sleep
from .trouble import Trouble

_REAP = 5.0
Say = Callable[..., None]
Serve = Callable[["Commands", Say], None]


class Silent(Exception):
    """The child said nothing in time, or ended without a word."""


class Commands:
    """What the parent asks for, one object after the other, as the child reads it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        rest = b""
        while True:
            piece = os.read(self._descriptor, 1 << 16)
            if not piece:
                return
            rest += piece
            while b"\n" in rest:
                line, rest = rest.split(b"\n", 1)
                yield json.loads(line.decode())

    def waiting(self) -> bool:
        """Is there a command, or nobody who could still give one?"""
        return bool(select.select([self._descriptor], [], [], 0)[0])


class Child:
    """One process that runs ``serve(commands, say)``."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._pid = 0
        self._to = self._from = -1
        self._rest = b""

    def start(self) -> None:
        """Fork."""
        (theirs_in, self._to), (self._from, theirs_out) = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid:
            os.close(theirs_in)
            os.close(theirs_out)
            return
        os.close(self._to)
        os.close(self._from)
        _live(self._serve, theirs_in, theirs_out)

    def send(self, **command: Any) -> None:
        """Give a command. A child that is gone already may have left a word, which ``next`` reads; else that says so."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._to, json.dumps(command).encode() + b"\n")

    def next(self, patience: float) -> Dict[str, Any]:
        """The next line. Raises Silent, Trouble where the child says that it cannot do its work."""
        deadline = now() + patience
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - now()))
            piece = os.read(self._from, 1 << 16) if ready else b""
            if not piece:
                raise Silent("the child ended" if ready else "the child said nothing for {:g} s".format(patience))
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        said: Dict[str, Any] = json.loads(line.decode())
        if said["say"] == "trouble":
            raise Trouble(said["what"], said["why"], said["do"])
        return said

    def waiting(self) -> List[Dict[str, Any]]:
        """The lines that are there already."""
        found: List[Dict[str, Any]] = []
        while self._pid and (b"\n" in self._rest or select.select([self._from], [], [], 0)[0]):
            try:
                found.append(self.next(1.0))
            except Silent:
                break
        return found

    def end(self) -> bool:
        """Kill the process. False where it cannot be reaped."""
        if not self._pid:
            return True
        reaped = _reap(self._pid)
        for descriptor in (self._to, self._from):
            os.close(descriptor)
        self._pid, self._to, self._from, self._rest = 0, -1, -1, b""
        return reaped

    @property
    def lives(self) -> bool:
        """Was it started, and not ended yet?"""
        return bool(self._pid)


def _reap(pid: int) -> bool:
    os.kill(pid, signal.SIGKILL)
    deadline = now() + _REAP
    while now() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        sleep(0.01)
    return False


def _live(serve: Serve, commands: int, out: int) -> None:
    """The child's whole life; it never returns, and prints nothing among the parent's lines."""
    status = 1
    try:
        # Ctrl-C reaches the whole group; the parent decides what becomes of its children
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)

        def say(word: str, **fields: Any) -> None:
            os.write(out, json.dumps(dict(fields, say=word)).encode() + b"\n")

        try:
            serve(Commands(commands), say)
            status = 0
        except Trouble as trouble:
            say("trouble", what=trouble.what, why=trouble.why, do=trouble.do)
        except Exception as error:
            say("trouble", what="p2p", why="{}: {}".format(type(error).__name__, error), do="report this as a fault of the harness")
    finally:
        # no clean-up of the interpreter: it could wait for the driver
        os._exit(status)


def end_orderly() -> None:
    """Let SIGTERM and SIGHUP (a lost ssh connection) run the ``finally`` blocks, so that no child stays."""

    def leave(number: int, _frame: Any) -> None:
        sys.exit(128 + number)

    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, leave)
