"""A clock that runs faster than the wall's, for a simulated machine that people and other programs use in real time."""

from __future__ import annotations

from harness.clock import Clock, Deadline


class FastClock(Clock):
    """Real time, ``speed`` times as fast: at 60 a POST of ten minutes takes ten seconds."""

    def __init__(self, speed: float, wall: Clock) -> None:
        super().__init__()
        self._speed = speed
        self._wall = wall

    def now(self) -> float:
        return self._wall.now() * self._speed

    def sleep(self, seconds: float) -> None:
        self._wall.sleep(seconds / self._speed)

    def doze(self, every: float, deadline: Deadline) -> None:
        self.sleep(min(every, deadline.left(self)))
