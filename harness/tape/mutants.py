"""Mutants of a tape: copies in which one recorded answer says something else. A check that overlooks them proves nothing.

rule ─▶ sites: every recorded answer that it fits ─▶ a few of them, first, last and between ─▶ one mutant each

place of a value     how a rule names it
─────────────────    ────────────────────────────────────────────────────────────────
JSON body            Members.*.JobState, Attributes.MmioAbove4Gb
a worker's line      gpu.width, pair.enabled, function.resource.*.*      (the line's kind first)
a whole answer       STATUS (HTTP or exit status), TEXT (what was printed)
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.ports import Json
from harness.tape.events import CommandReply, Event, Exchange, HttpReply
from harness.tape.format import Tape, whole, write_tape

STATUS, TEXT = "STATUS", "TEXT"
Step = str | int
Change = Callable[[Json], Json]
"""Takes a value and gives another one; the same one means that there is nothing to change."""


@dataclass(frozen=True)
class Gone:
    """Given by a change: the element is left out of its list, or the worker's line out of its output."""


GONE = Gone()


@dataclass(frozen=True)
class Rule:
    """``key``, ``place`` and ``track`` are regular expressions that match wholly.

    ``lasts``: every answer with that key says so from then on, in all tracks: a machine that is another one stays that. ``excuse``
    says why a mutant of it may pass unnoticed.
    """

    name: str
    lane: str
    key: str
    place: str
    change: Callable[[Json], Json | Gone]
    track: str = ".*"
    lasts: bool = False
    excuse: str = ""


@dataclass(frozen=True)
class Mutant:
    """One change of one answer: the ``event``-th of ``track``, at ``path``."""

    rule: Rule
    track: str
    event: int
    key: str
    path: tuple[Step, ...]
    before: Json
    after: Json | Gone

    def __str__(self) -> str:
        what = "left out" if isinstance(self.after, Gone) else f"{_short(self.before)} -> {_short(self.after)}"
        return f"{self.rule.name}: {self.track}: {self.key}: {'.'.join(map(str, self.path))} {what}"


def find_mutants(tape: Tape, rules: Sequence[Rule], *, most: int) -> tuple[list[Mutant], list[Rule]]:
    """At most ``most`` mutants of each rule, spread over all places that it fits; and the rules that fit nowhere."""
    sites = [(track, number, event) for track in tape.tracks() for number, event in enumerate(tape.events(track))]
    exchanges = [(track, number, event) for track, number, event in sites if isinstance(event, Exchange) and not event.is_write]
    found: list[Mutant] = []
    idle: list[Rule] = []
    for rule in rules:
        own = [
            mutant
            for track, number, event in exchanges
            if event.lane == rule.lane and re.fullmatch(rule.key, event.key) and re.fullmatch(rule.track, track)
            for mutant in _mutants_of(tape, rule, track, number, event)
        ]
        found += _spread(own, most)
        idle += [] if own else [rule]
    return found, idle


def write_mutant(tape: Tape, mutant: Mutant, folder: Path) -> None:
    """Write the tape with that one answer changed into a new folder."""
    tracks: dict[str, list[Event]] = {track: [whole(tape, event) for event in tape.events(track)] for track in tape.tracks()}
    for track, events in tracks.items():
        for number, event in enumerate(events):
            if isinstance(event, Exchange) and _is_meant(mutant, track, number, event):
                events[number] = _changed(event, mutant)
    write_tape(folder, tape.info, tracks)


def _is_meant(mutant: Mutant, track: str, number: int, event: Exchange) -> bool:
    if (track, number) == (mutant.track, mutant.event):
        return True
    is_alike = event.lane == mutant.rule.lane and event.key == mutant.key and not event.is_write
    return mutant.rule.lasts and is_alike and _holds(event, mutant.path)


