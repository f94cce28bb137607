"""Sessions: who is logged in, and who may not even try.

log in ──▶ token ──▶ idle for 30 min, logged off, or iDRAC restarted: gone
   └ wrong ──▶ 401; the third within a minute blocks the address for a minute
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from harness.lab.idrac.log import LifecycleLog
from harness.lab.idrac.timeline import Timeline

MOST = 8
"""Sessions at a time: WebServer.1.MaxNumberOfSessions of a recorded iDRAC9 6.00 (NVIDIA/libredfish)."""

IDLE = 1800.0
"""Seconds until an unused session ends: WebServer.1.Timeout of the same recording."""

FAILURES, WINDOW, PENALTY = 3, 60.0, 60.0
"""IPBlocking.1 FailCount, FailWindow and PenaltyTime of the same recording; times in seconds."""


@dataclass
class Session:
    """One login; ``used`` is when it was used last, in seconds of the clock."""

    id: str
    token: str
    user: str
    client: str
    created: float
    used: float


class Sessions:
    """All sessions, and the log-ins that failed; ``blocks_addresses`` is IPBlocking.1.BlockEnable."""

    def __init__(self, timeline: Timeline, log: LifecycleLog, user: str, password: str) -> None:
        self._timeline = timeline
        self._log = log
        self._user = user
        self._password = password
        self._open: dict[str, Session] = {}
        self._count = 0
        self._failures: dict[str, list[float]] = {}
        self._blocked: dict[str, float] = {}
        self.blocks_addresses = True

    @property
    def open(self) -> tuple[Session, ...]:
        """The sessions that have not ended, oldest first."""
        now = self._timeline.now
        self._open = {key: session for key, session in self._open.items() if now - session.used < IDLE}
        return tuple(self._open.values())

    def is_blocked(self, client: str) -> bool:
        """Whether iDRAC drops everything that comes from this address."""
        return self._timeline.now < self._blocked.get(client, 0.0)

    def accepts(self, user: str, password: str, client: str) -> bool:
        """Check credentials; a refusal counts against the address."""
        if (user, password) == (self._user, self._password):
            self._failures.pop(client, None)
            return True
        now = self._timeline.now
        failures = [at for at in self._failures.get(client, []) if now - at < WINDOW] + [now]
        self._failures[client] = failures
        self._log.add("USR0031", user, client, category="Audit")
        if self.blocks_addresses and len(failures) >= FAILURES:
            self._blocked[client] = now + PENALTY
            self._failures[client] = []
            self._log.add("USR0034", user, client, category="Audit")
        return False

    def start(self, user: str, client: str) -> Session | None:
        """Open a session, or None when all are in use."""
        if len(self.open) >= MOST:
            return None
        self._count += 1
        now = self._timeline.now
        session = Session(str(self._count), secrets.token_hex(16), user, client, now, now)
        self._open[session.id] = session
        self._log.add("USR0030", user, client, category="Audit")
        return session

    def use(self, token: str) -> Session | None:
        """The open session with this token, or None."""
        session = next((session for session in self.open if session.token == token), None)
        if session is not None:
            session.used = self._timeline.now
        return session

    def find(self, session_id: str) -> Session | None:
        """The open session of that id, or None."""
        return next((session for session in self.open if session.id == session_id), None)

    def end(self, session_id: str) -> None:
        """Log off."""
        session = self._open.pop(session_id)
        self._log.add("USR0032", session.user, session.client, category="Audit")

    def drop_all(self) -> None:
        """Forget everybody, as a restart of iDRAC does."""
        self._open.clear()
        self._failures.clear()
        self._blocked.clear()
