"""Withdraw: take away what we staged and nothing else. Never the whole queue, never a job at work, never somebody else's values."""

from __future__ import annotations

from harness.devices.jobs import Job
from harness.errors import BringupError, TapeError
from harness.procedures.bios.attempt import KEY, Attempt
from harness.procedures.bios.preflight import foreign_values


def withdraw(attempt: Attempt) -> None:
    """Delete our job, then clear our values; what cannot be taken away stays in the hand-over. Raises only TapeError."""
    if not attempt.story.patches:
        return
    try:
        _take_job_away(attempt)
        _clear_values(attempt)
        _look_once_more(attempt)
    except TapeError:
        raise
    except BringupError as error:
        attempt.leave(f"{attempt.story.job or 'no job seen'}; taking them away failed ({error})")


def _take_job_away(attempt: Attempt) -> None:
    if not attempt.story.job_id:
        return
    job = attempt.idrac.job(attempt.story.job_id)
    if job is not None and job.is_active and not job.is_running:
        attempt.idrac.insist_on(attempt.tag)
        attempt.idrac.delete_job(job.id)


def _clear_values(attempt: Attempt) -> None:
    """ClearPending clears all of them, so only where all of them are ours, none was there before and no job is to apply them."""
    pending = attempt.idrac.bios().pending
    is_ours = not foreign_values(pending, attempt.story.plan.values) and not attempt.story.preflight.pending
    if pending and is_ours and _bios_job(attempt) is None:
        attempt.idrac.insist_on(attempt.tag)
        attempt.idrac.clear_pending()


def _look_once_more(attempt: Attempt) -> None:
    state, job = attempt.idrac.bios(), _bios_job(attempt)
    attempt.tell(after=state, jobs_after=() if job is None else (job,))
    left = set(state.pending) & set(attempt.story.plan.values) - set(attempt.story.preflight.pending)
    if job is None and not left:
        attempt.handover.clear(KEY)
    else:
        attempt.leave(f"{job or 'no job'}; applies at the next reboot by anyone" if job else f"{', '.join(sorted(left))} pending")


def _bios_job(attempt: Attempt) -> Job | None:
    return next((job for job in attempt.idrac.jobs() if job.is_bios and job.is_active), None)
