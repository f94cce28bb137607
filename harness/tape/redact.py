"""Redaction: what a recorder keeps holds no secret.

    a value under a name that marks a secret   by secret_names, at any depth; its values are learned
    a literal, known or learned                everywhere: texts, names, streams; also hex, base64 and escaped (forms)
    what is a secret by its looks              in texts: private keys in PEM, hashes as crypt(3) writes them, bearer tokens
    a header                                   by allow-list

Every secret becomes ``<redacted>``. Doing it again changes nothing. A secret that nobody named and that looks like nothing known
is not recognised; nor is one that a machine encrypts or digests in its own way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from harness.ports import Json
from harness.secret import Secret
from harness.tape.events import REDACTED
from harness.tape.forms import forms
from harness.tape.secret_names import NAMED_BY, VALUES, is_secret_name, is_secret_value, is_worth_learning
from harness.tape.stream_redactor import StreamRedactor

HEADERS = frozenset({"content-type", "etag", "location", "allow", "retry-after", "odata-version"})
"""The headers that are kept."""

_SCHEME = re.compile(r"^(?:basic|bearer|digest) +", re.IGNORECASE)
_HINTS = ("passw", "passph", "key", "secret", "token", "communit", "authorization", "cookie", "salt")
_QUOTED = re.compile(r'"(?P<name>[^"\\]{1,80})"(?P<between>\s*:\s*")(?P<value>(?:[^"\\]|\\.)*)(?P<end>")')
_ATTRIBUTE = re.compile(r'Name="(?P<name>[^"]{1,80})"(?P<between>[^<>]*>)(?P<value>[^<]*)(?P<end><)')
_ASSIGNED = re.compile(
    r"^(?P<name>[ \t]*[\w.#-]{1,80})(?P<between>[ \t]*[=:][ \t]*)(?P<value>[^\s{\[][^\r\n]*)(?P<end>)", re.MULTILINE
)

_LOOKS = (
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)()", re.DOTALL),
    re.compile(r"((?<![\w/.])\$(?:1|2[aby]|5|6|7|y)\$)[./A-Za-z0-9$=,]{12,}()"),
    re.compile(r"(\b(?:basic|bearer|digest) +)(?=[A-Za-z0-9+/._~-]{16,})[A-Za-z0-9+/._~=-]+()", re.IGNORECASE),
)
"""A secret between what stays of it on either side."""

_TRACES = ("PRIVATE KEY", "$", "earer ", "asic ", "igest ")

_SHORT = 200
"""Longer texts than this are not remembered."""


class Redactor:
    """Takes secrets out of what is about to be recorded, and learns those it meets under their names."""

    def __init__(self, literals: Iterable[Secret | str] = ()) -> None:
        self._literals: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self._pattern = re.compile(re.escape(REDACTED))
        self._known: dict[str, str] = {}  # what short texts became, until something is learned: records repeat themselves
        for literal in literals:
            self.learn(literal)

    def learn(self, value: Secret | str) -> None:
        """Look for ``value`` everywhere from now on."""
        text = value.reveal() if isinstance(value, Secret) else value
        if not text or text in self._literals:
            return
        self._literals.add(text)
        self._known.clear()
        found = {form for literal in self._literals for form in forms(literal)}
        self._forms = tuple(sorted(found, key=lambda form: (-len(form), form)))
        self._pattern = re.compile("|".join(re.escape(form) for form in (REDACTED, *self._forms)))

    def text(self, text: str) -> str:
        """Redact literals, and values under their names as JSON, XML attributes and ``name = value`` lines write them."""
        if len(text) > _SHORT:
            return self._redacted(text)
        if text not in self._known:
            redacted = self._redacted(text)
            self._known[text] = redacted
        return self._known[text]

    def json(self, value: Json) -> Json:
        """Redact a JSON value: a new one, with the secrets under their names learned before anything is kept."""
        self._learn_from(list(_named_secrets(value)))
        return self._json(value)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that are kept, in lower case."""
        return {name.lower(): self.text(value) for name, value in headers.items() if name.lower() in HEADERS}

    def stream(self, *, mark_every_piece: bool = False) -> StreamRedactor:
        """A filter for a stream of bytes whose pieces may cut a secret anywhere."""
        return StreamRedactor(lambda: self._forms, mark_every_piece=mark_every_piece)

    def _redacted(self, text: str) -> str:
        lower = text.lower()
        if any(hint in lower for hint in _HINTS):
            for pattern in (_QUOTED, _ATTRIBUTE, _ASSIGNED):
                text = pattern.sub(self._without_value, text)
        if any(trace in text for trace in _TRACES):
            for looks in _LOOKS:
                text = looks.sub(rf"\1{REDACTED}\2", text)
        return self._without_literals(text)

    def _json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._json(each) for each in value]
        if not isinstance(value, dict):
            return value
        secret = _secret_keys(value)
        return {self._without_literals(key): self._json(_masked(each) if key in secret else each) for key, each in value.items()}

    def _without_literals(self, text: str) -> str:
        if len(text) > _SHORT and not any(form in text for form in self._forms):
            return text  # one look for each form is faster than one for all in a long text
        return self._pattern.sub(REDACTED, text)

    def _without_value(self, match: re.Match[str]) -> str:
        value = match["value"].strip()
        if not is_secret_name(match["name"].strip()) or not is_secret_value(value):
            return match[0]
        self._learn_from([_unescaped(value) if match["end"] == '"' else value])
        return f"{match[0][: match.start('value') - match.start()]}{REDACTED}{match['end']}"

    def _learn_from(self, values: Json) -> None:
        for secret in _texts(values):
            if is_worth_learning(secret):
                self.learn(secret)


def _secret_keys(table: Mapping[str, Json]) -> frozenset[str]:
    """The keys of a JSON object whose values are secrets."""
    keys = {key for key in table if is_secret_name(key)}
    if any(isinstance(name := table.get(key), str) and is_secret_name(name) for key in NAMED_BY):
        keys.update(key for key in VALUES if key in table)
    return frozenset(keys)


def _masked(value: Json) -> Json:
    """A secret's value without its texts. Flags, counts and objects survive: ``#Bios.ChangePassword`` holds an action's target."""
    if isinstance(value, str):
        return REDACTED if is_secret_value(value) else value
    return [_masked(each) for each in value] if isinstance(value, list) else value


def _named_secrets(value: Json) -> Iterator[str]:
    """Every text that stands under a name that marks a secret."""
    if isinstance(value, list):
        for each in value:
            yield from _named_secrets(each)
    elif isinstance(value, dict):
        secret = _secret_keys(value)
        for key, each in value.items():
            if key in secret:
                yield from _texts(each)
            yield from _named_secrets(each)


def _texts(value: Json) -> Iterator[str]:
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, list):
            yield from _texts(each)
        elif isinstance(each, str) and REDACTED not in each:
            yield _SCHEME.sub("", each)


def _unescaped(text: str) -> str:
    """The text that a JSON string holds."""
    try:
        return str(json.loads(f'"{text}"'))
    except json.JSONDecodeError:
        return text
