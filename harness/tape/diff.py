"""Two recordings of one machine doing the same thing: do they tell the same? Pure, but for reading the tapes.

    header     source, platform, firmware, stages           first: of unlike machines nothing else is worth reading
    track      matched by name
      write    the script: the same writes in the same order (script.py), the same answers, as long after each other
      read     by key and epoch, as states (states.py)
      stream   as the lines that came, whatever the pieces; the kernel works in parallel, so their order does not count

What counts time and nothing else is left out by volatile.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness.ports import Json
from harness.tape.events import RECEIVED, BodyFile, CommandReply, Event, Exchange, Failure, HttpReply, Traffic, describe
from harness.tape.format import Tape
from harness.tape.header import TapeInfo
from harness.tape.script import Write, differences, write_of
from harness.tape.states import FAILED, Odds, State, Tolerance, collapse, compare, differing, shown
from harness.tape.timeline import Key
from harness.tape.volatile import Steadying, lines

__all__ = ["Difference", "Tolerance", "compare_tapes"]

_HEADER = ("source", "platform", "bench", "stages", "apply", "faults", "lanes")


@dataclass(frozen=True)
class Difference:
    """One difference in words. ``track`` is empty for the header's, ``epoch`` counts the writes before (None for what has none)."""

    track: str
    key: str
    epoch: int | None
    what: str
    one: str
    other: str

    def __str__(self) -> str:
        epoch = "" if self.epoch is None else f"epoch {self.epoch}"
        place = ", ".join(word for word in (self.track or "header", self.key, epoch, self.what) if word)
        return f"{place}: {self.one} | {self.other}"


def compare_tapes(one: Tape, other: Tape, tolerance: Tolerance | None = None) -> list[Difference]:
    """All differences, the header's first. Raises TapeError where a tape cannot be read."""
    allowed = tolerance or Tolerance()
    found = list(_headers(one.info, other.info))
    for track in sorted({*one.tracks(), *other.tracks()}):
        if not one.has(track) or not other.has(track):
            found.append(Difference(track, "", None, "the track", *(_presence(tape.has(track)) for tape in (one, other))))
            continue
        found += _tracks(_Track.read(one, track), _Track.read(other, track), allowed)
    return found


@dataclass(frozen=True)
class _Line:
    text: str
    at: float


@dataclass(frozen=True)
class _Write:
    write: Write
    answer: Json
    since: float
    """Seconds after the write before it, or after the start of the track."""


@dataclass(frozen=True)
class _Track:
    """A track made comparable; one dict of states for each epoch."""

    name: str
    writes: tuple[_Write, ...]
    epochs: tuple[dict[Key, tuple[State, ...]], ...]
    streams: dict[str, tuple[_Line, ...]]
    end: float

    @classmethod
    def read(cls, tape: Tape, track: str) -> _Track:
        steadying, events = Steadying(), tape.events(track)
        writes: list[_Write] = []
        epochs: list[dict[Key, list[State]]] = [{}]
        start = 0.0
        for event in events:
            if event.is_write:
                writes.append(_Write(_steady_write(tape, event, steadying), _answer(tape, event, steadying), event.t - start))
                epochs.append({})
                start = event.t
            elif isinstance(event, Exchange):
                sample = State(_answer(tape, event, steadying), (event.t - start,), event.took)
                epochs[-1].setdefault((event.lane, event.op, steadying.name(event.key)), []).append(sample)
        collapsed = tuple({key: collapse(samples) for key, samples in epoch.items()} for epoch in epochs)
        end = max((event.t + event.took for event in events), default=0.0)
        lanes = sorted({event.lane for event in events if isinstance(event, Traffic) and event.op == RECEIVED})
        return cls(track, tuple(writes), collapsed, {lane: _heard(events, lane) for lane in lanes}, end)


def _headers(one: TapeInfo, other: TapeInfo) -> Iterator[Difference]:
    for name in _HEADER:
        was, came = getattr(one, name), getattr(other, name)
        if was != came:
            yield Difference("", "", None, name, *(shown(list(each) if isinstance(each, tuple) else each) for each in (was, came)))
    for name in ("identity", "facts"):
        for odds in differing(dict(getattr(one, name)), dict(getattr(other, name)), name):
            yield Difference("", "", None, odds.what, odds.one, odds.other)


def _tracks(one: _Track, other: _Track, tolerance: Tolerance) -> Iterator[Difference]:
    script, same = _scripts(one, other, tolerance)
    yield from script
    for epoch, (reads, reads2) in enumerate(zip(one.epochs[: same + 1], other.epochs[: same + 1], strict=True)):
        yield from _reads(one.name, epoch, reads, reads2, tolerance)
    for lane in sorted(one.streams.keys() | other.streams.keys()):
        yield from _streams(one, other, lane)


