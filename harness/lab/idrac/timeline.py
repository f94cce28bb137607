"""What will happen, in order of time. Nothing runs in the background: what is due happens when somebody looks.

    clock 0 ──●────●───────●──────────▶        settle() at ▲ runs everything left of it, each at its own time
              a    b       c     ▲

So a clock that jumps from second 10 to second 700 leaves the same history, with the same times, as one that ticked.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from harness.clock import Clock

Action = Callable[[], None]


class Timeline:
    """Actions to come. ``tag`` groups actions that are dropped together, as a reset drops the rest of a POST."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._coming: list[tuple[float, int, str, Action]] = []
        self._count = 0
        self._acting: float | None = None

    @property
    def now(self) -> float:
        """The time of the action that is running, else the clock's; in seconds."""
        return self._clock.now() if self._acting is None else self._acting

    def after(self, seconds: float, action: Action, *, tag: str = "") -> None:
        """Let ``action`` happen ``seconds`` from ``now``."""
        self._count += 1
        heapq.heappush(self._coming, (self.now + seconds, self._count, tag, action))

    def drop(self, tag: str) -> None:
        """Forget every action of this tag."""
        self._coming = [entry for entry in self._coming if entry[2] != tag]
        heapq.heapify(self._coming)

    def next(self) -> float | None:
        """When the next action is due, or None when nothing will ever happen by itself."""
        return self._coming[0][0] if self._coming else None

    def settle(self) -> None:
        """Let everything happen that is due. An action that settles again changes nothing."""
        if self._acting is not None:
            return
        try:
            while self._coming and self._coming[0][0] <= self._clock.now():
                self._acting, _, _, action = heapq.heappop(self._coming)
                action()
        finally:
            self._acting = None
