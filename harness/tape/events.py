"""What a tape holds: events, as facts.

    Event
    ├─ Exchange    a question and its reply
    │              ├─ HttpReply
    │              ├─ CommandReply
    │              └─ Failure        what the port raised instead
    └─ Traffic     bytes of a stream, or a Failure

Times are seconds of the track's own stopwatch. How an event is written down is in lines.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from harness.errors import AuthRefused, BenchError, Timeout, Unreachable, Untrusted
from harness.ports import Effect, Json

REDACTED = "<redacted>"
"""Stands for a secret; in a comparison it stands for any text."""

VOLATILE = "<volatile>"
"""Stands for a value that differs from run to run and is never compared."""

RUN, RECEIVED, SENT = "run", "rx", "tx"
"""The ``op`` of a command and of the two directions of a stream; an HTTP exchange has its method there."""

PLAIN_ERRORS: dict[str, type[BenchError]] = {kind.__name__: kind for kind in (Unreachable, Untrusted, AuthRefused, BenchError)}
"""What a port may raise, by name, but for Timeout, which holds more than a text."""


@dataclass(frozen=True)
class BodyFile:
    """A payload that lies in a file of its own; ``name`` is relative to the tape's folder."""

    name: str


Payload: TypeAlias = Json | BodyFile


@dataclass(frozen=True)
class HttpReply:
    """An HTTP answer; ``body`` is None where there was none."""

    status: int
    headers: Mapping[str, str]
    body: Payload


Lines: TypeAlias = tuple[tuple[float, int | str], ...]
"""When a command's lines came, in seconds after asking: how many lines of stdout at a time, or a text that is not in stdout."""


@dataclass(frozen=True)
class CommandReply:
    """A command's answer; ``lines`` is None where nobody listened to the lines."""

    status: int
    stdout: Payload
    stderr: Payload
    lines: Lines | None = None


@dataclass(frozen=True)
class Failure:
    """What a port raised instead of answering: part of a passing run too, as when an iDRAC restarts in the middle of a job."""

    kind: str
    text: str
    seconds: float = 0.0
    last: Json = None

    def error(self) -> BenchError:
        """The exception, as it was."""
        if self.kind == Timeout.__name__:
            return Timeout(self.text, self.seconds, self.last)
        return PLAIN_ERRORS[self.kind](self.text)


Reply: TypeAlias = HttpReply | CommandReply | Failure


@dataclass(frozen=True)
class Exchange:
    """A question and what came of it. ``ask`` is the payload of the question, None where it has none."""

    t: float
    lane: str
    op: str
    key: str
    effect: Effect
    ask: Payload
    took: float
    reply: Reply

    @property
    def is_write(self) -> bool:
        """True for what changes the machine."""
        return self.effect is Effect.ACT


@dataclass(frozen=True)
class Traffic:
    """Bytes that came from (``rx``) or went to (``tx``) a stream, or what the port raised instead."""

    t: float
    lane: str
    op: str
    data: bytes
    took: float = 0.0
    failure: Failure | None = None

    @property
    def is_write(self) -> bool:
        """True for what was sent: always an act."""
        return self.op == SENT


Event: TypeAlias = Exchange | Traffic


def failure_of(error: BenchError) -> Failure:
    """What to record of an exception that a port raised."""
    if isinstance(error, Timeout):
        last = error.last if _is_json(error.last) else repr(error.last)
        return Failure(Timeout.__name__, error.what, error.seconds, last)
    kind = next(name for name, known in PLAIN_ERRORS.items() if isinstance(error, known))
    return Failure(kind, str(error))


def describe(event: Event) -> str:
    """Name an event for a person: lane, operation and key."""
    return f"{event.lane} {event.op} {event.key}" if isinstance(event, Exchange) else f"{event.lane} {event.op}"


def lines_of(printed: str) -> list[str]:
    """The lines of a command's output, without their newlines; the last one may lack its newline."""
    lines = printed.split("\n")
    return lines if lines[-1] else lines[:-1]


def seconds(value: float) -> float:
    """Round a time to what a tape keeps; never minus zero."""
    return round(value, 3) + 0.0


def text_of(value: Json) -> str:
    """Write a JSON value on one line, escaping only what UTF-8 cannot carry."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _is_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
