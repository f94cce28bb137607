"""The shape of what a machine answers, and how it drifted from that of a recording. Pure, but for reading the tapes.

    question     asked, or not asked any more; its statuses
    object       its members, and which of them every such object has
    list         one shape for all of its elements
    worker       one shape for each kind of line
    value        text, number, truth value; null says nothing

Values are no shape: another temperature, serial number or count is the machine's business, a member that is gone is the harness's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.ports import Json
from harness.tape.events import CommandReply, Event, Exchange, HttpReply, describe
from harness.tape.format import Tape
from harness.tape.volatile import Steadying

_ELEMENT = "[]"


@dataclass(frozen=True)
class Shape:
    """What is known of all values at one place. ``always`` are the members that every object there had."""

    kinds: frozenset[str] = frozenset()
    members: Mapping[str, Shape] = field(default_factory=dict)
    always: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Answers:
    """All answers to one question: their statuses and the shape of what they said."""

    statuses: frozenset[int]
    said: Shape


@dataclass(frozen=True)
class Drift:
    """One difference in words: the track, the question, and what became of it."""

    track: str
    key: str
    what: str

    def __str__(self) -> str:
        return ", ".join(word for word in (self.track, self.key) if word) + f": {self.what}"


def compare_shapes(recorded: Tape, live: Tape) -> list[Drift]:
    """How the answers of ``live`` drifted from those of ``recorded``, on the tracks that both have.

    Where only one of them was allowed to change the machine, what follows a write is on one of them only: then reads that one of
    them lacks say nothing. Raises TapeError where a tape cannot be read.
    """
    is_alike = recorded.info.apply == live.info.apply and recorded.info.faults == live.info.faults
    found: list[Drift] = []
    for track in recorded.tracks():
        if live.has(track):
            found += _tracks(track, _answers(recorded, track), _answers(live, track), is_alike=is_alike)
        elif _is_due(track, live):
            found.append(Drift(track, "", "is not asked any more"))
    return found


def shape_of(value: Json) -> Shape:
    """The shape of one value."""
    if isinstance(value, dict):
        members = {name: shape_of(each) for name, each in value.items()}
        return Shape(frozenset({"object"}), members, frozenset(members))
    if isinstance(value, list):
        elements = merge(shape_of(each) for each in value)
        return Shape(frozenset({"list"}), {_ELEMENT: elements} if value else {}, frozenset())
    if value is None:
        return Shape()
    return Shape(frozenset({"truth value" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"}))


def merge(shapes: Iterable[Shape]) -> Shape:
    """The shape that covers all of them."""
    merged: Shape | None = None
    for shape in shapes:
        merged = shape if merged is None else _both(merged, shape)
    return merged or Shape()


def drifted(recorded: Shape, live: Shape, path: str = "") -> Iterator[str]:
    """In words, place by place, what is gone, new or of another kind."""
    if recorded.kinds and live.kinds and not live.kinds <= recorded.kinds:
        yield f"{path or 'the answer'} is {_or(live.kinds)}, recorded as {_or(recorded.kinds)}"
        return
    for name, was in recorded.members.items():
        place = f"{path}{name}" if name == _ELEMENT else f"{path}.{name}".lstrip(".")
        if name in live.members:
            yield from drifted(was, live.members[name], place)
        elif name in recorded.always and live.kinds:
            yield f"{place} is gone"
    for name in live.members.keys() - recorded.members.keys():
        if name != _ELEMENT and recorded.kinds:
            yield f"{f'{path}.{name}'.lstrip('.')} is new"


def _both(one: Shape, other: Shape) -> Shape:
    names = [*one.members, *(name for name in other.members if name not in one.members)]
    members = {name: merge(each.members[name] for each in (one, other) if name in each.members) for name in names}
    known = [each.always for each in (one, other) if "object" in each.kinds]
    always = frozenset.intersection(*known) if known else frozenset()
    return Shape(one.kinds | other.kinds, members, always)


def _is_due(track: str, live: Tape) -> bool:
    """A track that the live run should have too: a fact's is there only where something asked for the fact."""
    stage = track.partition("/")[0]
    return stage in live.info.stages


def _tracks(track: str, recorded: Mapping[str, Answers], live: Mapping[str, Answers], *, is_alike: bool) -> Iterator[Drift]:
    for key, was in recorded.items():
        if key not in live:
            if is_alike:
                yield Drift(track, key, "is not asked any more")
            continue
        now = live[key]
        if strange := now.statuses - was.statuses:
            yield Drift(track, key, f"status {_or(map(str, strange))}, recorded {_or(map(str, was.statuses)) or 'no answer'}")
            continue
        for what in drifted(was.said, now.said):
            yield Drift(track, key, what)
    for key in live.keys() - recorded.keys() if is_alike else ():
        yield Drift(track, key, "was not asked when it was recorded")


def _answers(tape: Tape, track: str) -> dict[str, Answers]:
    """What was answered on a track, by question; answers that never came say nothing of the machine's shape."""
    steadying = Steadying()
    statuses: dict[str, set[int]] = {}
    shapes: dict[str, list[Shape]] = {}
    for event in tape.events(track):
        if isinstance(event, Exchange) and isinstance(event.reply, HttpReply | CommandReply):
            key = f"{event.op} {steadying.name(event.key)}"
            statuses.setdefault(key, set()).add(event.reply.status)
            shapes.setdefault(key, []).append(_said(tape, event))
    return {key: Answers(frozenset(statuses[key]), merge(shapes[key])) for key in statuses}


def _said(tape: Tape, event: Event) -> Shape:
    reply = event.reply if isinstance(event, Exchange) else None
    if isinstance(reply, HttpReply):
        return shape_of(tape.load(reply.body, describe(event)))
    printed = tape.load(reply.stdout, describe(event)) if isinstance(reply, CommandReply) else None
    lines = [_parsed(line) for line in printed.splitlines()] if isinstance(printed, str) else []
    if not lines or not all(isinstance(line, dict) and isinstance(line.get("kind"), str) for line in lines):
        return Shape(frozenset({"text"}))
    by_kind: dict[str, list[Shape]] = {}
    for line in lines:
        by_kind.setdefault(line["kind"], []).append(shape_of(line))
    return Shape(frozenset({"object"}), {kind: merge(shapes) for kind, shapes in by_kind.items()}, frozenset())


def _parsed(line: str) -> Json:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _or(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))
