"""Follow the job: seen Scheduled, then one restart, then its end. Restarts of the host and of the iDRAC are lived through.

await_schedule ──▶ restart ──▶ follow ─┬─ succeeded, by id and in both views
                                       ├─ failed, cancelled
                                       ├─ vanished from every view
                       ├─ POST waits for a key, or stands still
                                       └─ the host never restarted
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.devices.jobs import CANCELLED, FAILED, LC_IN_USE, NEVER_BEGAN, SUCCEEDED, Job, Phase
from harness.errors import Blame, Timeout
from harness.procedures.bios.attempt import Attempt
from harness.procedures.bios.post import Post, with_screen
from harness.procedures.bios.preflight import JOBS, PENDING, foreign_values
from harness.procedures.bios.story import BEFORE_RESET, RESULT, STATE
from harness.procedures.boot.post import Sight
from harness.procedures.clearance import hindrance
from harness.procedures.host_state import UNDERWAY
from harness.procedures.power import Wanted, send_reset
from harness.procedures.stop import Stop

SCHEDULING = 180.0
"""Seconds from the PATCH until the job says Scheduled; recorded ones took under a minute."""

RESTARTING = 300.0
"""Seconds from the reset until something shows that the host restarts."""

LEAST = 1200.0
"""The least time a job is given after the reset. Recorded ones ran 4 min 20 s and 6 min 47 s (NVIDIA/libredfish tests/mockups),
POST not included; Dell's Ansible modules give theirs 1200 s."""

VANISHED = 60.0
"""Seconds after which a job that no view knows any more is gone. Right after creation one may be 404 for a moment
(openstack/sushy, oem/dell/asynchronous.py)."""

MOVING = 60.0
"""Seconds in which a reset that a run sent right before it was cut off shows: it is not sent again while it may be under way."""

LOOKED_BACK = 100
"""Entries of the Lifecycle log in which the end of a vanished job is looked for: two pages."""

_ENDS = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


def await_schedule(attempt: Attempt) -> Stop | None:
    """The job must be seen Scheduled before anything is restarted."""
    if attempt.story.is_settled:
        return None
    job_id = attempt.story.job_id
    attempt.leave(f"{job_id} is to apply them")
    try:
        job = attempt.idrac.clock.until(
            attempt.look_at_job,
            lambda job: job is not None and job.phase is not Phase.WAITING,
            what=f"{job_id} to be scheduled",
            every=5,
            within=SCHEDULING,
        )
    except Timeout as timeout:
        return _never_scheduled(attempt, timeout.seconds)
    return _failure(attempt, job) if job is None or job.phase in (Phase.FAILED, Phase.CANCELLED) else None


def restart(attempt: Attempt) -> Stop | None:
    """Restart the host once, after a last look at everything that the restart would set off.

    A job that is further than Scheduled, or a host that is restarting, got its restart from somebody else: then none is sent.
    """
    job = attempt.story.job
    if attempt.story.is_settled or (job is not None and job.phase is not Phase.SCHEDULED):
        return None
    if attempt.story.is_resumed and not attempt.story.writes and _moves_by_itself(attempt):
        return None
    if foreign := foreign_values(attempt.idrac.bios().pending, attempt.story.plan.values):
        names = ", ".join(sorted(foreign))
        return Stop(
            PENDING, f"somebody staged {names} beside ours, which a restart would apply; nothing was restarted", Blame.BENCH
        )
    lc = attempt.idrac.lc_status()
    if lc.server in UNDERWAY:
        return None
    if against := hindrance(attempt.idrac, lc, tag=attempt.tag, own=attempt.story.job_id):
        return Stop(JOBS, f"{against}; nothing was restarted", Blame.BENCH)
    attempt.leave_at_work()
    attempt.tell(reset=send_reset(attempt.idrac, Wanted.RESTART, expected_tag=attempt.tag))
    return None


def follow(attempt: Attempt) -> Stop | None:
    """Wait for the job's end. 100 % is no end, and Completed only with a good message id in both views."""
    if attempt.story.is_settled:
        return None
    attempt.leave_at_work()
    within = max(LEAST, attempt.limits.within)
    watch = _Watch(attempt)
    what = f"{attempt.story.job_id} to complete"
    try:
        job = attempt.idrac.clock.until(watch.look, watch.is_over, what=what, every=15, within=within).job
    except Timeout:
        began = attempt.story.seconds_to(Phase.RUNNING) is not None
        return Stop(RESULT if began else STATE, f"{attempt.story.job} did not end within {within:g} s")
    if job is None or job.phase not in _ENDS:
        if stop := watch.standstill():
            return with_screen(attempt, stop)
        told = watch.told_by_log()
        if told is None:
            return watch.loss(job)
        attempt.note(told)
        return None if told.phase is Phase.SUCCEEDED else _failure(attempt, told)
    both = attempt.endurance.ask(lambda: attempt.idrac.job(attempt.story.job_id, both=True))
    if both is not None:
        attempt.note(both)
        job = both
    return None if job.phase is Phase.SUCCEEDED else _failure(attempt, job)


