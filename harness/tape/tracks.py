"""Whose traffic it is: a stack of tracks, each with a stopwatch that runs only while the track is on top.

A track is the part of a tape owned by one session fixture (``session/pcie``) or one test
(``pcie/test_links/test_width-jbogA-slot01``). Its own time stands still while another track is on top, so a track replays the same
whatever ran in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.clock import Clock

LOOSE = "session/loose"
"""The track of traffic that no fixture and no test owns."""


class Tracks:
    """The stack of track names and the time each has been on top, in seconds of ``clock``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stack = [LOOSE]
        self._spent: dict[str, float] = {}
        self._since = clock.now()

    @property
    def current(self) -> str:
        """The track on top."""
        return self._stack[-1]

    def time(self) -> float:
        """How long the current track has been on top in all, in seconds."""
        return self._spent.get(self.current, 0.0) + self._clock.now() - self._since

    def enter(self, track: str) -> None:
        """Put ``track`` on top."""
        self._stop()
        self._stack.append(track)

    def leave(self, track: str) -> None:
        """Take ``track`` off the top. It is the caller's mistake if it is not there."""
        if self.current != track:
            raise RuntimeError(f"track {track} is not on top of {self._stack}")
        self._stop()
        self._stack.pop()

    @contextmanager
    def on(self, track: str) -> Iterator[None]:
        """Own the traffic of a block."""
        self.enter(track)
        try:
            yield
        finally:
            self.leave(track)

    def _stop(self) -> None:
        now = self._clock.now()
        self._spent[self.current] = self._spent.get(self.current, 0.0) + now - self._since
        self._since = now
