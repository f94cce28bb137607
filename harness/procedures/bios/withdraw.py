"""Withdraw: take away what we staged and nothing else. Never the whole queue, never somebody else's values or job, and nothing
while a job is at work.

our job ──▶ deleted ──▶ our values ──▶ cleared ──▶ look once more ──▶ hand-over: what is left, or nothing
   │                        └ only where all that is pending is ours and no job is to apply it
   └ a job at work, or one that cannot be proven ours: left alone, and said
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from harness.devices.jobs import Job
from harness.errors import BringupError, OwnershipError, RedfishError, TapeError, Timeout, Unreachable
from harness.procedures.bios.attempt import KEY, Attempt
from harness.procedures.bios.clearing import clear_only
from harness.procedures.bios.preflight import foreign_values

RECOVERY = 900.0
"""Seconds to get an answer again after one was lost: an iDRAC that restarts is back by then."""


def withdraw(attempt: Attempt) -> None:
    """Delete our job, then clear our values; what cannot be taken away stays in the hand-over. Raises only TapeError.

    What a run that was cut off had left is not this run's to take away: it is handed over.
    """
    story = attempt.story
    if not story.writes:
        if story.is_resumed and story.job is not None:
            attempt.leave_job(story.job, ", left by a run that was cut off")
        elif story.is_resumed:
            attempt.leave(f"{story.job_id}, left by a run that was cut off; applies at the next reboot by anyone")
        return
    try:
        if story.lost_answer or (story.reset is not None and not story.reset.is_answered):
            attempt.await_answer(RECOVERY)
        if not story.unproven:
            _take_job_away(attempt)
            _clear_values(attempt)
        _look_once_more(attempt)
    except TapeError:
        raise
    except BringupError as error:
        attempt.leave(f"{attempt.story.job or 'no job seen'}; taking them away failed ({error})")


def _take_job_away(attempt: Attempt) -> None:
    job_id = attempt.story.job_id
    jobs = attempt.idrac.jobs()
    if not job_id or _is_anything_at_work(jobs):
        return
    job = next((job for job in jobs if job.id == job_id), None) or attempt.idrac.job(job_id)
    if job is not None and job.is_active and not job.is_running:
        attempt.idrac.insist_on(attempt.tag)
        _once(attempt, lambda: attempt.idrac.delete_job(job_id))


def _clear_values(attempt: Attempt) -> None:
    """ClearPending clears all of them, so only where all of them are ours, none was there before and no job is to apply them."""
    jobs, pending = attempt.idrac.jobs(), attempt.idrac.bios().pending
    is_ours = not foreign_values(pending, attempt.story.plan.values) and not attempt.story.preflight.pending
    if pending and is_ours and not _is_anything_at_work(jobs) and not _bios_jobs(jobs):
        with suppress(OwnershipError):  # somebody staged his own meanwhile: the look that follows tells
            _once(attempt, lambda: clear_only(attempt.idrac, pending, expected_tag=attempt.tag))


def _once(attempt: Attempt, act: Callable[[], None]) -> None:
    """Act once. An answer that was lost, or a refusal, says less than a look: the look that follows tells what is left."""
    try:
        act()
    except (Unreachable, Timeout):
        attempt.await_answer(RECOVERY)
    except RedfishError:
        pass


def _look_once_more(attempt: Attempt) -> None:
    state, jobs = attempt.idrac.bios(), _bios_jobs(attempt.idrac.jobs())
    attempt.tell(after=state, jobs_after=jobs)
    story = attempt.story
    foreign = {**foreign_values(state.pending, story.plan.values), **story.preflight.pending}
    left = sorted(set(state.pending) - set(foreign))
    ours = next((job for job in jobs if job.id == story.job_id), None)
    if ours is not None:
        attempt.leave_job(ours)
    elif story.unproven:
        attempt.leave_alone(story.unproven)
    elif story.is_resumed and state.pending:
        attempt.leave(f"{', '.join(sorted(state.pending))} pending, left by a run that was cut off")
    elif left:
        beside = f"; {jobs[0]}, which is not ours, may apply them at the next reboot" if jobs else ""
        attempt.leave(f"{', '.join(left)} pending{beside}")
    else:
        attempt.handover.clear(KEY)


def _is_anything_at_work(jobs: tuple[Job, ...]) -> bool:
    """While a job is at work nothing is deleted, whosever it is (an iDRAC may be committing what is about to be deleted)."""
    return any(job.is_running for job in jobs)


def _bios_jobs(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.is_bios and job.is_active)
