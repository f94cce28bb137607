"""The files of a tape: its header, its tracks, its bodies.

    <tape>/
      tape.toml                              the header: TapeInfo
      session/<fixture>.jsonl                a track of a session fixture
      <suite>/<module>/<test-slug>.jsonl     a track of a test; the track's name is the path without its suffix
      bodies/<slug>@<n>.json | .txt          the n-th version of a payload above 2 kB: pretty JSON, or the text as it came

Reading is lazy: opening a tape reads the header only, a track is read when it is asked for, a body when it is answered.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import TapeError
from harness.ports import Json
from harness.tape.events import BodyFile, CommandReply, Event, Exchange, HttpReply, Payload, Traffic, text_of
from harness.tape.header import HEADER, TapeInfo, check_info, header_text, read_info
from harness.tape.lines import decode, encode
from harness.tape.tracks import check_track, slug

__all__ = ["Bodies", "Tape", "TapeInfo", "read_info", "whole", "write_tape"]

BODIES = "bodies"
LARGE = 2048
"""Payloads of more bytes than this lie in a file of their own."""

_BODY_NAME = re.compile(rf"{BODIES}/[A-Za-z0-9][A-Za-z0-9._+-]*@[1-9][0-9]*\.(?:json|txt)")


class Bodies:
    """The payload files of a tape that is being written: one file for each distinct version of a payload."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions: dict[str, dict[tuple[str, str], str]] = {}

    def store(self, name: str, payload: Json) -> Payload:
        """Return a small payload as it is, a large one as the file it was put into (shared with its equals of that name)."""
        if len(text_of(payload).encode("utf-8")) <= LARGE:
            return payload
        suffix, text = _as_file(payload)
        versions = self._versions.setdefault(name, {})
        known = (suffix, hashlib.sha256(text).hexdigest())
        if known not in versions:
            versions[known] = f"{BODIES}/{name}@{len(versions) + 1}{suffix}"
            path = self._folder / versions[known]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        return BodyFile(versions[known])


def track_file(track: str) -> str:
    """The path of a track's file relative to the tape. Raises TapeError for a name that would leave the tape."""
    return f"{check_track(track)}.jsonl"


def line_of(event: Event, bodies: Bodies) -> bytes:
    """An event as a line of a track; its large payloads go to ``bodies``."""
    return encode(event, bodies.store, body_slug(event)).encode("utf-8") + b"\n"


def body_slug(event: Event) -> str:
    """What the bodies of an event are called: lane and key, without the method where it is GET."""
    if isinstance(event, Traffic):
        return slug(event.lane)
    operation = "" if event.op in ("GET", "run") else f"{event.op}-"
    return slug(f"{event.lane}-{operation}{event.key}")


def write_tape(folder: Path, info: TapeInfo, tracks: Mapping[str, Sequence[Event]]) -> None:
    """Write a tape into a new or empty folder: the same events give the same files, whatever order they happened in."""
    check_info(info, str(folder / HEADER))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise TapeError(f"{folder}: not empty; a tape is written whole, into a folder of its own")
    (folder / HEADER).write_text(header_text(info), encoding="utf-8", newline="\n")
    bodies = Bodies(folder)
    for track in sorted(tracks):
        path = folder / track_file(track)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line_of(event, bodies) for event in tracks[track]))


class Tape:
    """A tape on disk, open for reading. Verbs raise TapeError, naming file and line, for whatever is damaged."""

    def __init__(self, folder: Path, info: TapeInfo) -> None:
        self.folder = folder
        self.info = info
        self._events: dict[str, tuple[Event, ...]] = {}
        self._texts: dict[BodyFile, str] = {}

    @classmethod
    def open(cls, folder: Path) -> Tape:
        """Read the header. Raises TapeError where there is no tape, or one of a newer schema."""
        return cls(folder, read_info(folder))

    def tracks(self) -> tuple[str, ...]:
        """The names of all tracks, sorted. Nothing is read."""
        found = (path.relative_to(self.folder).with_suffix("").as_posix() for path in self.folder.rglob("*.jsonl"))
        return tuple(sorted(name for name in found if not name.startswith(f"{BODIES}/")))

    def has(self, track: str) -> bool:
        """True where the track is on the tape."""
        return (self.folder / track_file(track)).is_file()

    def events(self, track: str) -> tuple[Event, ...]:
        """The events of a track in their order; none where the tape has no such track."""
        if track not in self._events:
            self._events[track] = tuple(self._read(track)) if self.has(track) else ()
        return self._events[track]

    def load(self, payload: Payload, where: str = "") -> Json:
        """The payload itself, read from its file where it lies in one; each call gives a fresh value."""
        if not isinstance(payload, BodyFile):
            return json.loads(json.dumps(payload)) if isinstance(payload, dict | list) else payload
        text = self._text(payload, where)
        if payload.name.endswith(".txt"):
            return text
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise TapeError(f"{self.folder / payload.name}: not JSON: {error}; the tape is damaged, record it again") from None

    def _text(self, body: BodyFile, where: str) -> str:
        if body not in self._texts:
            self._check_body(body, where)
            path = self.folder / body.name
            try:
                self._texts[body] = path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise TapeError(f"{path}: cannot be read: {error}; the tape is damaged, record it again") from None
        return self._texts[body]

    def _read(self, track: str) -> Iterable[Event]:
        path = self.folder / track_file(track)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise TapeError(f"{path}: cannot be read: {error.strerror}") from None
        lines = content.split(b"\n")
        if lines.pop() != b"":
            raise TapeError(f"{path}:{len(lines) + 1}: the last line is cut off; the tape is damaged, record it again")
        for number, line in enumerate(lines, start=1):
            where = f"{path}:{number}"
            event = decode(line, where, self.load)
            for body in bodies_of(event):
                self._check_body(body, where)
            yield event

    def _check_body(self, body: BodyFile, where: str) -> None:
        if not _BODY_NAME.fullmatch(body.name):
            raise TapeError(f"{where}: {body.name!r} is not the name of a body; the tape is damaged, record it again")
        if not (self.folder / body.name).is_file():
            raise TapeError(f"{where}: the body {body.name} is missing; the tape is damaged, record it again")


def bodies_of(event: Event) -> tuple[BodyFile, ...]:
    """The bodies that an event names."""
    if not isinstance(event, Exchange):
        return ()
    payloads = (event.ask, *(getattr(event.reply, part, None) for part in ("body", "stdout", "stderr")))
    return tuple(payload for payload in payloads if isinstance(payload, BodyFile))


def whole(tape: Tape, event: Event) -> Event:
    """The event with its payloads in itself. Raises TapeError where one cannot be read."""
    if not isinstance(event, Exchange):
        return event
    reply = event.reply
    match reply:
        case HttpReply():
            reply = replace(reply, body=tape.load(reply.body))
        case CommandReply():
            reply = replace(reply, stdout=tape.load(reply.stdout), stderr=tape.load(reply.stderr))
    return replace(event, ask=tape.load(event.ask), reply=reply)


def _as_file(payload: Json) -> tuple[str, bytes]:
    """A payload as suffix and content: a text as it is, JSON indented."""
    if isinstance(payload, str):
        try:
            return ".txt", payload.encode("utf-8")
        except UnicodeEncodeError:
            return ".json", json.dumps(payload).encode("ascii")
    text = json.dumps(payload, ensure_ascii=False, indent=1) + "\n"
    try:
        return ".json", text.encode("utf-8")
    except UnicodeEncodeError:
        return ".json", (json.dumps(payload, indent=1) + "\n").encode("ascii")
