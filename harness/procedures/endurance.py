"""Enduring a BMC that goes away in the middle: losses are counted and timed, and end the wait only when they last too long.

answered ──(no answer)──▶ lost ──(answer)──▶ answered        one Loss, with its seconds
                            └──(LONGEST seconds)──▶ the lane's own error
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.clock import Clock
from harness.devices.redfish import NOT_READY, suffix
from harness.errors import BringupError, RedfishError, Timeout, Unreachable, Unreadable

Seen = TypeVar("Seen")

LONGEST = 900.0
"""Seconds without any answer after which the BMC is given up. A restart takes an iDRAC9 three to five minutes
(NVIDIA/libredfish allows at least 180 s for a virtual AC cycle)."""


@dataclass(frozen=True)
class Loss:
    """A time without answers: clock seconds of the first failed question and of the next answer, and the first error."""

    since: float
    until: float
    error: str

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.until - self.since

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s without an answer ({self.error})"


class Endurance:
    """Asks on behalf of a wait, and keeps the losses."""

    def __init__(self, clock: Clock, longest: float = LONGEST) -> None:
        self._clock = clock
        self._longest = longest
        self._since: float | None = None
        self._error = ""
        self._losses: list[Loss] = []

    @property
    def is_lost(self) -> bool:
        """True while the last question was not answered."""
        return self._since is not None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All losses so far, a running one included."""
        running = [] if self._since is None else [Loss(self._since, self._clock.now(), self._error)]
        return (*self._losses, *running)

    def ask(self, look: Callable[[], Seen]) -> Seen | None:
        """What ``look`` returns, or None while nobody answers. Raises the lane's error once that has lasted too long."""
        started = self._clock.now()
        try:
            seen = look()
        except BringupError as error:
            if not _is_loss(error):
                raise
            if self._since is None:
                self._since, self._error = started, str(error)
            if self._clock.now() - self._since > self._longest:
                raise
            return None
        if self._since is not None:
            self._losses.append(Loss(self._since, self._clock.now(), self._error))
            self._since = None
        return seen


def _is_loss(error: BringupError) -> bool:
    """No answer at all, one that cannot be read, or one that says "not ready" longer than a read is patient for."""
    if isinstance(error, RedfishError):
        return error.status >= 500 or any(suffix(message_id) in NOT_READY for message_id in error.message_ids)
    return isinstance(error, Unreachable | Timeout | Unreadable)
