"""Whose traffic it is: a stack of tracks, each with a stopwatch that runs only while the track is on top.

A track is the part of a tape owned by one session fixture (``session/pcie``) or one test
(``pcie/test_links/test_width-jbogA-slot01``). Its own time stands still while another track is on top, so a track replays the same
whatever ran in between.

    clock       0    1    2    3    4    5    6
    on top      A    A    B    B    B    A    A
    A's time    0    1    2    2    2    2    3
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from harness.clock import Clock
from harness.errors import TapeError

LOOSE = "session/loose"
"""The track of traffic that no fixture and no test owns."""

_STEP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@=-]*")
_LONGEST = 120
"""Of one step, in characters: file systems end at 255 bytes and suffixes come on top."""


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


def slug(text: str) -> str:
    """Make ``text`` a step of a path: letters, digits and ``._+-``; a digest stands for what is cut off.

    ``test_width[jbogA/slot01]`` becomes ``test_width-jbogA-slot01``.
    """
    plain = re.sub(r"[^A-Za-z0-9._+]+", "-", text).strip("-.") or "none"
    if len(plain) <= _LONGEST:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{plain[: _LONGEST - 9].rstrip('-.')}-{digest}"


def track_name(*steps: str) -> str:
    """Name a track by its steps, as in ``track_name("pcie", "test_links", "test_width[jbogA/slot01]")``."""
    return "/".join(slug(step) for step in steps)


def check_track(track: str) -> str:
    """Return a track's name. Raises TapeError for one that is no path inside a tape, such as ``../x``."""
    steps = track.split("/")
    if steps[0] == "bodies" or not all(_STEP.fullmatch(step) and len(step) <= 2 * _LONGEST for step in steps):
        raise TapeError(f"{track!r} is not the name of a track: steps of letters, digits and ._+@=- with slashes between them")
    return track
