"""Apply a plan, step by step. Every step may stop it; a stop takes away what was staged.

mark_log ──▶ stage ──▶ adopt ──▶ await_schedule ──▶ restart ──▶ follow ──▶ read_back ──▶ await_post
               │         │             │               │          │            │             │
               └─────────┴─────────────┴── Stop ───────┴──────────┴────────────┴─────────────┴──▶ withdraw what is ours
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from harness.devices.idrac import Idrac
from harness.errors import BringupError, TapeError
from harness.platform import Boot
from harness.procedures.bios.attempt import KEY, Attempt
from harness.procedures.bios.follow import await_schedule, follow, restart
from harness.procedures.bios.post import await_post, mark_log
from harness.procedures.bios.read_back import read_back
from harness.procedures.bios.stage import adopt, stage
from harness.procedures.bios.story import BEFORE_RESET, RESULT, BiosStory
from harness.procedures.bios.withdraw import withdraw
from harness.procedures.handover import Handover
from harness.procedures.stop import Stop

Step: TypeAlias = Callable[[Attempt], Stop | None]

STEPS: tuple[Step, ...] = (mark_log, stage, adopt, await_schedule, restart, follow, read_back, await_post)


STAGING = STEPS[: STEPS.index(restart)]
"""The steps that end with a scheduled job and no restart."""


def apply(idrac: Idrac, story: BiosStory, limits: Boot, handover: Handover, tag: str, *, restarts: bool = True) -> BiosStory:
    """Go through the steps and return the story. Raises nothing but TapeError: what a step raises becomes its stop.

    Without ``restarts`` the job is left Scheduled, and the hand-over says so.
    """
    attempt = Attempt(idrac, story, limits, handover, tag)
    for step in STEPS if restarts else STAGING:
        stop = _guarded(step, attempt)
        if stop is not None:
            attempt.tell(stop=stop)
            withdraw(attempt)
            attempt.tell(stop=replace(stop, text=f"{stop.text}\n{_aftermath(attempt)}".rstrip()))
            break
    else:
        if not restarts and attempt.story.job_id:
            attempt.leave(f"{attempt.story.job_id} Scheduled: applies at the next reboot by anyone")
    return replace(attempt.story, losses=attempt.endurance.losses)


def _aftermath(attempt: Attempt) -> str:
    """How it stands after the stop: wanted and current values, and what is left or that nothing is."""
    story = attempt.story
    if not story.writes and not story.is_resumed:
        return "nothing was written"
    values = "; ".join(
        f"{change.attribute} is {story.values.get(change.attribute)}, wanted {change.limit}" for change in story.plan.changes
    )
    left = [str(leftover) for leftover in attempt.handover.left if leftover.key == KEY]
    return "\n".join((f"now: {values}", *(left or ["nothing of ours is pending or queued"])))


def _guarded(step: Step, attempt: Attempt) -> Stop | None:
    try:
        return step(attempt)
    except TapeError:
        raise
    except BringupError as error:
        return Stop(RESULT if attempt.story.reset else BEFORE_RESET, str(error), error.blame)
