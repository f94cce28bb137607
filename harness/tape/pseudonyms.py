"""Pseudonyms: a tape that names no machine, part or address, and says all else as before.

    learned     by exact names of members: serial numbers, service tags, UUIDs, MAC addresses, host names, IPv4 addresses
    replaced    as whole words everywhere: questions, answers, streams (joined, so that no cut saves a name), the header
    format      kept: length, digits as digits, letters as letters of the same case; a MAC address stays one (locally
                administered, IEEE 802), a UUID keeps version and variant (RFC 9562), an address is one
    per tape    a salt is drawn and thrown away, so the same machine has another pseudonym on another tape

A value that is too short or too common to be anybody's is left alone. What no member names is not learned.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from harness.errors import TapeError
from harness.ports import Json
from harness.tape.events import CommandReply, Event, Exchange, Failure, HttpReply, Traffic
from harness.tape.format import Tape, whole, write_tape
from harness.tape.forms import forms

_SERIAL = frozenset(
    ("serialnumber", "serial", "servicetag", "chassisservicetag", "sku", "assettag", "nodeid", "expressservicecode", "boardserial")
)
_UUID = frozenset(("uuid", "systemuuid", "smbiosguid", "serviceentrypointuuid"))
_MAC = frozenset(("macaddress", "permanentmacaddress", "associatedmacaddress", "currentmacaddress"))
_HOST = frozenset(("hostname", "fqdn", "dnsracname", "systemhostname"))
_ADDRESS = frozenset(("address", "gateway", "ipaddress", "ipv4address", "currentipaddress"))

_COMMON = re.compile(
    r"(?i)not.?(available|specified|applicable)|n/?a|none|unknown|default.*|to be filled.*|(.)\2*|localhost.*|idrac"
)
_IS_MAC = re.compile(r"(?i)[0-9a-f]{2}([:-]?)(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}")
_IS_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IS_ADDRESS = re.compile(r"(?!0\.|127\.|255\.)\d{1,3}(?:\.\d{1,3}){3}")
_GPU = "GPU-"
"""What NVML writes before the UUID of a GPU."""

_SHORTEST = 5
_ENCODED = 6
"""Characters of a value that is looked for in hexadecimal and base64 too: shorter ones would be found by chance."""

T = TypeVar("T", str, bytes)


@dataclass
class Pseudonyms:
    """What stands for each name of one tape. ``salt`` is this tape's own."""

    salt: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _chosen: dict[str, str] = field(default_factory=dict)
    _pattern: re.Pattern[str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that were learned, in every way in which they are written."""
        return tuple(self._chosen)

    def learn(self, value: Json) -> None:
        """Learn what a JSON value says under the names of members."""
        for name, text in _members(value):
            for kind in _kinds(name):
                if _is_name(bare := text.strip().removeprefix(_GPU), kind):
                    self.add(bare, kind)

    def add(self, text: str, kind: str) -> None:
        """Give ``text`` a pseudonym, and the ways in which it is also written the same one."""
        if text.lower() in (name.lower() for name in self._chosen):
            self._chosen.setdefault(text, self._recased(text))
            return
        number, taken = 0, set(self._chosen.values()) | set(self._chosen)
        while (made := self._made(text, kind, number)) in taken or made.lower() == text.lower():
            number += 1
            if number > 1000:
                raise TapeError(f"no pseudonym of the form of a {kind} with {len(text)} characters is left")
        for spelled, instead in _spellings(text, made, kind):
            self._chosen.setdefault(spelled, instead)
        self._pattern = None

    def text(self, text: str) -> str:
        """``text`` with pseudonyms for all names in it."""
        if not self._chosen:
            return text
        return self._compiled().sub(lambda found: self._chosen[found[0]], text)

    def json(self, value: Json) -> Json:
        """The same of a JSON value, its members' names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(each) for each in value]
        return {self.text(name): self.json(each) for name, each in value.items()} if isinstance(value, dict) else value

    def _compiled(self) -> re.Pattern[str]:
        if self._pattern is None:
            longest = sorted(self._chosen, key=len, reverse=True)
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")
        return self._pattern

    def _recased(self, text: str) -> str:
        """The pseudonym of a name that is known in another case, in this one."""
        made = next(instead for name, instead in self._chosen.items() if name.lower() == text.lower())
        return "".join(each.upper() if was.isupper() else each.lower() for was, each in zip(text, made, strict=True))

    def _made(self, text: str, kind: str, number: int) -> str:
        stream = _bytes(self.salt, f"{kind}\0{text.lower()}\0{number}")
        if kind == "address":
            return ".".join(_octet(part, next(stream)) for part in text.split("."))
        is_hex = kind in ("MAC address", "UUID")
        made = [_character(each, next(stream), is_hex=is_hex) for each in text]
        if kind == "MAC address":
            made[1] = _recase("26ae"[next(stream) % 4], text)
        if kind == "UUID":
            made[14] = text[14]
            made[19] = _recase("89ab"[next(stream) % 4], text)
        return "".join(made)


def write_pseudonymous(tape: Tape, folder: Path, names: Pseudonyms | None = None) -> None:
    """Write ``tape`` with pseudonyms into a new folder.

    Raises TapeError where the tape is damaged, or where a name is left on it in any way of writing.
    """
    chosen = names or Pseudonyms()
    tracks = {track: [whole(tape, event) for event in tape.events(track)] for track in tape.tracks()}
    chosen.learn(dict(tape.info.identity))
    for events in tracks.values():
        for event in events:
            for value in _said(event):
                chosen.learn(value)
    replaced = {track: _replaced(events, chosen) for track, events in tracks.items()}
    identity = {name: chosen.text(value) for name, value in tape.info.identity.items()}
    facts = {name: chosen.text(value) for name, value in tape.info.facts.items()}
    write_tape(folder, replace(tape.info, identity=identity, facts=facts, pseudonyms=True), replaced)
    _insist_that_none_is_left(folder, chosen.names)


def _replaced(events: Sequence[Event], names: Pseudonyms) -> list[Event]:
    """The events of one track; a stream is replaced as a whole and cut again where it was cut."""
    streams: dict[tuple[str, str], list[Traffic]] = {}
    for event in events:
        if isinstance(event, Traffic):
            streams.setdefault((event.lane, event.op), []).append(event)
    cut: dict[int, Traffic] = {}
    for pieces in streams.values():
        text = b"".join(piece.data for piece in pieces).decode("latin-1")
        after, start = names.text(text).encode("latin-1"), 0
        for piece in pieces:
            cut[id(piece)] = replace(piece, data=after[start : start + len(piece.data)])
            start += len(piece.data)
    return [cut[id(event)] if isinstance(event, Traffic) else _exchange(event, names) for event in events]


def _exchange(event: Exchange, names: Pseudonyms) -> Exchange:
    reply = event.reply
    match reply:
        case HttpReply():
            headers = {name: names.text(value) for name, value in reply.headers.items()}
            reply = replace(reply, headers=headers, body=names.json(reply.body))
        case CommandReply():
            lines = reply.lines and tuple((at, names.text(each) if isinstance(each, str) else each) for at, each in reply.lines)
            reply = replace(reply, stdout=names.json(reply.stdout), stderr=names.json(reply.stderr), lines=lines)
        case Failure():
            reply = replace(reply, text=names.text(reply.text), last=names.json(reply.last))
    return replace(event, key=names.text(event.key), ask=names.json(event.ask), reply=reply)


def _said(event: Event) -> Iterator[Json]:
    """The JSON values that an event holds: bodies, and the lines of a worker."""
    if not isinstance(event, Exchange):
        return
    if isinstance(event.reply, HttpReply):
        yield event.reply.body
    elif isinstance(event.reply, CommandReply) and isinstance(event.reply.stdout, str):
        for line in event.reply.stdout.splitlines():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _members(value: Json) -> Iterator[tuple[str, str]]:
    """Every text that stands under a member's name, also within a list; without recursion, for a machine wrote it."""
    left: list[tuple[str, Json]] = [("", value)]
    while left:
        name, each = left.pop()
        if isinstance(each, dict):
            left += list(each.items())
        elif isinstance(each, list):
            left += [(name, inner) for inner in each]
        elif isinstance(each, str) and name:
            yield name, each


def _kinds(member: str) -> Iterator[str]:
    plain = re.sub(r"[-_ ]", "", re.split(r"[.#@]", member)[-1]).lower()
    for kind, names in (
        ("serial number", _SERIAL), ("UUID", _UUID), ("MAC address", _MAC), ("host name", _HOST), ("address", _ADDRESS),
    ):  # fmt: skip
        if plain in names:
            yield kind


def _is_name(text: str, kind: str) -> bool:
    shapes = {"UUID": _IS_UUID, "MAC address": _IS_MAC, "address": _IS_ADDRESS}
    if kind in shapes:
        digits = re.sub(r"[^0-9A-Za-z]", "", text)
        return shapes[kind].fullmatch(text) is not None and len(set(digits.lower())) > 1
    is_mixed = any(each.isdigit() for each in text) or kind == "host name"
    return len(text) >= _SHORTEST and is_mixed and text.isascii() and text.isprintable() and _COMMON.fullmatch(text) is None


def _spellings(text: str, made: str, kind: str) -> Iterator[tuple[str, str]]:
    """A name in the cases and with the separators in which it is written elsewhere, each with its pseudonym."""
    changes: list[Callable[[str], str]] = [str, str.lower, str.upper]
    pairs = [(text, made)]
    if kind == "MAC address":
        bare, instead = re.sub("[:-]", "", text), re.sub("[:-]", "", made)
        pairs += [(mark.join(_twos(bare)), mark.join(_twos(instead))) for mark in (":", "-", "")]
    for spelled, instead in pairs:
        for change in changes:
            yield change(spelled), change(instead)


def _twos(text: str) -> list[str]:
    return [text[at : at + 2] for at in range(0, len(text), 2)]


def _character(was: str, byte: int, *, is_hex: bool) -> str:
    if was.isdigit():
        return str(byte % 10)
    if not was.isalpha():
        return was
    return _recase(("abcdef" if is_hex else "abcdefghijklmnopqrstuvwxyz")[byte % (6 if is_hex else 26)], was)


def _recase(letter: str, was: str) -> str:
    return letter.upper() if was.isupper() else letter


def _octet(was: str, byte: int) -> str:
    """An octet of as many digits."""
    return {1: str(1 + byte % 9), 2: str(10 + byte % 90)}.get(len(was), str(100 + byte % 100))


def _bytes(salt: bytes, what: str) -> Iterator[int]:
    block = 0
    while True:
        yield from hmac.new(salt, f"{what}\0{block}".encode(), hashlib.sha256).digest()
        block += 1


def _insist_that_none_is_left(folder: Path, names: Sequence[str]) -> None:
    """Look for every name once more in the files, also encoded. Raises TapeError; the name itself is not told."""
    encoded: Mapping[str, str] = {
        form: name for name in names if len(name) >= _ENCODED for form in forms(name) if form != name and len(form) > _ENCODED
    }
    plain = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?![A-Za-z0-9])")
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        text = f"{path.relative_to(folder).as_posix()}\n{path.read_text(encoding='utf-8', errors='replace')}"
        if plain.search(text) or any(form in text for form in encoded):
            raise TapeError(f"{path.relative_to(folder).as_posix()}: a name of the machine is left on the tape; it was not kept")
