"""Redaction of a stream: secrets are found on the joined bytes, so that the cut between two reads cannot split one.

    fed        "login: mo"   "del-lab-only\\r\\n"    the secret is model-lab-only
    returned   nothing yet   "login: <redacted>", "\\r\\n"

A piece comes back when none of its bytes can be the beginning of a secret any more. Line ends count for nothing while a secret
is looked for, for a terminal breaks a long line wherever its edge is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.tape.events import REDACTED

_MARK = REDACTED.encode("ascii")
_LINE_END = re.compile(rb" ?\r\n?|\n")


@dataclass(frozen=True)
class _Span:
    """Bytes ``start`` to ``end`` of what is pending, which are a secret or may become one."""

    start: int
    end: int


class StreamRedactor:
    """A filter that is fed pieces and returns the pieces that are settled, oldest first, one for each that was fed.

    With ``mark_every_piece`` each piece that held some of a secret shows a mark; without, only the first of them does.
    """

    def __init__(self, forms: Callable[[], tuple[str, ...]], *, mark_every_piece: bool = False) -> None:
        self._forms = forms
        self._mark_every_piece = mark_every_piece
        self._pieces: list[bytes] = []
        self._known: tuple[str, ...] = ()
        self._pattern = re.compile(re.escape(_MARK))
        self._beginnings: frozenset[bytes] = frozenset()
        self._longest = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add a piece; return those that are settled now."""
        self._pieces.append(data)
        spans, pending = self._find()
        return self._release(spans, self._settled(spans, pending))

    def flush(self) -> list[bytes]:
        """Return what was held back: the stream has ended, so a beginning was only a beginning."""
        spans, _pending = self._find(is_over=True)
        return self._release(spans, len(self._pieces))

    def shown(self) -> bytes:
        """The piece fed last as it may be shown at once: what may become a secret is masked already."""
        if not self._pieces:
            return b""
        spans, pending = self._find()
        whole = sum(map(len, self._pieces))
        return self._masked([*spans, *([_Span(pending, whole)] if pending < whole else [])])[-1]

    def _find(self, *, is_over: bool = False) -> tuple[list[_Span], int]:
        """The secrets in what is pending, and where the bytes begin that may become another one (none if the stream is over)."""
        self._heed_forms()
        joined = b"".join(self._pieces)
        plain, places = _without_line_ends(joined)
        pending = len(plain) if is_over else self._beginning(plain)
        spans: list[_Span] = []
        position = 0
        while (match := self._pattern.search(plain, position)) is not None:
            if match.start() >= pending:
                break
            position = match.end()
            if match[0] != _MARK:
                spans.append(_Span(places[match.start()], places[match.end() - 1] + 1))
            pending = len(plain) if is_over else position + self._beginning(plain[position:])
        return spans, places[pending] if pending < len(places) else len(joined)

    def _heed_forms(self) -> None:
        forms = self._forms()
        if forms is self._known:
            return
        self._known = forms
        # a secret of several lines (a private key) is looked for as what is searched: without line ends
        coded = [each for form in forms if (each := _LINE_END.sub(b"", form.encode("utf-8", "surrogatepass")))]
        self._pattern = re.compile(b"|".join(re.escape(form) for form in (_MARK, *coded)))
        self._beginnings = frozenset(form[:length] for form in coded for length in range(1, len(form)))
        self._longest = max(map(len, self._beginnings), default=0)

    def _beginning(self, plain: bytes) -> int:
        """Where the longest end of ``plain`` begins that a secret could begin with; its length where there is none.

        A space at the end may turn out to belong to a line end.
        """
        for length in range(min(self._longest + 1, len(plain)), 0, -1):
            end = plain[-length:]
            if end in self._beginnings or (length > 1 and end.removesuffix(b" ") in self._beginnings):
                return len(plain) - length
        return len(plain)

    def _settled(self, spans: list[_Span], pending: int) -> int:
        """How many pieces end before ``pending`` and not inside a secret."""
        settled, end = 0, 0
        for number, piece in enumerate(self._pieces, start=1):
            end += len(piece)
            if end > pending:
                break
            if not any(span.start < end < span.end for span in spans):
                settled = number
        return settled

    def _release(self, spans: list[_Span], count: int) -> list[bytes]:
        masked = self._masked(spans)[:count]
        self._pieces = self._pieces[count:]
        return masked

    def _masked(self, spans: list[_Span]) -> list[bytes]:
        """The pending pieces with a mark in place of each span."""
        masked, start = [], 0
        for piece in self._pieces:
            masked.append(self._masked_piece(piece, start, spans))
            start += len(piece)
        return masked

    def _masked_piece(self, piece: bytes, start: int, spans: list[_Span]) -> bytes:
        kept, position, end = [], start, start + len(piece)
        for span in spans:
            if span.end <= start or span.start >= end:
                continue
            kept.append(piece[position - start : max(span.start, start) - start])
            if self._mark_every_piece or span.start >= start:
                kept.append(_MARK)
            position = min(span.end, end)
        return b"".join(kept) + piece[position - start :]


def _without_line_ends(data: bytes) -> tuple[bytes, list[int]]:
    """The bytes that are no line end, and where each of them was."""
    dropped: set[int] = set()
    for match in _LINE_END.finditer(data):
        dropped.update(range(*match.span()))
    places = [place for place in range(len(data)) if place not in dropped]
    return bytes(data[place] for place in places), places
