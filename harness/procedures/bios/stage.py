"""Stage the values: one PATCH, whatever becomes of its answer, and the job that it should have made.

                 look once more
                   ├─ in effect by now ────────────▶ nothing is sent
                   ├─ staged, with a job ──────────▶ that job           (a run that was cut off)
                   ├─ staged, no job ──────────────▶ only the job is made
                   └─ PATCH
202 with a job id ────┤─────────────────────────────▶ our job
200 without one ─┐    │
refused ─────────┼─▶ look ─┬─ all our values, one new job ─▶ our job
answer lost ─────┘         ├─ a new job, not our values ───▶ stop: perhaps somebody else's, so it is left alone
                           ├─ our values, no job ──────────▶ stop: nothing would ever apply them
                           └─ nothing ─────────────────────▶ stop: not taken, and not sent again
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from harness.devices.idrac_facts import BiosState
from harness.devices.jobs import Job
from harness.devices.redfish import suffix
from harness.errors import Blame, RedfishError, Timeout, Unreachable
from harness.limits import Outcome, Value
from harness.procedures.bios.attempt import Attempt
from harness.procedures.bios.preflight import JOBS, PENDING, foreign_values, own_job, schedulable
from harness.procedures.bios.story import BEFORE_RESET, RECONCILE
from harness.procedures.stop import Stop

RECOVERY = 900.0
"""Seconds to get an answer again after the PATCH's own was lost: an iDRAC that restarts is back by then."""

SHOWING = 60.0
"""Seconds for a job to show after a PATCH that named none; recorded ones are there at once."""

COMMITTED = frozenset({"SYS011"})
"""What an iDRAC answers where the pending set is somebody's already (github.com/bmc-toolbox/bmclib/issues/467 and others)."""

ONE_STEP = "OnReset"
"""The apply time with which an iDRAC makes the job itself. iDRAC9 3.15 advertises none: there the job is a second request."""


@dataclass(frozen=True)
class Trace:
    """What shows of the PATCH: our values among the pending ones, other people's, and the BIOS jobs that are new."""

    ours: Mapping[str, Value | None]
    foreign: Mapping[str, Value | None]
    jobs: tuple[Job, ...]
    is_whole: bool

    @property
    def job(self) -> Job | None:
        """The job that is proven ours: the only new one, while what is pending is all of our values and nothing else."""
        return self.jobs[0] if len(self.jobs) == 1 and self.is_whole and not self.foreign else None


def stage(attempt: Attempt) -> Stop | None:
    """Look once more, then send the one PATCH. Whatever comes of it, it is never sent again, but once after a 412.

    Precondition failed means that the service did not look at the values: an iDRAC says so now and then, for an etag that it
    changed itself (dell/iDRAC-Redfish-Scripting#354).
    """
    idrac, wanted = attempt.idrac, attempt.story.plan.values
    state, jobs = idrac.bios(), idrac.jobs()
    active = tuple(job for job in jobs if job.is_active)
    attempt.known = frozenset(job.id for job in jobs)
    if (own := own_job(state.pending, active, wanted)) is not None:
        attempt.tell(job_id=own.id, is_resumed=True)
        return None
    if stop := _late(state, active, wanted):
        return stop
    if _is_in_effect(attempt, state):
        attempt.tell(is_settled=True)
        return None
    attempt.tell(is_resumed=bool(wanted) and dict(state.pending) == wanted)
    one_step = ONE_STEP in attempt.story.before.apply_times
    try:
        if not attempt.story.is_resumed:
            attempt.tell(job_id=_patch(attempt, one_step=one_step))
        if attempt.story.is_resumed or not one_step:
            if foreign := foreign_values(idrac.bios().pending, wanted):
                return _staged_meanwhile(foreign, "no job was made")
            attempt.tell(job_id=_make_job(attempt))
    except (Unreachable, Timeout) as error:
        if not attempt.story.writes:
            raise
        attempt.tell(lost_answer=str(error))
    except RedfishError as error:
        if not attempt.story.writes:
            raise
        return _look_after_refusal(attempt, error)
    return None


def adopt(attempt: Attempt) -> Stop | None:
    """Without a job id, look whether a job of ours is there all the same."""
    if attempt.story.job_id or attempt.story.is_settled:
        return None
    trace = _look(attempt)
    if trace.job is not None:
        attempt.tell(job_id=trace.job.id)
        return None
    lost = attempt.story.lost_answer
    if trace.jobs:
        why = f"the answer was lost ({lost})" if lost else "no job was named"
        return _unproven(attempt, trace, RECONCILE if lost else BEFORE_RESET, why)
    if lost and not trace.ours:
        return Stop(
            RECONCILE,
            f"the answer to the PATCH was lost ({lost}), and neither pending values nor a job show that it was taken; it is not "
            "sent again, so nothing was changed: run again",
        )
    if trace.ours:
        return Stop(
            BEFORE_RESET,
            f"{', '.join(sorted(trace.ours))} became pending but no job was made, so no restart would ever apply them; nothing "
            f"was restarted\n{_two_steps(attempt)}",
        )
    return Stop(BEFORE_RESET, "the iDRAC took the values, but nothing is pending and no job was made; nothing was restarted")


