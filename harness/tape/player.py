"""Replay: a tape answers in place of the machine, on a clock that jumps.

    write    must be the next one of its track's script; costs the time it took; begins an epoch
    read     gets a sample of the current epoch's timeline (timeline.choose), or what the nearest earlier epoch said last
    stream   gives what was recorded when its time has come, counted from the last write on any lane
    wait     wakes when what was just looked at has its next sample (Alarm)

Answers bear the time at which the recording had them, moved to the replaying clock: what is computed from ``at`` does not depend
on how often a program looks.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Generic, cast

from harness.clock import Deadline, VirtualClock
from harness.errors import TapeError, TapeMismatch, TapeMiss
from harness.ports import (
    A_co,
    Answer,
    Chunk,
    CommandAnswer,
    CommandAsks,
    CommandQuestion,
    Effect,
    HttpAnswer,
    HttpAsks,
    HttpQuestion,
    Lanes,
    OnLine,
    Q_contra,
    Question,
    Streams,
)
from harness.tape.events import SENT, CommandReply, Event, Exchange, Failure, HttpReply, Lines, Traffic, lines_of
from harness.tape.format import Tape
from harness.tape.playing import Coverage, Playing
from harness.tape.question import Asked, asked
from harness.tape.redact import Redactor
from harness.tape.script import Write, differences, mismatch, write_of
from harness.tape.timeline import ROUNDING, Key, lay_out
from harness.tape.tracks import Tracks


class Player:
    """Answers from a tape. Nothing is read before the first question; a missing or damaged tape is a TapeError then."""

    def __init__(self, folder: Path, tracks: Tracks, clock: VirtualClock) -> None:
        self._folder = folder
        self._tracks = tracks
        self._clock = clock
        self._opened: Tape | None = None
        self._playing: dict[str, Playing] = {}
        self._looked: set[Key] = set()
        self._listened: set[str] = set()
        self._disagreements: list[str] = []
        clock.heed(self)

    def open(self) -> Tape:
        """The tape; its header is read at the first call. Raises TapeError where it cannot be read."""
        if self._opened is None:
            self._opened = Tape.open(self._folder)
        return self._opened

    def lanes(self) -> Lanes:
        """The lanes that were recorded. Raises TapeError where the tape cannot be read."""
        info = self.open().info
        has = frozenset(info.lanes)
        if unknown := has - {"bmc", "host", "console", "fabric"}:
            raise TapeError(f"{self._folder}: unknown lane {min(unknown)!r}; update bringup-harness")
        return Lanes(
            bmc=self.http("bmc") if "bmc" in has else None,
            host=self.commands("host") if "host" in has else None,
            console=self.stream("console") if "console" in has else None,
            fabric=self.http("fabric") if "fabric" in has else None,
            facts=dict(info.facts),
        )

    def http(self, lane: str) -> HttpAsks:
        """A lane of HTTP questions."""
        return _PlayedAsks[HttpQuestion, HttpAnswer](self, lane)

    def commands(self, lane: str) -> CommandAsks:
        """A lane of commands."""
        return _PlayedAsks[CommandQuestion, CommandAnswer](self, lane)

    def stream(self, lane: str) -> Streams:
        """A lane of bytes."""
        return _PlayedStream(self, lane)

    def unplayed(self, track: str) -> list[str]:
        """The recorded writes of a track that did not come, in words. In a test that passed each of them is a failure."""
        playing = self._play(track)
        return [str(self._recorded(event)) for event in playing.timeline.writes[playing.epoch :]]

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Every question and write that the tape had no answer to, also those whose error somebody swallowed."""
        return tuple(self._disagreements)

    def coverage(self) -> Coverage:
        """How much of the tape was played so far."""
        touched = {track: playing.coverage() for track, playing in sorted(self._playing.items())}
        return Coverage(touched, tuple(track for track in self.open().tracks() if track not in touched))

    def next_after(self, now: float) -> float | None:
        """When the next sample or emission of anything asked since the last call comes (see clock.Alarm)."""
        playing = self._play(self._tracks.current)
        moment = self._tracks.time() - playing.start
        times = [sample.asked for key in self._looked if (sample := playing.following(key)) is not None]
        for lane in self._listened:
            position = playing.emitted.get(lane, 0)
            times += [each.at for each in playing.timeline.emissions.get(lane, ())[position:][:1] if each.epoch == playing.epoch]
        self._looked.clear()
        self._listened.clear()
        return now + max(0.0, min(times) - moment) if times else None

    def answer(self, lane: str, question: Question, on_line: OnLine | None) -> Answer:
        """Answer a question on a lane. Raises TapeMismatch, TapeMiss, or the error that was recorded."""
        playing = self._play(self._tracks.current)
        words = asked(question)
        words = Asked(words.op, words.base, Redactor().json(words.ask), words.effect, words.volatile)
        if question.effect is Effect.ACT:
            got = Write(lane, words.op, words.base, words.ask)
            event = self._advance_script(playing, got, words.volatile)
            return self._reply(event, self._clock.now(), on_line)
        return self._sample(playing, self._find_key(playing, lane, words), on_line)

    def read(self, lane: str, deadline: Deadline) -> Chunk:
        """What a stream gives until ``deadline``: the next emission, or nothing, with the clock moved there."""
        playing = self._play(self._tracks.current)
        emissions, position = playing.timeline.emissions.get(lane, ()), playing.emitted.get(lane, 0)
        self._listened.add(lane)
        now = self._clock.now()
        if position < len(emissions) and emissions[position].epoch <= playing.epoch:
            emission = emissions[position]
            ahead = emission.at - (self._tracks.time() - playing.start) if emission.epoch == playing.epoch else 0.0
            if now + ahead <= max(deadline.at, now) + ROUNDING:
                playing.emitted[lane] = position + 1
                self._clock.sleep(ahead)
                if emission.failure is not None:
                    raise emission.failure.error()
                return Chunk(emission.data, _tidy(now + ahead))
        self._clock.sleep(deadline.at - now)
        return Chunk(b"", self._clock.now())

    def write(self, lane: str, data: bytes) -> None:
        """Send bytes to a stream. Raises TapeMismatch where they are not the next write of the track."""
        playing = self._play(self._tracks.current)
        event = self._advance_script(playing, Write(lane, SENT, "", data.decode("utf-8", "backslashreplace")), frozenset())
        self._clock.sleep(event.took)
        if isinstance(event, Traffic) and event.failure is not None:
            raise event.failure.error()

    def _play(self, track: str) -> Playing:
        if track not in self._playing:
            self._playing[track] = Playing(lay_out(self.open().events(track)))
        return self._playing[track]

    def _recorded(self, event: Event) -> Write:
        return write_of(event, self.open().load(event.ask) if isinstance(event, Exchange) else None)

    def _advance_script(self, playing: Playing, got: Write, volatile: frozenset[str]) -> Event:
        number, writes = playing.epoch, playing.timeline.writes
        if number >= len(writes) or any(differences(self._recorded(writes[number]), got, volatile)):
            script = [self._recorded(event) for event in writes]
            text = mismatch(self._tracks.current, number, script, got, volatile)
            self._disagreements.append(text)
            raise TapeMismatch(text)
        playing.begin_epoch(self._tracks.time())
        return writes[number]

    def _find_key(self, playing: Playing, lane: str, words: Asked) -> Key:
        """The recorded key of a read: the same, or one whose redacted parts stand for what is asked."""
        key = (lane, words.op, words.key)
        known = playing.timeline.known()
        if key in known:
            return key
        for candidate in sorted(each for each in known if each[:2] == key[:2]):
            recorded = self._recorded(playing.timeline.first(candidate))
            named = Write(lane, words.op, candidate[2].partition(" #")[0], recorded.ask)
            if not any(differences(named, Write(lane, words.op, words.base, words.ask))):
                return candidate
        raise self._miss(playing, key)

    def _sample(self, playing: Playing, key: Key, on_line: OnLine | None) -> Answer:
        self._looked.add(key)
        if key not in playing.current.samples:
            earlier = playing.timeline.before(playing.epoch, key)
            if earlier is None:
                raise self._miss(playing, key)
            playing.played.add(id(earlier))
            return self._reply(earlier.event, self._clock.now() - earlier.event.took, on_line)
        moment = self._tracks.time() - playing.start
        sample = playing.choose(key, moment)
        return self._reply(sample.event, self._clock.now() - moment + sample.asked, on_line)

    def _reply(self, event: Event, asked_at: float, on_line: OnLine | None) -> Answer:
        """Give a recorded reply as if asked at ``asked_at`` on the clock, which moves on to whatever comes later than now."""
        assert isinstance(event, Exchange), "a question never equals bytes of a stream"
        at = _tidy(asked_at + event.took)
        match event.reply:
            case Failure() as failure:
                self._reach(at)
                raise failure.error()
            case HttpReply(status, headers, body):
                self._reach(at)
                return HttpAnswer(status, dict(headers), self.open().load(body), at, event.took)
            case CommandReply(status, stdout, stderr, lines):
                printed = str(self.open().load(stdout))
                if on_line is not None:
                    for text, after in _timed_lines(printed, lines, event.took):
                        self._reach(asked_at + after)
                        on_line(text, _tidy(asked_at + after))
                self._reach(at)
                return CommandAnswer(status, printed, str(self.open().load(stderr)), at, event.took)

    def _reach(self, moment: float) -> None:
        self._clock.sleep(moment - self._clock.now())

    def _miss(self, playing: Playing, key: Key) -> TapeMiss:
        text = self._what_is_missing(playing, key)
        self._disagreements.append(text)
        return TapeMiss(text)

    def _what_is_missing(self, playing: Playing, key: Key) -> str:
        """Say what was asked, where, and what the tape has instead."""
        track, name = self._tracks.current, " ".join(key)
        if not self.open().has(track):
            return f"{name}: the tape has no track {track}{self._elsewhere(key)}; record the tape again"
        later = playing.timeline.after(playing.epoch, key)
        if later is not None:
            write = self._recorded(playing.timeline.writes[later - 1])
            return f"{name}: track {track} recorded it only after its write {later} ({write}); record the tape again"
        known = {" ".join(each): each for each in sorted(playing.timeline.known())}
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        hint = f"; the nearest it has is {near[0]}" if near else "; it has no reads at all"
        return f"{name}: never recorded in track {track}{hint}{self._elsewhere(key)}; record the tape again"

    def _elsewhere(self, key: Key) -> str:
        """Name a track that has what this one lacks. Reads the whole tape, once, when something is wrong anyway."""
        for track in self.open().tracks():
            with suppress(TapeError):
                if key in lay_out(self.open().events(track)).known():
                    return f" (track {track} has it)"
        return ""


