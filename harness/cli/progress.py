"""What a person sees while a run goes on: a line a stage, and on a terminal the last thing seen.

terminal      one line is rewritten in place, as wide as the terminal is at that moment
log, pipe     a line when something else is waited for, when its state changes, or when a wait has been silent for long
nobody        a stream that takes nothing any more is left alone, and the run goes on to its end
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from harness.record.lines import CaseOutcome
from harness.report.summary import gate_word
from harness.report.text import one_line

_SILENCE = 120.0
"""Seconds of a wait after which a line is written even where nothing changed, so that a log shows that it goes on."""

_WIDTH = 80
"""Columns of a terminal that does not say how many it has."""

_SIGHT = 110
_FAILED = (CaseOutcome.FAILED, CaseOutcome.ERROR)


class ProgressLines:
    """A watcher that writes to a stream; ``gone`` is why the stream takes nothing any more, None while it does."""

    def __init__(self, stream: TextIO) -> None:
        self.gone: OSError | ValueError | None = None
        self._stream = stream
        self._rewrites = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._stage = ""
        self._cases = 0
        self._outcomes: Counter[str] = Counter()
        self._wait = ""
        self._states: set[str] = set()
        self._said_at = 0.0

    def begins(self, headline: str) -> None:
        self._line(headline)

    def stage_begins(self, stage: str, cases: int) -> None:
        self._stage, self._cases, self._outcomes = stage, cases, Counter()
        self._wait = ""
        self._passing(f"{stage:9} 0/{cases}")

    def waits(self, what: str, seconds: float, seen: object) -> None:
        sight = _sight(seen)
        shown = f"{self._stage:9} {what}: {_clock(seconds)}, {sight}"
        if self._rewrites:
            self._passing(shown)
        elif self._is_news(what, seconds, re.sub(r"\d+", "", sight)):
            self._line(shown)

    def case_ends(self, case: str, outcome: str, at: float) -> None:
        self._outcomes[CaseOutcome.FAILED if outcome in _FAILED else outcome] += 1
        self._passing(f"{self._stage:9} {sum(self._outcomes.values())}/{self._cases} {_clock(at)} {case}")

    def stage_ends(self, stage: str, gate: str, at: float) -> None:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self._outcomes.items() if count)
        left = f"; gate {gate}" if gate_word(gate, self._outcomes) == gate else ""
        self._line(f"{stage:9} {counts or 'nothing ran'}{left}; at {_clock(at)}")

    def _is_news(self, what: str, seconds: float, state: str) -> bool:
        """True for another wait, for a state that this wait has not shown yet, and after a long silence."""
        if what != self._wait:
            self._wait, self._states = what, set()
        elif seconds < self._said_at:  # the same wait began again
            self._said_at = seconds
        if state in self._states and seconds - self._said_at < _SILENCE:
            return False
        self._states.add(state)
        self._said_at = seconds
        return True

    def _passing(self, text: str) -> None:
        if self._rewrites:
            self._write(f"\r\x1b[2K{_cut(one_line(text), self._width() - 1)}")

    def _line(self, text: str) -> None:
        self._write(f"\r\x1b[2K{one_line(text)}\n" if self._rewrites else f"{one_line(text)}\n")

    def _write(self, text: str) -> None:
        """Write, or note once that nobody takes it: a run that touches a machine is not given up for want of a reader."""
        if self.gone is not None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self.gone = error

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        except (OSError, ValueError):
            return _WIDTH


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _sight(seen: object) -> str:
    text = "" if seen is None or seen in ((), []) else one_line(str(seen))
    if not text:
        return "nothing yet"
    return f"last seen {text if len(text) <= _SIGHT else f'{text[: _SIGHT - 3]}...'}"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width))
