"""How much of a list or a text goes into the record."""

from __future__ import annotations

from collections.abc import Sequence

LINES = 60
"""Lines of a console or a log: what a person reads of it; the whole of it is evidence beside the record."""

_CHARACTERS = 300


def shortened(text: str) -> str:
    """``text`` on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]} ..."


def last(lines: Sequence[str]) -> list[str]:
    """The last lines, each cut where it is long; the first says how many are left out."""
    kept = [line.rstrip() if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]} ..." for line in lines[-LINES:]]
    left_out = len(lines) - len(kept)
    return [f"... {left_out} earlier", *kept] if left_out > 0 else kept


def moment(at: float | None) -> float | None:
    """A time of the clock to the millisecond, so that two replays write the same."""
    return None if at is None else round(at, 3)
