"""The two seams between devices and the world: answers and streams.

Everything a machine says is an answer to a question (HTTP, a command) or bytes on a stream (a console). Each protocol has
a live, a recording and a replaying implementation, and all three pass the same contract tests.

The caller says what a question does, by meaning: ``observe`` reads, ``act`` changes. Some reads are POSTs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar

from harness.clock import Deadline

Json: TypeAlias = Any
"""A JSON value as ``json.loads`` gives it."""

OnLine: TypeAlias = Callable[[str, float], None]
"""Called with each output line of a command, without its newline, and the clock's time when it came."""


class Effect(StrEnum):
    """What a question does to the machine."""

    OBSERVE = "observe"
    ACT = "act"


@dataclass(frozen=True)
class HttpQuestion:
    """One HTTP request to a lane's service.

    ``path`` begins with a slash; the lane knows the host. ``volatile`` names top-level keys of ``body`` that differ from
    run to run and are left out when a replay compares writes. ``timeout`` is in seconds.
    """

    effect: Effect
    method: str
    path: str
    body: Json | None = None
    volatile: frozenset[str] = frozenset()
    timeout: float = 30.0

    @classmethod
    def observe(cls, method: str, path: str, body: Json | None = None, *, timeout: float = 30.0) -> HttpQuestion:
        """A request that only reads, whatever its method."""
        return cls(Effect.OBSERVE, method, path, body, timeout=timeout)

    @classmethod
    def act(
        cls,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        volatile: Sequence[str] = (),
        timeout: float = 30.0,
    ) -> HttpQuestion:
        """A request that changes the machine."""
        return cls(Effect.ACT, method, path, body, frozenset(volatile), timeout)

    @property
    def key(self) -> str:
        """What a tape calls the question, e.g. ``GET /redfish/v1/Systems``."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class HttpAnswer:
    """The answer to one HTTP request, error statuses included.

    ``headers`` have lower-case names. ``body`` is the parsed JSON, a string where it is not JSON, None where there is
    none. ``at`` is the clock's time when the answer was complete, ``took`` the seconds since the question.
    """

    status: int
    headers: Mapping[str, str]
    body: Json | None
    at: float
    took: float


@dataclass(frozen=True)
class CommandQuestion:
    """One command on a host.

    ``name`` is what a tape calls it; by default the quoted ``argv``. Give a name where ``argv`` or ``stdin`` differ from
    run to run (an agent's payload): a named command is compared by its name alone.
    """

    effect: Effect
    argv: tuple[str, ...]
    stdin: bytes = b""
    name: str = ""
    timeout: float = 60.0

    @classmethod
    def observe(cls, *argv: str, stdin: bytes = b"", name: str = "", timeout: float = 60.0) -> CommandQuestion:
        """A command that only reads."""
        return cls(Effect.OBSERVE, argv, stdin, name, timeout)

    @classmethod
    def act(cls, *argv: str, stdin: bytes = b"", name: str = "", timeout: float = 60.0) -> CommandQuestion:
        """A command that changes the machine."""
        return cls(Effect.ACT, argv, stdin, name, timeout)

    @property
    def key(self) -> str:
        """What a tape calls the question."""
        return self.name or shlex.join(self.argv)


@dataclass(frozen=True)
class CommandAnswer:
    """What a command printed and how it ended; texts are UTF-8 with undecodable bytes as backslash escapes."""

    status: int
    stdout: str
    stderr: str
    at: float
    took: float


@dataclass(frozen=True)
class Chunk:
    """Bytes that came on a stream, and the clock's time when the first of them came. Empty: the deadline passed."""

    data: bytes
    at: float


Question: TypeAlias = HttpQuestion | CommandQuestion
Answer: TypeAlias = HttpAnswer | CommandAnswer
Q_contra = TypeVar("Q_contra", HttpQuestion, CommandQuestion, contravariant=True)
A_co = TypeVar("A_co", HttpAnswer, CommandAnswer, covariant=True)


class Asks(Protocol[Q_contra, A_co]):
    """A lane of questions and answers.

    ``ask`` raises Unreachable, Untrusted, AuthRefused or Timeout; an HTTP error status or a non-zero exit status is an
    answer, not an exception.
    """

    def ask(self, question: Q_contra, on_line: OnLine | None = None) -> A_co:
        """Ask, wait for the whole answer and return it."""

    def close(self) -> None:
        """End what the lane holds open (a session, a connection). Closing twice is harmless."""


HttpAsks: TypeAlias = Asks[HttpQuestion, HttpAnswer]
CommandAsks: TypeAlias = Asks[CommandQuestion, CommandAnswer]


class Streams(Protocol):
    """A lane of bytes, such as a serial console."""

    def read(self, deadline: Deadline) -> Chunk:
        """Return what has come, waiting for the first byte until ``deadline`` at most."""

    def write(self, data: bytes) -> None:
        """Send ``data``; always an act."""

    def close(self) -> None:
        """Let go of the stream. Closing twice is harmless."""


@dataclass(frozen=True)
class Lanes:
    """The open lanes of one bench; None where the bench has no such endpoint.

    ``loose_ends`` say, once the lanes are closed, what they may have left on the machine ("" for nothing). ``bmc_user`` is who is
    logged in at the BMC, empty where nobody is or that is not told.
    """

    bmc: HttpAsks | None = None
    host: CommandAsks | None = None
    console: Streams | None = None
    fabric: HttpAsks | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    loose_ends: tuple[Callable[[], str], ...] = ()
    bmc_user: str = ""

    def close(self) -> None:
        """Close every lane, the console last, whatever the others do."""
        for lane in (self.fabric, self.host, self.bmc, self.console):
            if lane is not None:
                lane.close()
