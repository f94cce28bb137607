"""The grammar of a tape: what one line of a track says.

    track     = { event newline }
    event     = exchange | traffic
    exchange  = t lane op key effect [ask] took reply       a question and its answer
    reply     = status headers [body]                       HTTP
              | status stdout [stderr] [lines]              a command; lines = [[seconds after asking, how many | text], ...]
              | error                                       what the port raised: kind text [seconds last]
    traffic   = t lane "rx" data | t lane "tx" took data     bytes of a stream; data = text | {"b64": ...} | error

An event is a JSON object on one line with its keys in this order. ``t`` is when the question was asked or the bytes came, in
seconds of the track's own stopwatch, ``took`` how long the answer needed; both have three decimals. A payload above 2 kB lies in
a file of its own and the event names it: ``"body_in": "bodies/bmc-redfish-v1-Systems@2.json"`` in place of ``"body": ...``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from harness.errors import TapeError, Timeout
from harness.ports import Effect, Json
from harness.tape.events import (
    PLAIN_ERRORS,
    RECEIVED,
    RUN,
    SENT,
    BodyFile,
    CommandReply,
    Event,
    Exchange,
    Failure,
    HttpReply,
    Lines,
    Payload,
    Reply,
    Traffic,
    seconds,
    text_of,
)

Store: TypeAlias = Callable[[str, Json], Payload]
"""Given a slug and a payload, returns the payload itself or the file that it was put into."""

Load: TypeAlias = Callable[[BodyFile, str], Json]
"""Given a body and the line that names it, returns the payload; raises TapeError where it is missing or damaged."""


def encode(event: Event, store: Store, slug: str) -> str:
    """Write an event as one line, without its newline. Large payloads go through ``store`` under names that begin with ``slug``."""
    fields: dict[str, Json] = {"t": seconds(event.t), "lane": event.lane, "op": event.op}

    def put(name: str, value: Json, part: str = "") -> None:
        kept = store(slug + part, value)
        fields[f"{name}_in" if isinstance(kept, BodyFile) else name] = kept.name if isinstance(kept, BodyFile) else kept

    if isinstance(event, Traffic):
        if event.op == SENT:
            fields["took"] = seconds(event.took)
        if event.data or event.failure is None:
            put("data", _from_bytes(event.data), f"-{event.op}")
        if event.failure is not None:
            fields["error"] = _error(event.failure)
        return text_of(fields)
    fields |= {"key": event.key, "effect": event.effect.value}
    if event.ask is not None:
        put("ask", event.ask, ".ask")
    fields["took"] = seconds(event.took)
    match event.reply:
        case HttpReply(status, headers, body):
            fields |= {"status": status, "headers": dict(sorted(headers.items()))}
            if body is not None:
                put("body", body)
        case CommandReply(status, stdout, stderr, lines):
            fields["status"] = status
            put("stdout", stdout)
            if stderr != "":
                put("stderr", stderr, ".stderr")
            if lines is not None:
                fields["lines"] = [[seconds(at), what] for at, what in lines]
        case Failure() as failure:
            fields["error"] = _error(failure)
    return text_of(fields)


def decode(line: bytes, where: str, load: Load) -> Event:
    """Read one line; ``where`` is its file and number. Raises TapeError for anything that is not an event.

    Bodies of answers are left where they are; those of streams are read with ``load``.
    """
    try:
        fields = json.loads(line.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise TapeError(f"{where}: not an event: {_excerpt(line)}; the tape is damaged, record it again") from None
    reader = _Fields(fields, where)
    event = _traffic(reader, load) if reader.peek("op") in (RECEIVED, SENT) else _exchange(reader)
    reader.finish()
    return event


def bytes_of(data: Json) -> bytes:
    """The bytes of a stream's payload. Raises ValueError where it is none."""
    if isinstance(data, str):
        return data.encode("utf-8")
    if isinstance(data, dict) and set(data) == {"b64"} and isinstance(data["b64"], str):
        try:
            return base64.b64decode(data["b64"], validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
    raise ValueError('neither a text nor {"b64": ...}')


def _from_bytes(data: bytes) -> Json:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode("ascii")}


def _error(failure: Failure) -> Json:
    more = {"seconds": failure.seconds, "last": failure.last} if failure.kind == Timeout.__name__ else {}
    return {"kind": failure.kind, "text": failure.text, **more}


