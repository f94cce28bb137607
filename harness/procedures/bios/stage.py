"""Stage the values: one PATCH, whatever becomes of its answer, and the job that it should have made.

202 with a job id ────────────────▶ our job
200 without one ─┐
refused ─────────┼─▶ look ─┬─ our values and a new job ─▶ our job
answer lost ─────┘         ├─ our values, no job ───────▶ stop: nothing would ever apply them
                           └─ nothing ──────────────────▶ stop: not taken, and not sent again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.devices.jobs import Job
from harness.devices.redfish import suffix
from harness.errors import Blame, RedfishError, Timeout, Unreachable
from harness.limits import Value
from harness.procedures.bios.attempt import Attempt
from harness.procedures.bios.preflight import PENDING, foreign_values
from harness.procedures.bios.story import BEFORE_RESET, RECONCILE
from harness.procedures.stop import Stop

RECOVERY = 900.0
"""Seconds to get an answer again after the PATCH's own was lost: an iDRAC that restarts is back by then."""

SHOWING = 60.0
"""Seconds for a job to show after a PATCH that named none; recorded ones are there at once."""

ONE_STEP = "OnReset"
"""The apply time with which an iDRAC makes the job itself. iDRAC9 3.15 advertises none: there the job is a second request."""


@dataclass(frozen=True)
class Trace:
    """What shows of the PATCH: our values among the pending ones, and a BIOS job that is new and carries nobody else's."""

    pending: Mapping[str, Value | None]
    job: Job | None


def stage(attempt: Attempt) -> Stop | None:
    """Send the one PATCH. Whatever comes of it, it is never sent again."""
    one_step = ONE_STEP in attempt.story.before.apply_times
    if late := foreign_values(attempt.idrac.bios().pending, attempt.story.plan.values):
        names = ", ".join(sorted(late))
        text = f"somebody staged {names} after this run had looked, and a restart would apply it; nothing was written"
        return Stop(PENDING, text, Blame.BENCH)
    attempt.idrac.insist_on(attempt.tag)
    attempt.leave("may be staged")
    attempt.tell(patches=attempt.story.patches + 1)
    try:
        staged = attempt.idrac.stage_bios(attempt.story.plan.values, apply_time=ONE_STEP if one_step else "")
        if not one_step:
            attempt.idrac.insist_on(attempt.tag)
            staged = attempt.idrac.create_job()
    except (Unreachable, Timeout) as error:
        attempt.tell(lost_answer=str(error))
        return None
    except RedfishError as error:
        return _look_after_refusal(attempt, error)
    attempt.tell(job_id=staged.job_id)
    return None


def adopt(attempt: Attempt) -> Stop | None:
    """Without a job id, look whether a job of ours is there all the same."""
    if attempt.story.job_id:
        return None
    trace = _look(attempt)
    if trace.job is not None:
        attempt.tell(job_id=trace.job.id)
        return None
    lost = attempt.story.lost_answer
    if lost and not trace.pending:
        return Stop(
            RECONCILE,
            f"the answer to the PATCH was lost ({lost}), and neither pending values nor a job show that it was taken; it is not "
            "sent again, so nothing was changed: run again",
        )
    if trace.pending:
        return Stop(
            BEFORE_RESET,
            f"{', '.join(sorted(trace.pending))} became pending but no job was made, so no restart would ever apply them; nothing "
            "was restarted",
        )
    return Stop(BEFORE_RESET, "the iDRAC took the values, but nothing is pending and no job was made; nothing was restarted")


def _look_after_refusal(attempt: Attempt, error: RedfishError) -> Stop | None:
    """A refusal may have been taken all the same (github.com/ansible-collections/community.general/issues/5091): look."""
    trace = _look(attempt)
    if trace.job is not None:
        attempt.tell(job_id=trace.job.id)
        return None
    ids = ", ".join(suffix(message_id) for message_id in error.message_ids) or "no MessageId"
    beside = f"; {', '.join(sorted(trace.pending))} became pending all the same" if trace.pending else ""
    return Stop(BEFORE_RESET, f"the iDRAC refused the values: HTTP {error.status} ({ids}) {error.detail}{beside}".rstrip())


def _look(attempt: Attempt) -> Trace:
    """What shows, once the iDRAC answers again: at once where a job shows, else after SHOWING seconds of looking."""
    idrac, clock = attempt.idrac, attempt.idrac.clock
    clock.until(
        lambda: attempt.endurance.ask(idrac.system),
        lambda system: system is not None,
        what="the iDRAC to answer again",
        every=10,
        within=RECOVERY,
    )
    try:
        return clock.until(
            lambda: _read(attempt), lambda trace: trace.job is not None, what="a job of ours to show", every=10, within=SHOWING
        )
    except Timeout as timeout:
        if isinstance(timeout.last, Trace):
            return timeout.last
        raise


def _read(attempt: Attempt) -> Trace:
    wanted = attempt.story.plan.values
    pending = attempt.idrac.bios().pending
    before = {job.id for job in attempt.story.preflight.jobs}
    new = [job for job in attempt.idrac.jobs() if job.is_bios and job.is_active and job.id not in before]
    ours = {name: value for name, value in pending.items() if wanted.get(name) == value}
    return Trace(ours, new[0] if new and not foreign_values(pending, wanted) else None)
