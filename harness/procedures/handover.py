"""The hand-over: what this run has left on the machine, said at every end, Ctrl-C included.

Whoever is about to leave something says so before doing it, and takes it back once it is gone again:

    leave(key) ──▶ act ──▶ seen to be undone ──▶ clear(key)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NOTHING = "nothing was left on the machine"


@dataclass(frozen=True)
class Leftover:
    """One thing that was left, and the exact way to undo it."""

    key: str
    text: str
    undo: str

    def __str__(self) -> str:
        return f"{self.text}; undo: {self.undo}" if self.undo else self.text


class Handover:
    """What is left so far, by key, in the order in which it was left. ``hear`` is told the line whenever it changes."""

    def __init__(self, hear: Callable[[str], None] = lambda _: None) -> None:
        self._left: dict[str, Leftover] = {}
        self._hear = hear

    @property
    def left(self) -> tuple[Leftover, ...]:
        """Everything that is left."""
        return tuple(self._left.values())

    def leave(self, key: str, text: str, undo: str = "") -> None:
        """Something is, or may be, left from here on; the same key again says it anew."""
        self._left[key] = Leftover(key, " ".join(text.split()), undo)
        self._hear(self.line())

    def clear(self, key: str) -> None:
        """It is gone; clearing what is not there is harmless."""
        if self._left.pop(key, None) is not None:
            self._hear(self.line())

    def line(self) -> str:
        """One line for the end of the run."""
        return " | ".join(str(leftover) for leftover in self.left) or NOTHING