def _excerpt(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "backslashreplace")) + ("..." if len(line) > 60 else "")


class _Fields:
    """The fields of one line, taken out one by one; every complaint names the line."""

    def __init__(self, fields: object, where: str) -> None:
        self.where = where
        if not isinstance(fields, dict):
            raise self.wrong("is not a JSON object")
        self._fields: dict[str, Any] = dict(fields)

    def wrong(self, problem: str) -> TapeError:
        return TapeError(f"{self.where}: {problem}; the tape is damaged, record it again")

    def peek(self, name: str) -> object:
        return self._fields.get(name)

    def has(self, name: str) -> bool:
        return name in self._fields or f"{name}_in" in self._fields

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise self.wrong(f"{name} is not a text")
        return value

    def whole(self, name: str) -> int:
        value = self._take(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(f"{name} is not a whole number")
        return value

    def number(self, name: str) -> float:
        value = self._take(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise self.wrong(f"{name} is not a number")
        return float(value)

    def table(self, name: str) -> dict[str, Any]:
        value = self._take(name)
        if not isinstance(value, dict):
            raise self.wrong(f"{name} is not an object")
        return value

    def items(self, name: str) -> list[Any]:
        value = self._take(name)
        if not isinstance(value, list):
            raise self.wrong(f"{name} is not a list")
        return value

    def payload(self, name: str) -> Payload:
        if f"{name}_in" in self._fields:
            return BodyFile(self.text(f"{name}_in"))
        return self._take(name)

    def finish(self) -> None:
        if self._fields:
            raise self.wrong(f"unknown field {next(iter(self._fields))!r}")

    def _take(self, name: str) -> Any:
        if name not in self._fields:
            raise self.wrong(f"has no {name}")
        return self._fields.pop(name)


def _traffic(reader: _Fields, load: Load) -> Traffic:
    t, lane, op = reader.number("t"), reader.text("lane"), reader.text("op")
    took = reader.number("took") if op == SENT else 0.0
    failure = _failure(reader) if reader.has("error") else None
    if failure is not None and not reader.has("data"):
        return Traffic(t, lane, op, b"", took, failure)
    data = reader.payload("data")
    try:
        return Traffic(t, lane, op, bytes_of(load(data, reader.where) if isinstance(data, BodyFile) else data), took, failure)
    except ValueError as error:
        raise reader.wrong(f"data is {error}") from None


def _exchange(reader: _Fields) -> Exchange:
    t, lane, op, key = reader.number("t"), reader.text("lane"), reader.text("op"), reader.text("key")
    effect = reader.text("effect")
    if effect not in tuple(Effect):
        raise reader.wrong(f"effect {effect!r} is neither observe nor act")
    ask = reader.payload("ask") if reader.has("ask") else None
    return Exchange(t, lane, op, key, Effect(effect), ask, reader.number("took"), _reply(reader, op))


def _reply(reader: _Fields, op: str) -> Reply:
    if reader.has("error"):
        return _failure(reader)
    status = reader.whole("status")
    if op != RUN:
        headers = {str(name): str(value) for name, value in reader.table("headers").items()}
        return HttpReply(status, headers, reader.payload("body") if reader.has("body") else None)
    stdout = reader.payload("stdout")
    stderr = reader.payload("stderr") if reader.has("stderr") else ""
    if not isinstance(stdout, str | BodyFile) or not isinstance(stderr, str | BodyFile):
        raise reader.wrong("stdout or stderr is not a text")
    return CommandReply(status, stdout, stderr, _lines(reader) if reader.has("lines") else None)


def _failure(reader: _Fields) -> Failure:
    error = _Fields(reader.table("error"), reader.where)
    kind, text = error.text("kind"), error.text("text")
    if kind == Timeout.__name__:
        failure = Failure(kind, text, error.number("seconds"), error.payload("last"))
    elif kind in PLAIN_ERRORS:
        failure = Failure(kind, text)
    else:
        raise reader.wrong(f"unknown kind of error {kind!r}")
    error.finish()
    return failure


def _lines(reader: _Fields) -> Lines:
    lines = []
    for entry in reader.items("lines"):
        match entry:
            case [int() | float() as at, int() | str() as what]:
                lines.append((float(at), what))
            case _:
                raise reader.wrong(f"lines has the entry {entry!r}")
    return tuple(lines)
