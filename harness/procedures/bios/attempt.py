"""One attempt at applying a plan: what its steps share. The steps are in stage, follow, read_back and withdraw."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.devices.idrac import Idrac
from harness.devices.jobs import Job
from harness.platform import Boot
from harness.procedures.bios.story import BiosStory
from harness.procedures.endurance import Endurance
from harness.procedures.handover import Handover

KEY = "bios"
"""The key under which the hand-over knows what this stage leaves."""


@dataclass
class Attempt:
    """``story`` grows from step to step; ``tag`` is the only machine that may be written to.

    ``known`` are the ids of all jobs that were in the queue right before the first write: none of them is ours.
    ``mark`` is the number of the Lifecycle log's newest entry before anything was done.
    """

    idrac: Idrac
    story: BiosStory
    limits: Boot
    handover: Handover
    tag: str
    endurance: Endurance = field(init=False)
    known: frozenset[str] = field(default=frozenset(), init=False)
    mark: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.endurance = Endurance(self.idrac.clock)

    def tell(self, **facts: object) -> None:
        """Put facts into the story, by field name."""
        self.story = replace(self.story, **facts)  # type: ignore[arg-type]

    def look_at_job(self) -> Job | None:
        """The job now, kept in the story's history where it changed; None while nobody answers or no view knows it."""
        job = self.endurance.ask(lambda: self.idrac.job(self.story.job_id))
        if job is not None:
            self.note(job)
        return job

    def await_answer(self, within: float) -> None:
        """Wait until the iDRAC answers again. Raises Timeout, or the lane's error where that lasts too long."""
        self.idrac.clock.until(
            lambda: self.endurance.ask(self.idrac.system),
            lambda system: system is not None,
            what="the iDRAC to answer again",
            every=10,
            within=within,
        )

    def note(self, job: Job) -> None:
        """Keep the job where it changed: each entry has the time of its first sight."""
        last = self.story.job
        if last is None or replace(last, at=job.at) != job:
            self.tell(history=(*self.story.history, job))

    def leave(self, state: str) -> None:
        """Say in the hand-over what stands on the machine from here on, and how to undo it."""
        places = self.idrac.places
        job = f"DELETE {places.jobs}/{self.story.job_id}, then " if self.story.job_id else ""
        self.handover.leave(KEY, f"BIOS values {self._values()}: {state}", f"{job}POST {places.clear_pending}")

    def leave_at_work(self) -> None:
        """Say in the hand-over that a start carries the job out, or is about to: nothing is undone in the middle of that."""
        job_id, places = self.story.job_id, self.idrac.places
        before = ", ".join(f"{change.attribute}={change.current}" for change in self.story.plan.changes)
        text = f"BIOS values {self._values()}: a restart was asked for that carries {job_id} out; let it come to its end"
        undo = f"once it has ended, set {before}; where {job_id} is still Scheduled, DELETE {places.jobs}/{job_id}, then POST"
        self.handover.leave(KEY, text, f"{undo} {places.clear_pending}")

    def leave_job(self, job: Job, why: str = "") -> None:
        """Say in the hand-over that a job of ours is there still."""
        if job.is_running:
            self.leave_at_work()
        else:
            self.leave(f"{job}{why}; applies at the next reboot by anyone")

    def leave_alone(self, jobs: tuple[Job, ...]) -> None:
        """Say in the hand-over which jobs may be ours and were left alone, because that could not be proven."""
        listed = ", ".join(str(job) for job in jobs)
        undo = " and ".join(f"DELETE {self.idrac.places.jobs}/{job.id}" for job in jobs)
        text = f"{listed} may be this run's or somebody else's, so it was left alone: applies at the next reboot by anyone"
        self.handover.leave(KEY, f"BIOS values {self._values()}: {text}", f"ask around; where nobody wants it, {undo}")

    def _values(self) -> str:
        return ", ".join(str(change) for change in self.story.plan.changes)
