"""What others have staged or queued: refuse, wait for it, or replace the one job that was named.

refuse ─▶ the preflight stops the run
wait ───▶ until no job is active and nothing foreign is pending
replace ─▶ the named job, if it is a BIOS job that has not begun: deleted, and the values with it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.devices.idrac import Idrac
from harness.errors import BenchError, OwnershipError, Timeout, UsageMistake
from harness.limits import Value
from harness.procedures.bios.clearing import clear_only
from harness.procedures.bios.preflight import foreign_values, own_job
from harness.procedures.handover import Handover

PATIENCE = 7200.0
"""Seconds that somebody else's job is waited for; a recorded one waited 14 days, which nobody should sit through."""

REFUSE = "refuse"
"""The way that leaves others' jobs and values alone, and stops."""

WAIT = "wait"
"""The way that touches nothing of others either, and goes on once it is gone."""

KEY = "bios.conflict"
"""The key under which the hand-over knows what a replacement leaves."""


@dataclass(frozen=True)
class Conflict:
    """What to do about others: ``way`` is refuse, wait or replace, ``job`` the one to replace."""

    way: str = REFUSE
    job: str = ""


def parse_conflict(text: str) -> Conflict:
    """``refuse``, ``wait`` or ``replace JID_...``. Raises UsageMistake."""
    words = text.split()
    match words:
        case ["refuse"] | ["wait"]:
            return Conflict(words[0])
        case ["replace", job] if job.startswith("JID_"):
            return Conflict("replace", job)
    raise UsageMistake(f'--on-conflict takes refuse, wait or "replace JID_...", not {text!r}: the job to replace has to be named')


def make_way(idrac: Idrac, wanted: Mapping[str, Value], conflict: Conflict, handover: Handover, *, expected_tag: str) -> None:
    """Do what was asked about others' jobs and values; nothing for ``refuse``, which the preflight sees to.

    Raises BenchError where they do not go away, OwnershipError where the named job is not one that may be replaced.
    """
    match conflict.way:
        case "wait":
            _wait(idrac, wanted)
        case "replace":
            _replace(idrac, conflict.job, handover, expected_tag)


def _wait(idrac: Idrac, wanted: Mapping[str, Value]) -> None:
    """A job that a run of this very plan left when it was cut off is not waited for: it would never go."""

    def look() -> str:
        active = tuple(job for job in idrac.jobs() if job.is_active)
        pending = idrac.bios().pending
        if own_job(pending, active, wanted) is not None:
            return ""
        foreign = foreign_values(pending, wanted)
        return "; ".join(map(str, active)) or (f"{', '.join(sorted(foreign))} pending" if foreign else "")

    try:
        idrac.clock.until(look, lambda seen: not seen, what="others' jobs and values to go", every=30, within=PATIENCE)
    except Timeout as timeout:
        raise BenchError(f"still there after {timeout.seconds:g} s: {timeout.last}; nothing was written") from None


def _replace(idrac: Idrac, job_id: str, handover: Handover, tag: str) -> None:
    """Delete the job and the values it would have applied: while it is queued nothing can be added to them, so all are its own.

    What is added once it is gone is somebody else's again, and then nothing is cleared.
    """
    jobs = [job for job in idrac.jobs() if job.is_active]
    job = next((job for job in jobs if job.id == job_id), None)
    if job is None:
        listed = "; ".join(map(str, jobs)) or "none"
        raise OwnershipError(f"{job_id} is not waiting (active jobs: {listed}); nothing was deleted")
    if not job.is_bios or job.is_running:
        what = "is at work and must not be cut off" if job.is_running else "does not change BIOS settings"
        raise OwnershipError(f"{job} {what}; nothing was deleted")
    if at_work := next((other for other in jobs if other.is_running), None):
        raise OwnershipError(f"{at_work} is at work, and no job is deleted meanwhile; nothing was deleted")
    idrac.insist_on(tag)
    its_own = dict(idrac.bios().pending)
    deleted = f"{job_id} was deleted on request; it was to apply {_listed(its_own) or 'no values'}"
    handover.leave(
        KEY, f"{deleted}, which may be pending still", "look what is pending (bringup bios show); make a job for it again"
    )
    idrac.delete_job(job_id)
    clear_only(idrac, its_own, expected_tag=tag)
    if left := idrac.bios().pending:
        raise BenchError(f"{job_id} is deleted, but {', '.join(sorted(left))} stay pending; nothing else was written")
    handover.leave(KEY, deleted, "stage them again for whoever wanted them")


def _listed(values: Mapping[str, Value | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
