"""Recording: adapters around the live ones that note everything asked, answered, sent and received.

    caller <-- the true answer --- recorder <--- live port
                                      |
                                 redacted event --> memory, by track --> the tape, written whole at the end
                                      |
                                      +----------> evidence, appended at once

The caller gets what the machine said; what is kept is redacted before it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from harness.clock import Clock, Deadline
from harness.errors import BenchError
from harness.ports import A_co, Asks, Chunk, Lanes, OnLine, Q_contra, Question, Streams
from harness.tape.events import RECEIVED, SENT, Event, Exchange, Failure, Reply, Traffic, failure_of, seconds
from harness.tape.evidence import Evidence
from harness.tape.format import write_tape
from harness.tape.header import TapeInfo
from harness.tape.library import replace_tape
from harness.tape.noting import redacted, redacted_failure, reply_of
from harness.tape.question import Asked, asked
from harness.tape.redact import Redactor
from harness.tape.stream_redactor import StreamRedactor
from harness.tape.tracks import Tracks, check_track


@dataclass
class _Noted:
    """An event in its track; that of a stream is completed when its bytes are settled."""

    track: str
    event: Event


class Recorder:
    """Notes the traffic of lanes by track: as evidence at once (``keep_in``), as a tape at the end (``keep``, ``write``)."""

    def __init__(self, tracks: Tracks, clock: Clock, redactor: Redactor) -> None:
        self._tracks = tracks
        self._clock = clock
        self._redactor = redactor
        self._noted: list[_Noted] = []
        self._evidence: Evidence | None = None
        self._lanes: tuple[str, ...] = ()
        self._facts: dict[str, str] = {}
        self._streams: dict[tuple[str, str], tuple[StreamRedactor, list[_Noted]]] = {}

    @property
    def trouble(self) -> str:
        """Why the evidence is incomplete (a full disk), or nothing. The run goes on: the machine matters more."""
        return "" if self._evidence is None else self._evidence.trouble

    def asks(self, lane: str, port: Asks[Q_contra, A_co]) -> Asks[Q_contra, A_co]:
        """Record a lane of questions."""
        return _RecordedAsks(self, lane, port)

    def stream(self, lane: str, port: Streams) -> Streams:
        """Record a lane of bytes."""
        return _RecordedStream(self, lane, port)

    def lanes(self, lanes: Lanes) -> Lanes:
        """Record every lane of a bench."""
        recorded = Lanes(
            bmc=None if lanes.bmc is None else self.asks("bmc", lanes.bmc),
            host=None if lanes.host is None else self.asks("host", lanes.host),
            console=None if lanes.console is None else self.stream("console", lanes.console),
            fabric=None if lanes.fabric is None else self.asks("fabric", lanes.fabric),
            facts=lanes.facts,
            bmc_user=lanes.bmc_user,
        )
        self._lanes = tuple(name for name in ("bmc", "host", "console", "fabric") if getattr(lanes, name) is not None)
        self._facts = dict(lanes.facts)
        if self._evidence is not None:
            self._evidence.describe(self._complete)
        return recorded

    def keep_in(self, folder: Path, info: TapeInfo | None = None) -> None:
        """Append everything noted from now on to ``folder`` at once, so that a killed run leaves a tape.

        Without ``info`` there is no header: the tracks can be read, but not replayed.
        """
        self._evidence = Evidence(folder, info)
        self._evidence.describe(self._complete)

    def write(self, folder: Path, info: TapeInfo) -> None:
        """Write what was noted as a tape, into a new folder. Raises TapeError, or BenchError where the disk refuses."""
        self._flush()
        try:
            write_tape(folder, self._complete(info), self._settled())
        except OSError as error:
            raise BenchError(f"cannot write the tape {folder}: {error.strerror or error}") from None

    def settle(self, info: TapeInfo) -> None:
        """At the end of a run: replace the evidence by the exact tape, with its header. Nothing is done without evidence."""
        if self._evidence is not None:
            folder, self._evidence = self._evidence.folder, None
            replace_tape(folder, lambda beside: self.write(beside, info), is_evidence=True)

    def open_track(self) -> str:
        """The track that owns what is asked now. Raises TapeError for an impossible name, before anything is asked."""
        return check_track(self._tracks.current)

    def moment(self, at: float) -> float:
        """A time of the clock as seconds on the stopwatch of the track on top."""
        return self._tracks.time() - (self._clock.now() - at)

    def now(self) -> float:
        """The clock's time."""
        return self._clock.now()

    def note_exchange(self, track: str, lane: str, question: Question, at: tuple[float, float], reply: Reply) -> None:
        """Note a question and what came of it; ``at`` is when it was asked, on the track's stopwatch, and how long it took."""
        words = asked(question)
        words = Asked(words.op, words.base, self._redactor.json(words.ask), words.effect, words.volatile)
        event = Exchange(seconds(at[0]), lane, words.op, words.key, words.effect, words.ask, seconds(at[1]), reply)
        self._note(track, self._redacted(event))

    def note_traffic(self, event: Traffic) -> None:
        """Note bytes of a stream. They are kept once no secret can be in them; the evidence shows them masked at once."""
        stream = (event.lane, event.op)
        if stream not in self._streams:
            self._streams[stream] = (self._redactor.stream(mark_every_piece=event.op == SENT), [])
        redactor, waiting = self._streams[stream]
        failure = None if event.failure is None else redacted_failure(event.failure, self._redactor)
        noted = _Noted(check_track(self._tracks.current), replace(event, data=b"", failure=failure))
        self._noted.append(noted)
        waiting.append(noted)
        settled = redactor.feed(event.data)
        shown = settled[-1] if len(settled) == len(waiting) else redactor.shown()
        _complete_traffic(waiting, settled)
        if self._evidence is not None:
            self._evidence.append(noted.track, replace(event, data=shown, failure=failure))

    def _note(self, track: str, event: Event) -> None:
        self._noted.append(_Noted(track, event))
        if self._evidence is not None:
            self._evidence.append(track, event)

    def _redacted(self, event: Exchange) -> Exchange:
        redactor = self._redactor
        return replace(event, key=redactor.text(event.key), ask=redactor.json(event.ask), reply=redacted(event.reply, redactor))

    def _flush(self) -> None:
        for redactor, waiting in self._streams.values():
            _complete_traffic(waiting, redactor.flush())

    def _settled(self) -> dict[str, list[Event]]:
        """What was noted, by track, with everything that was learned since taken out as well."""
        streams = {key: self._redactor.stream(mark_every_piece=key[1] == SENT) for key in self._streams}
        again: dict[tuple[str, str], list[bytes]] = {key: [] for key in streams}
        for noted in self._noted:
            if isinstance(noted.event, Traffic):
                key = (noted.event.lane, noted.event.op)
                again[key] += streams[key].feed(noted.event.data)
        pieces = {key: iter([*found, *streams[key].flush()]) for key, found in again.items()}
        tracks: dict[str, list[Event]] = {}
        for noted in self._noted:
            event = noted.event
            if isinstance(event, Exchange):
                event = self._redacted(event)
            else:
                event = replace(event, data=next(pieces[event.lane, event.op]))
                if not event.data and event.failure is None:
                    continue
            tracks.setdefault(noted.track, []).append(event)
        return tracks

    def _complete(self, info: TapeInfo) -> TapeInfo:
        text = self._redactor.text
        return replace(
            info,
            lanes=self._lanes or info.lanes,
            facts={text(key): text(value) for key, value in (self._facts or info.facts).items()},
            identity={text(key): text(value) for key, value in info.identity.items()},
        )


