"""What a person sees while a run goes on: a line a stage, and on a terminal the last thing seen."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

_SILENCE = 120.0
"""Seconds of a wait after which a line is written even where nothing changed, so that a log shows that it goes on."""


class ProgressLines:
    """A watcher that writes to a stream; on a terminal the current line is rewritten in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._stage = ""
        self._cases = 0
        self._outcomes: Counter[str] = Counter()
        self._said = ("", "", 0.0)

    def begins(self, headline: str) -> None:
        self._line(headline)

    def stage_begins(self, stage: str, cases: int) -> None:
        self._stage, self._cases, self._outcomes = stage, cases, Counter()
        self._passing(f"{stage:9} 0/{cases}")

    def waits(self, what: str, seconds: float, seen: object) -> None:
        shown = f"{self._stage:9} {what}: {_clock(seconds)}, last seen {_short(seen)}"
        before, sight, at = self._said
        if self._rewrites:
            self._passing(shown)
        elif (what, _short(seen)) != (before, sight) or seconds - at >= _SILENCE:
            self._line(shown)
            self._said = (what, _short(seen), seconds)

    def case_ends(self, case: str, outcome: str, at: float) -> None:
        self._outcomes[outcome] += 1
        self._passing(f"{self._stage:9} {sum(self._outcomes.values())}/{self._cases} {_clock(at)} {case}")

    def stage_ends(self, stage: str, gate: str, at: float) -> None:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self._outcomes.items() if count)
        self._line(f"{stage:9} {counts or 'nothing ran'}; gate {gate}; at {_clock(at)}")

    def _passing(self, text: str) -> None:
        if self._rewrites:
            self._stream.write(f"\r\x1b[2K{text[:79]}")
            self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(f"\r\x1b[2K{text}\n" if self._rewrites else f"{text}\n")
        self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _short(seen: object) -> str:
    text = str(seen).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