class _PlayedAsks(Generic[Q_contra, A_co]):
    """A lane of questions that a tape answers."""

    def __init__(self, player: Player, lane: str) -> None:
        self._player = player
        self._lane = lane

    def ask(self, question: Q_contra, on_line: OnLine | None = None) -> A_co:
        return cast(A_co, self._player.answer(self._lane, question, on_line))

    def close(self) -> None:
        """Nothing is held open."""


class _PlayedStream:
    """A lane of bytes that a tape plays."""

    def __init__(self, player: Player, lane: str) -> None:
        self._player = player
        self._lane = lane

    def read(self, deadline: Deadline) -> Chunk:
        return self._player.read(self._lane, deadline)

    def write(self, data: bytes) -> None:
        self._player.write(self._lane, data)

    def close(self) -> None:
        """Nothing is held open."""


def _timed_lines(printed: str, lines: Lines | None, took: float) -> Iterator[tuple[str, float]]:
    """A command's lines, each with the seconds after asking at which it came; all at the end where nobody had listened."""
    texts = iter(lines_of(printed))
    for after, what in ((took, len(printed) + 1),) if lines is None else lines:
        if isinstance(what, str):
            yield what, after
        else:
            yield from ((text, after) for text in islice(texts, what))


def _tidy(moment: float) -> float:
    """A time without the noise of adding floats, so that equal times are equal."""
    return round(moment, 6)
