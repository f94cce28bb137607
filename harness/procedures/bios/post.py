"""The start that carries a BIOS job out, and the one after it: does POST go on, and what does the log say of the new settings?

reset ──▶ POST ──▶ the job's end ──▶ POST with the new settings ──▶ through
           │             └──────────────── judged ────────────────────┘
           └─ with the old settings: what it logs says nothing of the new ones
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from harness.devices.idrac_facts import LogEntry
from harness.devices.jobs import CANCELLED, FAILED, SUCCEEDED
from harness.errors import Blame, Timeout
from harness.procedures.bios.attempt import Attempt
from harness.procedures.bios.story import EVENTS, BiosStory
from harness.procedures.boot.post import RESTARTS, Sight, sight
from harness.procedures.screen import take_screen
from harness.procedures.stop import Stop
from harness.units import duration


@dataclass
class Post:
    """Looks at the host, and keeps each place it was seen in. ``has_restarted`` from the moment on at which a restart shows."""

    attempt: Attempt
    sights: list[Sight] = field(default_factory=list)

    @property
    def last(self) -> Sight | None:
        """The place it is in, as far as it was seen."""
        return self.sights[-1] if self.sights else None

    def look(self) -> None:
        """One look; nothing while the iDRAC does not answer."""
        idrac = self.attempt.idrac
        now = self.attempt.endurance.ask(lambda: sight(idrac.lc_status(), idrac.system()))
        if now is None:
            return
        if self.last is None or not now.same_place(self.last):
            self.sights.append(now)
        if self.attempt.story.restarted_at is None and (now.is_underway or self._is_newly_halted(now)):
            self.attempt.tell(restarted_at=now.at)

    def standstill(self, check: str) -> Stop | None:
        """A start that waits for a key, or in which nothing has moved for too long: then no job goes on either."""
        attempt, last = self.attempt, self.last
        job = attempt.story.job
        if last is None or last.is_through or attempt.story.restarted_at is None or attempt.endurance.is_lost:
            return None
        if last.is_halted:
            return Stop(check, f"POST stopped and waits for a key: {last}; {job}")
        waited = attempt.idrac.clock.now() - max(last.at, job.at if job is not None else 0.0)
        if waited < attempt.limits.no_progress:
            return None
        if last.is_attended:
            text = f"somebody took the host into {last} and did not leave it for {duration(waited)}; {job}"
            return Stop(check, text, Blame.BENCH)
        return Stop(check, f"no progress in POST for {duration(waited)}: {last}; {job}")

    def _is_newly_halted(self, now: Sight) -> bool:
        """A host that stood at a prompt before shows the same until it obeys; one that did not has restarted by then."""
        return now.is_halted and now.server != self.attempt.story.preflight.lc.server


def with_screen(attempt: Attempt, stop: Stop) -> Stop:
    """What the screen shows is kept before anything else is done: it says what the start waits for."""
    attempt.tell(screen=take_screen(attempt.idrac, with_video=True))
    return replace(stop, text="\n".join((stop.text, *attempt.story.screen.told)))


def mark_log(attempt: Attempt) -> Stop | None:
    """Remember the newest entry of the Lifecycle log: all after it came of what is about to be done."""
    newest = attempt.idrac.lc_mark()
    attempt.mark = 0 if newest is None else newest.number
    return None


def await_post(attempt: Attempt) -> Stop | None:
    """Wait until the start with the new settings is through, and read what it logged: they may not let the machine start."""
    if attempt.story.is_settled:
        return None
    post = Post(attempt)

    def look() -> Sight | None:
        post.look()
        return post.last

    def is_over(seen: Sight | None) -> bool:
        is_here = seen is not None and not attempt.endurance.is_lost
        return is_here and ((post.last is not None and post.last.is_through) or post.standstill(EVENTS) is not None)

    within = attempt.limits.within
    try:
        attempt.idrac.clock.until(look, is_over, what="the host to be through with POST", every=10, within=within)
    except Timeout:
        return Stop(EVENTS, f"the values are set, but in {duration(within)} the host was not through POST: {post.last}")
    attempt.tell(log=attempt.endurance.ask(lambda: attempt.idrac.lc_log(attempt.mark)) or ())
    if (stop := post.standstill(EVENTS)) is not None:
        return with_screen(attempt, replace(stop, text=f"the values are set, but {stop.text}"))
    return None


def since_end(story: BiosStory) -> tuple[LogEntry, ...]:
    """What was logged since the job came to its end; since the last restart where the log does not tell the end."""
    ends = [at for at, entry in enumerate(story.log) if _ends(entry, story.job_id)]
    starts = [at for at, entry in enumerate(story.log) if entry.message_id in RESTARTS]
    first = (ends or starts or [-1])[-1]
    return story.log[first + 1 :]


def forbidden(story: BiosStory, ids: Collection[str]) -> tuple[LogEntry, ...]:
    """The entries that a platform forbids, of every start with new settings there was."""
    stories = (*story.earlier, story)
    return tuple(entry for each in stories for entry in since_end(each) if entry.message_id in ids)


def _ends(entry: LogEntry, job_id: str) -> bool:
    is_named = bool(job_id) and (job_id in entry.arguments or job_id in entry.text)
    return is_named and entry.message_id in SUCCEEDED | FAILED | CANCELLED
