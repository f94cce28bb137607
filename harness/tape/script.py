"""Is this the write that was recorded? And if not, what differs. Pure.

In what was recorded ``<redacted>`` stands for any text and ``<volatile>`` for any value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.ports import Json
from harness.tape.events import REDACTED, VOLATILE, Exchange, Traffic, text_of

LONGEST = 400
"""Of a payload in a message, in characters."""


@dataclass(frozen=True)
class Write:
    """A write with its payload at hand: lane, operation, key, and what was sent (None for nothing)."""

    lane: str
    op: str
    key: str
    ask: Json

    def __str__(self) -> str:
        name = " ".join(word for word in (self.lane, self.op, self.key) if word)
        text = "" if self.ask is None else f" {text_of(self.ask)}"
        return name + (text if len(text) <= LONGEST else f"{text[:LONGEST]}...")


def write_of(event: Exchange | Traffic, ask: Json) -> Write:
    """A recorded write; ``ask`` is its payload, read from its body where it lies in one."""
    if isinstance(event, Traffic):
        return Write(event.lane, event.op, "", event.data.decode("utf-8", "backslashreplace"))
    return Write(event.lane, event.op, event.key, ask)


def is_same(recorded: Write, got: Write, volatile: Collection[str] = ()) -> bool:
    """True where ``got`` is the recorded write; ``volatile`` names top-level keys of the payload that do not count."""
    return next(differences(recorded, got, volatile), None) is None


def differences(recorded: Write, got: Write, volatile: Collection[str] = ()) -> Iterator[str]:
    """What differs, one line each: first the names, then the payload from the outside inwards."""
    for name in ("lane", "op", "key"):
        was, came = getattr(recorded, name), getattr(got, name)
        if not matches(was, came):
            yield f"{name}: recorded {was!r}, got {came!r}"
    yield from _differences(_without(recorded.ask, volatile), _without(got.ask, volatile), "payload")


def matches(recorded: str, got: str) -> bool:
    """True where the texts are equal, ``<redacted>`` in the recorded one standing for any text."""
    if REDACTED not in recorded:
        return recorded == got
    pattern = ".*".join(re.escape(part) for part in recorded.split(REDACTED))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


def mismatch(track: str, number: int, script: Sequence[Write], got: Write, volatile: Collection[str] = ()) -> str:
    """Say how ``got`` differs from write ``number`` (from 0) of ``script``, and which other write it may have meant."""
    if number >= len(script):
        head = f"track {track}: the tape has {_count(len(script))} and all are played, but another one came"
        lines = [head, f"  got:      {got}"]
    else:
        recorded = script[number]
        lines = [f"track {track}: write {number + 1} of {len(script)} is not the recorded one"]
        lines += [f"  recorded: {recorded}", f"  got:      {got}"]
        lines += [f"  differs:  {difference}" for difference in differences(recorded, got, volatile)]
    others = [index for index in range(len(script)) if index != number]
    if (near := _nearest(script, others, got)) is not None:
        relation = "the same as" if is_same(script[near], got, volatile) else "nearest to"
        place = "already played" if near < number else "still to come"
        lines.append(f"  it is {relation} write {near + 1} ({place}): {script[near]}")
    return "\n".join(lines)


def _count(number: int) -> str:
    return {0: "no write", 1: "one write"}.get(number, f"{number} writes")


def _nearest(script: Sequence[Write], others: Sequence[int], got: Write) -> int | None:
    if not others:
        return None
    text = str(got)
    return max(others, key=lambda index: (difflib.SequenceMatcher(None, str(script[index]), text).ratio(), -index))


def _without(ask: Json, volatile: Collection[str]) -> Json:
    return {key: VOLATILE if key in volatile else value for key, value in ask.items()} if isinstance(ask, dict) else ask


def _differences(recorded: Json, got: Json, where: str) -> Iterator[str]:
    if isinstance(recorded, str) and isinstance(got, str) and matches(recorded, got):
        return
    if isinstance(recorded, dict) and isinstance(got, dict):
        yield from _differing_entries(recorded, got, where)
    elif isinstance(recorded, list) and isinstance(got, list) and len(recorded) == len(got):
        for index, (was, came) in enumerate(zip(recorded, got, strict=True)):
            yield from _differences(was, came, f"{where}[{index}]")
    elif type(recorded) is not type(got) or recorded != got:
        yield f"{where}: recorded {_short(recorded)}, got {_short(got)}"


def _differing_entries(recorded: dict[str, Json], got: dict[str, Json], where: str) -> Iterator[str]:
    left = dict(got)
    for key, was in recorded.items():
        name = key if key in left else next((other for other in left if REDACTED in key and matches(key, other)), None)
        came = left.pop(name, None) if name is not None else None
        if was == VOLATILE:
            continue
        if name is None:
            yield f"{where}.{key}: recorded {_short(was)}, got nothing"
        else:
            yield from _differences(was, came, f"{where}.{key}")
    for key, came in left.items():
        if came != VOLATILE:
            yield f"{where}.{key}: recorded nothing, got {_short(came)}"


def _short(value: Json) -> str:
    text = text_of(value)
    return text if len(text) <= LONGEST // 4 else f"{text[: LONGEST // 4]}..."