def _late(state: BiosState, active: tuple[Job, ...], wanted: Mapping[str, Value]) -> Stop | None:
    """What somebody did after the run had looked first."""
    if foreign := foreign_values(state.pending, wanted):
        return _staged_meanwhile(foreign, "nothing was written")
    if active:
        listed = "; ".join(str(job) for job in active)
        return Stop(JOBS, f"the queue holds what is not ours since this run had looked: {listed}; nothing was written", Blame.BENCH)
    return None


def _two_steps(attempt: Attempt) -> str:
    """How to go on where a firmware takes an apply time and makes no job of it (dell/iDRAC-Redfish-Scripting#84 and #176): by hand
    first, since a job is never asked for beside an apply time."""
    request = f"PATCH {attempt.idrac.places.settings} {json.dumps({'Attributes': dict(attempt.story.plan.values)})}"
    return (
        f"next: this firmware may want two steps: stage them without an apply time ({request}), "
        "then run `bringup bios apply` again: it finds them pending, makes only their job, and goes on from there"
    )


def _staged_meanwhile(foreign: Mapping[str, Value | None], so: str) -> Stop:
    names = ", ".join(sorted(foreign))
    text = f"somebody staged {names} after this run had looked, and a restart would apply it; {so}"
    return Stop(PENDING, f"{text}\n{schedulable(foreign)}", Blame.BENCH)


def _is_in_effect(attempt: Attempt, state: BiosState) -> bool:
    """Everything as wanted, with nothing pending (and no job active): a run that was cut off got there after all."""
    good = (Outcome.PASS, Outcome.MARGINAL)
    changes = attempt.story.plan.changes
    return not state.pending and all(change.limit.judge(state.attributes.get(change.attribute)) in good for change in changes)


def _patch(attempt: Attempt, *, one_step: bool) -> str:
    """Send the PATCH and return the job's id, empty where it names none. The tag is read last before it."""
    attempt.idrac.insist_on(attempt.tag)
    attempt.leave("may be staged")
    attempt.tell(patches=attempt.story.patches + 1, writes=attempt.story.writes + 1)
    return attempt.idrac.stage_bios(attempt.story.plan.values, apply_time=ONE_STEP if one_step else "").job_id


def _make_job(attempt: Attempt) -> str:
    """Ask for the job that applies what is pending, and return its id."""
    attempt.idrac.insist_on(attempt.tag)
    attempt.leave("pending, and may have a job")
    attempt.tell(writes=attempt.story.writes + 1)
    return attempt.idrac.create_job().job_id


def _look_after_refusal(attempt: Attempt, error: RedfishError) -> Stop | None:
    """A refusal may have been taken all the same (github.com/ansible-collections/community.general/issues/5091): look."""
    trace = _look(attempt)
    if trace.job is not None:
        attempt.tell(job_id=trace.job.id)
        return None
    ids = ", ".join(suffix(message_id) for message_id in error.message_ids) or "no MessageId"
    refusal = f"the iDRAC refused the values: HTTP {error.status} ({ids}) {error.detail}".rstrip()
    if trace.jobs:
        return _unproven(attempt, trace, BEFORE_RESET, refusal)
    if error.status == HTTPStatus.PRECONDITION_FAILED and not attempt.story.refetched and not trace.ours:
        attempt.tell(refetched=1)
        return stage(attempt)
    beside = f"; {', '.join(sorted(trace.ours))} became pending all the same" if trace.ours else ""
    is_taken = any(suffix(message_id) in COMMITTED for message_id in error.message_ids)
    return Stop(BEFORE_RESET, f"{refusal}{beside}", Blame.BENCH if is_taken and not trace.ours else Blame.PRODUCT)


def _unproven(attempt: Attempt, trace: Trace, check: str, why: str) -> Stop:
    """A job that may be a colleague's is not adopted, not restarted for and not taken away."""
    attempt.tell(unproven=trace.jobs)
    listed = "; ".join(str(job) for job in trace.jobs)
    shown = "what is pending is not just ours" if trace.foreign else "the pending values do not show that it is ours"
    return Stop(check, f"{why}, and a job appeared: {listed}; {shown}, so it was left alone and nothing was restarted", Blame.BENCH)


def _look(attempt: Attempt) -> Trace:
    """What shows, once the iDRAC answers again: at once where a job of ours shows, else after SHOWING seconds of looking."""
    attempt.await_answer(RECOVERY)
    seen: list[Trace] = []

    def look() -> Trace | None:
        trace = attempt.endurance.ask(lambda: _read(attempt))
        seen.extend([] if trace is None else [trace])
        return trace

    try:
        attempt.idrac.clock.until(
            look, lambda trace: trace is not None and trace.job is not None, what="a job of ours to show", every=10, within=SHOWING
        )
    except Timeout:
        if not seen:
            raise
    return seen[-1]


def _read(attempt: Attempt) -> Trace:
    wanted = attempt.story.plan.values
    pending = attempt.idrac.bios().pending
    new = tuple(job for job in attempt.idrac.jobs() if job.is_bios and job.is_active and job.id not in attempt.known)
    ours = {name: value for name, value in pending.items() if wanted.get(name) == value}
    return Trace(ours, foreign_values(pending, wanted), new, ours == wanted)
