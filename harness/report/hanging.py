"""Long lines on a narrow console: what wraps stays in the column where it began.

    next    reseat the card in the slot; swap it with a good neighbour
            and see whether the fault moves with it
any other line, which is broken like
  this
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

_LABELLED = re.compile(r"(?P<label>\s*(?:\S+ )*?\S+\s{2,})(?P<value>\S.*)")
"""A label of a word or a few, at least two blanks, and a value."""

_LABEL = 24
_STEP = 2
_NARROWEST = 20
"""Columns that a value must have left; a console that is narrower gets no hanging indentation."""


def hang(console: Console, line: Text) -> Iterator[Text]:
    """``line`` as the lines it takes on ``console``."""
    width = console.width
    lead = len(line.plain) - len(line.plain.lstrip(" "))
    column = _column_of_value(line.plain) or lead + _STEP
    if width - column < _NARROWEST:
        yield from line.wrap(console, width, overflow="fold")
        return
    first, rest = _first_line(console, line, width)
    yield first
    if rest.plain:
        for more in rest.wrap(console, width - column, overflow="fold"):
            more.rstrip()
            yield Text(" " * column).append_text(more)


def _column_of_value(line: str) -> int:
    found = _LABELLED.match(line)
    return len(found["label"]) if found is not None and len(found["label"]) <= _LABEL else 0


def _first_line(console: Console, line: Text, width: int) -> tuple[Text, Text]:
    """What fits into the first line, and what is left of the text."""
    first = line.wrap(console, width, overflow="fold")[0]
    first.rstrip()
    rest = line[len(first.plain) :]
    blanks = len(rest.plain) - len(rest.plain.lstrip(" "))
    return first, rest[blanks:]
