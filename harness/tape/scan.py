"""Is a tape fit to be shown: does it hold a secret, does it hold together, and what is on it.

secrets      a value under a name that marks one, a literal; a private key, an authorization header, a token
structure    header, names and lines of tracks, lanes, every body there and used, nothing else in the folder
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import TapeError
from harness.ports import Json
from harness.tape.events import Event, Traffic, describe
from harness.tape.format import BODIES, Tape, bodies_of
from harness.tape.header import HEADER, read_info
from harness.tape.redact import Redactor
from harness.tape.tracks import check_track

_SHAPES = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an authorization header": re.compile(r"authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|digest)\s+(?!<redacted>)\S", re.I),
    "a session token": re.compile(r"x-auth-token[\"']?\s*[:=]\s*[\"']?(?!<redacted>)[^\s\"'<]", re.I),
    "a password hash": re.compile(r"(?<![\w/.])\$(?:1|2[aby]|5|6|7|y)\$[./A-Za-z0-9$=,]{12,}"),
}


def check_tape(folder: Path, redactor: Redactor | None = None) -> list[str]:
    """Re-scan every file of a tape. One finding a line, file first; none for a good tape.

    Give a ``redactor`` that knows literals (a bench's password) to look for these too.
    """
    try:
        read_info(folder)
    except TapeError as error:
        return [str(error)]
    return sorted({*_strangers(folder), *_secrets(folder, redactor or Redactor()), *_faults(folder)})


def summarise(folder: Path) -> list[str]:
    """What is on a tape, a line each: the source first, then the header, then the tracks. Raises TapeError."""
    tape = Tape.open(folder)
    info = tape.info
    lines = [
        f"source    {info.source}{'' if info.source == 'hardware' else ' (simulated, not hardware)'}",
        f"bench     {info.bench}, platform {info.platform}",
        f"recorded  {info.recorded_at} by bringup-harness {info.harness}",
        f"stages    {' '.join(info.stages) or 'none'}; changes {'allowed' if info.apply else 'not allowed'}",
        f"lanes     {' '.join(info.lanes) or 'none'}",
        *(f"identity  {key}: {value}" for key, value in sorted(info.identity.items())),
    ]
    rows = [_row(track, tape.events(track)) for track in tape.tracks()]
    width = max((len(row[0]) for row in rows), default=0)
    lines.append(f"tracks    {len(rows)}, with {sum(row[1] for row in rows)} events and {_size(folder)}")
    for track, events, writes, lanes, duration in rows:
        lines.append(f"  {track:<{width}}  {events:5} events  {writes:3} writes  {duration:9.1f} s  {' '.join(lanes)}")
    return lines


def _row(track: str, events: Sequence[Event]) -> tuple[str, int, int, tuple[str, ...], float]:
    lanes = tuple(sorted({event.lane for event in events}))
    duration = max((event.t + event.took for event in events), default=0.0)
    return track, len(events), sum(event.is_write for event in events), lanes, max(0.0, duration)


def _size(folder: Path) -> str:
    bodies = [path.stat().st_size for path in (folder / BODIES).glob("*")]
    return f"{len(bodies)} bodies of {sum(bodies) / 1000:.0f} kB"


def _strangers(folder: Path) -> Iterator[str]:
    """Files that no tape has."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield f"{name}: is a link; a tape holds files only"
        elif path.is_file() and name != HEADER and not name.startswith(f"{BODIES}/") and path.suffix != ".jsonl":
            yield f"{name}: belongs to no tape"


def _faults(folder: Path) -> Iterator[str]:
    """Whether the parts of a tape fit together."""
    tape = Tape.open(folder)
    used: set[str] = set()
    for track in tape.tracks():
        try:
            check_track(track)
            events = tape.events(track)
        except TapeError as error:
            yield str(error).removeprefix(f"{folder}/")
            continue
        for number, event in enumerate(events, start=1):
            where = f"{track}.jsonl:{number}"
            if event.lane not in tape.info.lanes:
                yield f"{where}: {describe(event)}: the header has no lane {event.lane}"
            for body in bodies_of(event):
                used.add(body.name)
                try:
                    tape.load(body, where)
                except TapeError as error:
                    yield str(error).removeprefix(f"{folder}/")
        used.update(_stream_bodies(folder / f"{track}.jsonl"))
    for path in sorted((folder / BODIES).rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in used:
            yield f"{path.relative_to(folder).as_posix()}: no event names this body"


def _stream_bodies(path: Path) -> set[str]:
    """The bodies of stream traffic, which events hold as bytes: by the names in the file."""
    return set(re.findall(r'"data_in": "([^"]+)"', path.read_text(encoding="utf-8")))


def _secrets(folder: Path, redactor: Redactor) -> Iterator[str]:
    """What a recorder would have redacted, and what looks like a secret, file by file."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()):
        name = path.relative_to(folder).as_posix()
        text = path.read_bytes().decode("utf-8", "backslashreplace")
        if path.suffix == ".jsonl":
            for number, line in enumerate(text.splitlines(), start=1):
                yield from _exposed(f"{name}:{number}", _without_data(_parsed(line)), redactor)
        else:
            yield from _exposed(name, _parsed(text) if path.suffix == ".json" else text, redactor)
        for what, shape in _SHAPES.items():
            if shape.search(text) is not None or shape.search(text.replace('\\"', '"')) is not None:
                yield f"{name}: holds what looks like {what}"
    yield from _in_streams(folder, redactor)


def _without_data(event: Json) -> Json:
    """An event but for the bytes of a stream: what a screen shows is not laid out in names and values."""
    return {key: value for key, value in event.items() if key != "data"} if isinstance(event, dict) else event


def _in_streams(folder: Path, redactor: Redactor) -> Iterator[str]:
    """The same on the joined bytes of each stream, which events cut anywhere."""
    tape = Tape.open(folder)
    for track in tape.tracks():
        try:
            events = tape.events(track)
        except TapeError:
            continue
        for lane, op in sorted({(event.lane, event.op) for event in events if isinstance(event, Traffic)}):
            pieces = [event.data for event in events if isinstance(event, Traffic) and (event.lane, event.op) == (lane, op)]
            joined = b"".join(pieces)
            stream = redactor.stream()
            text = joined.decode("utf-8", "backslashreplace")
            if b"".join([*stream.feed(joined), *stream.flush()]) != joined:
                yield f"{track}.jsonl: the stream {lane} {op} holds a secret that the bench file knows"
            for what, shape in _SHAPES.items():
                if shape.search(text) is not None:
                    yield f"{track}.jsonl: the stream {lane} {op} holds what looks like {what}"


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text


def _exposed(where: str, value: Json, redactor: Redactor) -> Iterator[str]:
    """Each place at which redaction would change something; the value is not told."""
    for path in _changes(value, redactor.json(value), ""):
        yield f"{where}: {path or 'the text'} is not redacted"


def _changes(value: Json, redacted: Json, path: str) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(redacted, dict):
        if list(value) != list(redacted):
            yield f"a name in {path or 'the object'}"
            return
        for key, each in value.items():
            yield from _changes(each, redacted[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(redacted, list):
        for index, (each, other) in enumerate(zip(value, redacted, strict=True)):
            yield from _changes(each, other, f"{path}[{index}]")
    elif value != redacted:
        yield path
