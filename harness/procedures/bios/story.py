"""What came of bringing the BIOS settings up: facts for the checks of the bios stage to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.devices.idrac_facts import BiosState, LogEntry
from harness.devices.jobs import Job, Phase
from harness.limits import Value
from harness.procedures.bios.plan import Plan
from harness.procedures.bios.preflight import JOBS, LC, LOCKDOWN, PENDING, Preflight
from harness.procedures.endurance import Loss
from harness.procedures.power import ResetSent
from harness.procedures.screen import NOTHING_SEEN, Screen
from harness.procedures.stop import Stop, pass_or_raise

RECONCILE, BEFORE_RESET, STATE, RESULT = "bios.reconcile", "bios.job-before-reset", "bios.job-state", "bios.job-result"
READBACK, EVENTS, ATTRIBUTES, VERSION = "bios.readback", "bios.events", "bios.attributes", "bios.version"

ORDER = (LOCKDOWN, LC, PENDING, JOBS, RECONCILE, BEFORE_RESET, STATE, RESULT, READBACK, EVENTS, ATTRIBUTES, VERSION)
"""The checks of the stage in the order in which a run reaches them."""


@dataclass(frozen=True)
class BiosStory:
    """One attempt, or one look where nothing was to be written.

    ``patches`` counts PATCH requests sent (0 or 1, and one more for each 412 in ``refetched``), ``writes`` all that staged
    something, the making of a job included.
    ``is_resumed``: the values, or the job too, stood there already just as this plan wants them, from a run that was cut off.
    ``is_settled``: when it came to writing, everything was in effect. ``unproven`` are jobs that may be ours and were left alone.
    ``lost_answer`` says how the answer to a write was lost, where it was; then ``job_id`` was found by looking. ``history`` has the
    job each time it changed, ``restarted_at`` when the host was first seen restarting. ``after`` and ``jobs_after`` were read at
    the end, ``losses`` are the times at which the BMC did not answer, ``screen`` is what a start showed that did not go on.
    ``log`` is the Lifecycle log from before the first write until POST was over. ``earlier`` are the attempts before this one,
    where one boot had to come before another.
    """

    before: BiosState
    preflight: Preflight
    plan: Plan
    is_consented: bool
    stop: Stop | None = None
    patches: int = 0
    writes: int = 0
    refetched: int = 0
    is_resumed: bool = False
    is_settled: bool = False
    unproven: tuple[Job, ...] = ()
    lost_answer: str = ""
    job_id: str = ""
    history: tuple[Job, ...] = ()
    reset: ResetSent | None = None
    restarted_at: float | None = None
    after: BiosState | None = None
    jobs_after: tuple[Job, ...] = ()
    losses: tuple[Loss, ...] = ()
    screen: Screen = NOTHING_SEEN
    log: tuple[LogEntry, ...] = ()
    earlier: tuple[BiosStory, ...] = ()

    @property
    def stopped(self) -> str:
        """Why it stopped, empty where it did not."""
        return self.stop.text if self.stop is not None else ""

    @property
    def stopped_by(self) -> str:
        """The check that has to fail for it, empty where it did not stop."""
        return self.stop.check if self.stop is not None else ""

    @property
    def changed(self) -> str:
        """What was sent to be changed, for whoever looks for the cause of what came after; empty where nothing was."""
        if not self.patches:
            return ""
        return f"BIOS {', '.join(map(str, self.plan.changes))}{f' ({self.job_id})' if self.job_id else ''}"

    @property
    def version(self) -> str:
        """The BIOS version."""
        return self.preflight.system.bios_version

    @property
    def wants_to_write(self) -> bool:
        """True where something differs and may be changed."""
        return self.is_consented and not self.plan.is_empty

    @property
    def values(self) -> Mapping[str, Value | None]:
        """The attributes as they are now, as far as this story knows."""
        return (self.after or self.before).attributes

    @property
    def job(self) -> Job | None:
        """The job as it was seen last."""
        return self.history[-1] if self.history else None

    def reached(self, check: str) -> None:
        """Raise what ``check`` has to raise: the stop's error, or Blocked behind it. Passes before it."""
        pass_or_raise(self.stop, ORDER, check)

    def first_in(self, phase: Phase) -> float | None:
        """When the job was first seen in ``phase``, in seconds of the clock; None where it never was."""
        return next((job.at for job in self.history if job.phase is phase), None)

    def seconds_to(self, phase: Phase) -> float | None:
        """Seconds from the first sight of the job to its first sight in ``phase``; None where it was never seen there."""
        first = self.first_in(phase)
        return None if first is None else round(first - self.history[0].at, 3)

    def seconds_at_work(self) -> float | None:
        """Seconds from the first sight of the running job to its end; None where either was not seen."""
        running, ended = self.seconds_to(Phase.RUNNING), self.seconds_to(Phase.SUCCEEDED)
        return None if running is None or ended is None else round(ended - running, 3)