def _moves_by_itself(attempt: Attempt) -> bool:
    """Whether the host restarts, or the job runs, within MOVING seconds without us."""

    def look() -> bool:
        job, lc = attempt.look_at_job(), attempt.endurance.ask(attempt.idrac.lc_status)
        has_begun = job is not None and job.phase is not Phase.SCHEDULED
        return has_begun or (lc is not None and lc.server in UNDERWAY)

    try:
        return attempt.idrac.clock.until(look, bool, what="a restart that may be under way to show", every=10, within=MOVING)
    except Timeout:
        return False


@dataclass(frozen=True)
class _Glance:
    """One look at both, as a line of progress shows it."""

    job: Job | None
    host: Sight | None

    def __str__(self) -> str:
        return "; ".join(str(seen) for seen in (self.job or "no answer", self.host) if seen is not None)


@dataclass
class _Watch:
    """Looks at the job, and beside it whether the host restarts at all and its POST goes on."""

    attempt: Attempt
    unseen_since: float | None = None
    post: Post = field(init=False)

    def __post_init__(self) -> None:
        self.post = Post(self.attempt)

    def look(self) -> _Glance:
        attempt = self.attempt
        job = attempt.look_at_job()
        now = attempt.idrac.clock.now()
        is_lost = attempt.endurance.is_lost
        if job is not None or is_lost:
            self.unseen_since = None
        elif self.unseen_since is None:
            self.unseen_since = now
        if not is_lost and (job is None or job.phase not in _ENDS):
            self.post.look()
        return _Glance(job, self.post.last)

    def is_over(self, seen: _Glance) -> bool:
        if seen.job is not None and seen.job.phase in _ENDS:
            return True
        return self._has_vanished() or self._was_never_restarted() or self.standstill() is not None

    def standstill(self) -> Stop | None:
        """A start that does not go on, blamed on the job's state or on its result, as far as it got."""
        return self.post.standstill(STATE if self.attempt.story.seconds_to(Phase.RUNNING) is None else RESULT)

    def told_by_log(self) -> Job | None:
        """The end of a job that no view knows any more, as the Lifecycle log has it; None where that does not say it either."""
        attempt = self.attempt
        last = attempt.story.job
        mark = attempt.endurance.ask(attempt.idrac.lc_mark) if last is not None and self._has_vanished() else None
        if last is None or mark is None:
            return None
        entries = attempt.endurance.ask(lambda: attempt.idrac.lc_log(max(0, mark.number - LOOKED_BACK))) or ()
        ends = [
            each
            for each in entries
            if (last.id in each.arguments or last.id in each.text) and each.message_id in SUCCEEDED | FAILED | CANCELLED
        ]
        if not ends:
            return None
        state = "Completed" if ends[-1].message_id in SUCCEEDED else "Failed"
        return replace(last, state=state, message_id=ends[-1].message_id, at=attempt.idrac.clock.now())

    def loss(self, job: Job | None) -> Stop:
        if self._has_vanished():
            return Stop(RESULT, f"{self.attempt.story.job_id} vanished from every view before it said how it ended")
        reset = self.attempt.story.reset
        return Stop(
            STATE,
            f"{job}: {reset.kind if reset else 'a reset'} was accepted, but the host did not restart within {RESTARTING:g} s",
        )

    def _has_vanished(self) -> bool:
        return self.unseen_since is not None and self.attempt.idrac.clock.now() - self.unseen_since >= VANISHED

    def _was_never_restarted(self) -> bool:
        story = self.attempt.story
        if story.reset is None or story.restarted_at is not None or story.seconds_to(Phase.RUNNING) is not None:
            return False
        return not self.attempt.endurance.is_lost and self.attempt.idrac.clock.now() - story.reset.at >= RESTARTING


def _never_scheduled(attempt: Attempt, seconds: float) -> Stop:
    job = attempt.story.job
    if job is None:
        return Stop(BEFORE_RESET, f"{attempt.story.job_id} was named and never seen in the queue; nothing was restarted")
    if job.message_id in LC_IN_USE:
        return Stop(STATE, f"{job}: somebody uses the Lifecycle Controller; nothing was restarted", Blame.BENCH)
    return Stop(STATE, f"{job} was not scheduled within {seconds:g} s; nothing was restarted")


def _failure(attempt: Attempt, job: Job | None) -> Stop:
    """A job that never began fails its state, one that ran its result; one that was taken away is the bench's."""
    if job is None:
        return Stop(STATE, f"{attempt.story.job_id} was never seen")
    if job.phase is Phase.CANCELLED or job.message_id in CANCELLED:
        return Stop(STATE, f"{job}: somebody took it away", Blame.BENCH)
    began = attempt.story.seconds_to(Phase.RUNNING) is not None
    age = job.at - attempt.story.history[0].at
    if job.message_id in NEVER_BEGAN or not began:
        return Stop(STATE, f"{job}, {age:.0f} s old: it was never run, whatever its state says: {job.message}")
    dmtf = f", {job.dmtf_state} {job.dmtf_status} in the JobService".replace("  ", " ") if job.dmtf_state else ""
    return Stop(RESULT, f"{job}{dmtf}, {age:.0f} s old: it did not succeed: {job.message}")
