"""Why a procedure stopped, and which check says so.

A procedure never raises for what a check should judge: it stops, and its story carries the stop. The check that is named fails with
it; the checks after that one are blocked by it; the ones before it judge what they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import BenchError, Blame, Blocked, BringupError, DeviceError


@dataclass(frozen=True)
class Stop:
    """``check`` is the id of the check that fails, ``text`` what it says, ``blame`` product or bench."""

    check: str
    text: str
    blame: Blame = Blame.PRODUCT

    @property
    def error(self) -> BringupError:
        """The stop as the exception that the check raises."""
        return BenchError(self.text) if self.blame is Blame.BENCH else DeviceError(self.text)


def pass_or_raise(stop: Stop | None, order: Sequence[str], check: str) -> None:
    """Raise the stop's error in its own check and Blocked in every later one of ``order``; pass before it."""
    if stop is None:
        return
    if stop.check == check:
        raise stop.error
    if stop.check not in order or order.index(check) > order.index(stop.check):
        raise Blocked(f"BLOCKED by {stop.check}: {stop.text}")
