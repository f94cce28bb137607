"""The job queue: what will be done to the machine, by whom it was asked, and how it went.

New ──▶ Scheduled ──▶ Running ──▶ Completed | CompletedWithErrors | Failed
 └ the Lifecycle Controller is in use (JCP024): it stays New
             └ PR30: it says Scheduled for ever
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.lab.idrac.log import LifecycleLog
from harness.lab.idrac.timeline import Timeline

BIOS = "BIOSConfiguration"

FINISHED = frozenset({"Completed", "CompletedWithErrors", "Failed", "RebootFailed"})


@dataclass(frozen=True)
class Job:
    """One job. Times are seconds of the clock, None where that has not happened; ``message_id`` is bare."""

    id: str
    type: str
    name: str
    state: str
    message_id: str
    percent: int
    scheduled_at: float
    running_at: float | None = None
    ended_at: float | None = None

    @property
    def is_finished(self) -> bool:
        """True where nothing more will happen to it."""
        return self.state in FINISHED


class JobQueue:
    """Jobs by id, oldest first."""

    def __init__(self, timeline: Timeline, log: LifecycleLog) -> None:
        self._timeline = timeline
        self._log = log
        self._jobs: dict[str, Job] = {}
        self._count = 0

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs, oldest first."""
        return tuple(self._jobs.values())

    def find(self, job_id: str) -> Job | None:
        """The job of that id, or None."""
        return self._jobs.get(job_id)

    def open(self, kind: str = "") -> Job | None:
        """The oldest job that is not finished, of one type where ``kind`` is given."""
        return next((job for job in self.jobs if not job.is_finished and kind in ("", job.type)), None)

    def add(self, kind: str, name: str, *, state: str = "Scheduled", message_id: str = "JCP001") -> Job:
        """Make a job, note it in the log and return it."""
        self._count += 1
        job = Job(f"JID_{681204400000 + 7919 * self._count}", kind, name, state, message_id, 0, self._timeline.now)
        self._jobs[job.id] = job
        self._log.add("JCP027", job.id, category="Configuration")
        return job

    def change(self, job_id: str, *, state: str, message_id: str, percent: int) -> Job:
        """Move a job on, dating what began or ended."""
        job = replace(self._jobs[job_id], state=state, message_id=message_id, percent=percent)
        if state == "Running" and job.running_at is None:
            job = replace(job, running_at=self._timeline.now)
        if job.is_finished:
            job = replace(job, ended_at=self._timeline.now)
            self._log.add("JCP037" if state == "Completed" else message_id, job.id, category="Configuration")
        self._jobs[job_id] = job
        return job

    def remove(self, job_id: str) -> None:
        """Take a job out of the queue; pending values stay."""
        del self._jobs[job_id]
        self._log.add("JCP036", job_id, category="Configuration")