def _scripts(one: _Track, other: _Track, tolerance: Tolerance) -> tuple[list[Difference], int]:
    """How the scripts differ, and how many writes are the same from the start: behind the first other one nothing is comparable."""
    found: list[Difference] = []
    for number, (left, right) in enumerate(zip_longest(one.writes, other.writes)):
        if left is None or right is None:
            sides = (_nothing_or(left), _nothing_or(right))
            return [*found, Difference(one.name, "", number, f"write {number + 1}", *sides)], number
        if unlike := next(differences(left.write, right.write), None):
            what = f"write {number + 1}: {unlike}"
            return [
                *found,
                Difference(one.name, left.write.key, number, what, *(shown(str(each.write)) for each in (left, right))),
            ], number
        odds = list(differing(left.answer, right.answer))
        if not tolerance.allows(left.since, right.since):
            odds.append(Odds("when it was sent", f"{left.since:.1f} s", f"{right.since:.1f} s"))
        found += [
            Difference(one.name, left.write.key, number, f"write {number + 1}: {each.what}", each.one, each.other) for each in odds
        ]
    return found, min(len(one.writes), len(other.writes))


def _reads(
    track: str, epoch: int, one: dict[Key, tuple[State, ...]], other: dict[Key, tuple[State, ...]], tolerance: Tolerance
) -> Iterator[Difference]:
    for key in [*one, *(key for key in other if key not in one)]:
        name = " ".join(word for word in key if word)
        if key not in one or key not in other:
            yield Difference(track, name, epoch, "the read", *(_presence(key in side) for side in (one, other)))
            continue
        for odds in compare(one[key], other[key], tolerance):
            yield Difference(track, name, epoch, odds.what, odds.one, odds.other)


def _streams(one: _Track, other: _Track, lane: str) -> Iterator[Difference]:
    left, right = one.streams.get(lane, ()), other.streams.get(lane, ())
    for text in _excess(left, right, other.end):
        yield Difference(one.name, lane, None, "a line of the stream", shown(text), "nothing")
    for text in _excess(right, left, one.end):
        yield Difference(one.name, lane, None, "a line of the stream", "nothing", shown(text))


def _excess(heard: Sequence[_Line], other: Sequence[_Line], end: float) -> Iterator[str]:
    """The lines that the other stream lacks, but for what came after it was last listened to, and for cut lines at either end."""
    more = Counter(line.text for line in heard) - Counter(line.text for line in other)
    whole = [line.text for line in other]
    for index, line in enumerate(heard):
        if not more[line.text]:
            continue
        more[line.text] -= 1
        is_cut = index in (0, len(heard) - 1) and any(text.startswith(line.text) or text.endswith(line.text) for text in whole)
        if line.at <= end and not is_cut:
            yield line.text


def _heard(events: Sequence[Event], lane: str) -> tuple[_Line, ...]:
    """The lines of a stream, each with the time at which it ended."""
    found: list[_Line] = []
    rest = b""
    at = 0.0
    for event in events:
        if isinstance(event, Traffic) and (event.lane, event.op) == (lane, RECEIVED):
            whole, newline, rest = (rest + event.data).rpartition(b"\n")
            at = event.t
            if newline:
                found += [_Line(text, at) for text in lines(whole.decode("utf-8", "replace"))]
    return (*found, *(_Line(text, at) for text in lines(rest.decode("utf-8", "replace"))))


def _steady_write(tape: Tape, event: Event, steadying: Steadying) -> Write:
    ask = tape.load(event.ask, describe(event)) if isinstance(event, Exchange) else None
    write = write_of(event, ask)
    return Write(write.lane, write.op, steadying.name(write.key), steadying.json(write.ask))


def _answer(tape: Tape, event: Event, steadying: Steadying) -> Json:
    """What came of a question, as a JSON value without what is volatile."""
    if isinstance(event, Traffic):
        return None if event.failure is None else _failure(event.failure, steadying)

    def load(payload: Json | BodyFile) -> Json:
        return tape.load(payload, describe(event))

    match event.reply:
        case HttpReply(status, headers, body):
            return {"status": status, "headers": steadying.headers(headers), "body": steadying.json(load(body))}
        case CommandReply(status, stdout, stderr):
            printed, complaint = load(stdout), load(stderr)
            return {
                "status": status,
                "stdout": steadying.printed(event.key, printed) if isinstance(printed, str) else printed,
                "stderr": steadying.printed("", complaint) if isinstance(complaint, str) else complaint,
            }
        case failure:
            return _failure(failure, steadying)


def _failure(failure: Failure, steadying: Steadying) -> Json:
    return {FAILED: failure.kind, "text": steadying.printed("", failure.text)}


def _presence(is_there: bool) -> str:
    return "recorded" if is_there else "not recorded"


def _nothing_or(write: _Write | None) -> str:
    return "nothing" if write is None else shown(str(write.write))
