"""The ways in which a secret may be written down: plain, escaped, hexadecimal, base64."""

from __future__ import annotations

import base64
import html
import json
import shlex
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Of an encoded form, in characters: shorter ones would be found everywhere. The secret itself is always looked for."""


def forms(secret: str) -> frozenset[str]:
    """Every way in which ``secret`` may appear in a text. The secret itself is among them; the empty text has none."""
    if not secret:
        return frozenset()
    encoded = {form for form in (*_escaped(secret), *_hexadecimal(secret), *_base64(secret)) if len(form) >= SHORTEST}
    return frozenset(encoded | {secret})


def _escaped(secret: str) -> Iterator[str]:
    """In JSON (once and twice), Python, XML, a URL and a shell."""
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    yield shlex.quote(secret).removeprefix("'").removesuffix("'")
    utf8 = secret.encode("utf-8", "surrogatepass")
    for coded in (quote(utf8, safe=""), quote(utf8), quote_plus(utf8)):
        yield coded
        yield _lower_percent(coded)


def _lower_percent(coded: str) -> str:
    head, *rest = coded.split("%")
    return head + "".join(f"%{part[:2].lower()}{part[2:]}" for part in rest)


def _hexadecimal(secret: str) -> Iterator[str]:
    data = secret.encode("utf-8", "surrogatepass")
    for separator in ("", ":", " ", "-"):
        plain = data.hex(separator) if separator else data.hex()
        yield plain
        yield plain.upper()


def _base64(secret: str) -> Iterator[str]:
    """What of a base64 text depends on the secret alone, for the three places in a group at which it may begin."""
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        padded = base64.b64encode(bytes(offset) + data + bytes(3)).decode("ascii")
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(data)) // 6
        stable = padded[first:last]
        yield stable
        yield stable.replace("+", "-").replace("/", "_")