class _RecordedAsks(Generic[Q_contra, A_co]):
    """A lane of questions, noted."""

    def __init__(self, recorder: Recorder, lane: str, port: Asks[Q_contra, A_co]) -> None:
        self._recorder = recorder
        self._lane = lane
        self._port: Asks[Q_contra, A_co] = port

    def ask(self, question: Q_contra, on_line: OnLine | None = None) -> A_co:
        recorder = self._recorder
        track = recorder.open_track()
        begun, began = recorder.now(), recorder.moment(recorder.now())
        heard: list[tuple[float, str]] = []
        try:
            answer = self._port.ask(question, None if on_line is None else _listening(on_line, heard))
        except BaseException as error:
            failure = failure_of(error) if isinstance(error, BenchError) else Failure("Unreachable", f"cut short by {error!r}")
            recorder.note_exchange(track, self._lane, question, (began, recorder.now() - begun), failure)
            raise
        asked_at = answer.at - answer.took
        lines = None if on_line is None else tuple((at - asked_at, text) for at, text in heard)
        recorder.note_exchange(track, self._lane, question, (began + asked_at - begun, answer.took), reply_of(answer, lines))
        return answer

    def close(self) -> None:
        self._port.close()


class _RecordedStream:
    """A lane of bytes, noted. What is read joins the track of who reads it."""

    def __init__(self, recorder: Recorder, lane: str, port: Streams) -> None:
        self._recorder = recorder
        self._lane = lane
        self._port = port

    def read(self, deadline: Deadline) -> Chunk:
        recorder = self._recorder
        recorder.open_track()
        try:
            chunk = self._port.read(deadline)
        except BenchError as error:
            now = seconds(recorder.moment(recorder.now()))
            recorder.note_traffic(Traffic(now, self._lane, RECEIVED, b"", failure=failure_of(error)))
            raise
        if chunk.data:
            recorder.note_traffic(Traffic(seconds(recorder.moment(chunk.at)), self._lane, RECEIVED, chunk.data))
        return chunk

    def write(self, data: bytes) -> None:
        recorder = self._recorder
        recorder.open_track()
        begun, began = recorder.now(), seconds(recorder.moment(recorder.now()))
        failure = None
        try:
            self._port.write(data)
        except BenchError as error:
            failure = failure_of(error)
            raise
        finally:
            took = seconds(recorder.now() - begun)
            recorder.note_traffic(Traffic(began, self._lane, SENT, data, took, failure))

    def close(self) -> None:
        self._port.close()


def _complete_traffic(waiting: list[_Noted], settled: list[bytes]) -> None:
    """Give the oldest waiting events of a stream the bytes that are settled."""
    for noted, data in zip(waiting, settled, strict=False):
        if isinstance(noted.event, Traffic):
            noted.event = replace(noted.event, data=data)
    del waiting[: len(settled)]


def _listening(on_line: OnLine, heard: list[tuple[float, str]]) -> OnLine:
    def hear(text: str, at: float) -> None:
        heard.append((at, text))
        on_line(text, at)

    return hear
