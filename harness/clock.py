"""Time: the only module that may sleep or look at a wall clock.

    Clock
    ├─ WallClock        hardware and QEMU: sleeping sleeps
    └─ VirtualClock     replay and model: sleeping jumps; alarms say when something recorded happens next

A duration that a run reports is always a difference of ``now()`` or of the ``at`` of two answers, so twelve minutes of
reboot take milliseconds under a virtual clock and are still reported as twelve minutes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from harness.errors import Timeout

Seen = TypeVar("Seen")

Progress = Callable[[str, float, object], None]
"""Called at each look of a wait with (what is waited for, seconds waited so far, last thing seen)."""


class Alarm(Protocol):
    """Something that knows when the next recorded change of what was just looked at happens."""

    def next_after(self, now: float) -> float | None:
        """The time of the next sample of anything read since the last call, or None."""


class Clock(ABC):
    """Seconds since the start of the run, and the one way to wait."""

    def __init__(self) -> None:
        self.progress: Progress | None = None

    @abstractmethod
    def now(self) -> float:
        """Seconds since the clock was made."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""

    @abstractmethod
    def doze(self, every: float, deadline: Deadline) -> None:
        """Let time pass until it is worth looking again: at most until ``deadline``."""

    def until(
        self,
        look: Callable[[], Seen],
        done: Callable[[Seen], bool],
        *,
        what: str,
        every: float,
        within: float,
    ) -> Seen:
        """Look until ``done`` holds of what is seen and return it.

        Raises Timeout, carrying the last thing seen, when ``within`` seconds have passed. There is always at least one
        look, and one at the deadline itself.
        """
        started = self.now()
        deadline = Deadline.after(self, within)
        while True:
            passed = deadline.passed(self)
            seen = look()
            if self.progress is not None:
                self.progress(what, self.now() - started, seen)
            if done(seen):
                return seen
            if passed or deadline.passed(self):
                raise Timeout(what, within, seen)
            self.doze(every, deadline)


@dataclass(frozen=True)
class Deadline:
    """A point in time (seconds on one clock): it composes where a duration does not."""

    at: float

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> Deadline:
        """The deadline ``seconds`` from now."""
        return cls(clock.now() + seconds)

    def left(self, clock: Clock) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - clock.now())

    def passed(self, clock: Clock) -> bool:
        """True from the moment of the deadline on."""
        return clock.now() >= self.at


class WallClock(Clock):
    """Real time, monotonic."""

    def __init__(self) -> None:
        super().__init__()
        self._zero = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._zero

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def doze(self, every: float, deadline: Deadline) -> None:
        self.sleep(min(every, deadline.left(self)))


class VirtualClock(Clock):
    """Time that jumps. One thread; replay and the model share it with the code under test."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._alarms: list[Alarm] = []

    def heed(self, alarm: Alarm) -> None:
        """Ask ``alarm``, before dozing, when something recorded happens next."""
        self._alarms.append(alarm)

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)

    def doze(self, every: float, deadline: Deadline) -> None:
        wakes = [wake for alarm in self._alarms if (wake := alarm.next_after(self._now)) is not None]
        wake = min(wakes) if wakes else self._now + every
        self._now = max(self._now, min(wake, deadline.at))


def wall_time() -> datetime:
    """The calendar time in UTC, for headers of records and tapes only; never for durations."""
    return datetime.now(UTC)
