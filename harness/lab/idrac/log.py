"""The Lifecycle Controller log: entries that are only ever added, numbered and dated on the machine's own clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from harness.lab.idrac import messages
from harness.lab.idrac.timeline import Timeline

ZONE = timezone(timedelta(hours=-6))
"""The zone the simulated iDRAC is set to: an offset that is not zero, so that clients meet one."""

EPOCH = datetime(2026, 1, 5, 14, 0, tzinfo=UTC)
"""The calendar time of the clock's second 0. Fixed: two runs of the model write the same dates."""

FIRST = 4101
"""The number of the first entry; a used machine never begins at 1."""


def date(seconds: float) -> datetime:
    """The machine's calendar time at ``seconds`` of its clock, whole seconds as iDRAC writes them."""
    return (EPOCH + timedelta(seconds=int(seconds // 1))).astimezone(ZONE)


def stamp(seconds: float) -> str:
    """The date with its offset, as Redfish resources carry it."""
    return date(seconds).isoformat()


def bare_stamp(seconds: float) -> str:
    """The date without offset, as Dell's own job resources carry it."""
    return date(seconds).replace(tzinfo=None).isoformat()


@dataclass(frozen=True)
class LogEntry:
    """One entry; ``at`` in seconds of the clock, negative before the run, ``message_id`` bare (``UEFI0134``)."""

    number: int
    at: float
    message_id: str
    arguments: tuple[str, ...]
    category: str

    @property
    def severity(self) -> str:
        """The severity as Redfish log entries spell it: an informational message is OK."""
        severity = messages.severity(self.message_id)
        return "OK" if severity == "Informational" else severity


class LifecycleLog:
    """The entries, oldest first."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.entries: list[LogEntry] = []

    def add(self, message_id: str, *arguments: str, category: str = "System", at: float | None = None) -> None:
        """Add an entry dated now, or ``at`` for the history before the run. Raises KeyError for an unknown id."""
        messages.severity(message_id)
        when = self._timeline.now if at is None else at
        self.entries.append(LogEntry(FIRST + len(self.entries), when, message_id, arguments, category))