def _holds(event: Exchange, path: tuple[Step, ...]) -> bool:
    """Whether an answer has such a place at all."""
    value: Json = getattr(event.reply, "body", None)
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _spread(mutants: list[Mutant], most: int) -> list[Mutant]:
    if len(mutants) <= most:
        return mutants
    if most == 1:
        return [mutants[-1]]
    return [mutants[round(number * (len(mutants) - 1) / (most - 1))] for number in range(most)]


def _mutants_of(tape: Tape, rule: Rule, track: str, number: int, event: Exchange) -> Iterator[Mutant]:
    for path, value in _places(tape, event):
        if re.fullmatch(rule.place, _named(path)):
            after = rule.change(copy.deepcopy(value))
            if after is GONE or after != value:
                yield Mutant(rule, track, number, event.key, path, value, after)


def _named(path: tuple[Step, ...]) -> str:
    """How rules name a place: any index is ``*``; the number of a worker's line is left out."""
    steps = path[1:] if path and path[0] == "line" else path
    names = ["*" if isinstance(step, int) else step for step in steps]
    return ".".join(names[1:] if path and path[0] == "line" else names)


def _places(tape: Tape, event: Exchange) -> Iterator[tuple[tuple[Step, ...], Json]]:
    reply = event.reply
    match reply:
        case HttpReply():
            yield (STATUS,), reply.status
            yield from _leaves((), tape.load(reply.body))
        case CommandReply():
            printed = str(tape.load(reply.stdout) or "")
            yield (STATUS,), reply.status
            yield (TEXT,), printed
            for number, line in enumerate(printed.split("\n")):
                if (told := _line(line)) is not None:
                    kind = str(told.get("kind"))
                    yield ("line", number, kind), told
                    yield from _leaves(("line", number, kind), told)


def _leaves(path: tuple[Step, ...], value: Json) -> Iterator[tuple[tuple[Step, ...], Json]]:
    """Every value below, tables and lists themselves too."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in entries:
        yield (*path, step), inner
        yield from _leaves((*path, step), inner)


def _changed(event: Exchange, mutant: Mutant) -> Exchange:
    reply, path = event.reply, mutant.path
    if path == (STATUS,) and isinstance(reply, HttpReply | CommandReply) and isinstance(mutant.after, int):
        return replace(event, reply=replace(reply, status=mutant.after))
    if isinstance(reply, HttpReply):
        return replace(event, reply=replace(reply, body=_put(copy.deepcopy(reply.body), path, mutant.after)))
    assert isinstance(reply, CommandReply)
    if path == (TEXT,):
        return replace(event, reply=replace(reply, stdout=str(mutant.after), lines=None))
    lines = str(reply.stdout).split("\n")
    number, inner = int(path[1]), path[3:]
    if not inner and isinstance(mutant.after, Gone):
        del lines[number]
    else:
        told = mutant.after if not inner else _put(json.loads(lines[number]), inner, mutant.after)
        lines[number] = json.dumps(told, separators=(",", ":"))
    return replace(event, reply=replace(reply, stdout="\n".join(_recounted(lines)), lines=None))


def _recounted(lines: list[str]) -> list[str]:
    """A worker's last line counts those before it: a line that was left out is not found by that alone."""
    told = [number for number, line in enumerate(lines) if _line(line) is not None]
    if not told or (_line(lines[told[-1]]) or {}).get("kind") != "end":
        return lines
    lines[told[-1]] = json.dumps({"kind": "end", "lines": len(told) - 1}, separators=(",", ":"))
    return lines


def _put(root: Json, path: tuple[Step, ...], value: Json | Gone) -> Json:
    target = root
    for step in path[:-1]:
        target = target[step]
    if isinstance(value, Gone):
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return root


def _line(text: str) -> dict[str, Json] | None:
    if not text.startswith("{"):
        return None
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) and "kind" in told else None


def _short(value: Json | Gone) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, Gone) else "nothing"
    return text if len(text) <= 60 else f"{text[:57]}..."
