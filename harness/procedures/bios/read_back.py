"""Read back. Done is: every value as wanted, nothing pending, and no BIOS job left; until then ``/Bios`` may show wishes."""

from __future__ import annotations

from harness.errors import Timeout
from harness.limits import Outcome
from harness.procedures.bios.attempt import KEY, Attempt
from harness.procedures.bios.requests import is_at_rest
from harness.procedures.bios.story import READBACK, BiosStory
from harness.procedures.stop import Stop

SETTLING = 300.0
"""Seconds for ``/Bios`` to show what the job has set; a public client sleeps 180 s first (dell/terraform-provider-redfish)."""


def read_back(attempt: Attempt) -> Stop | None:
    """Look until everything has arrived, at most SETTLING seconds."""

    def look() -> str:
        seen = attempt.endurance.ask(lambda: (attempt.idrac.bios(), attempt.idrac.jobs()))
        if seen is not None:
            attempt.tell(after=seen[0], jobs_after=tuple(job for job in seen[1] if job.is_active))
        return missing(attempt.story)

    try:
        attempt.idrac.clock.until(look, lambda text: not text, what="the BIOS values to be in effect", every=15, within=SETTLING)
    except Timeout:
        return Stop(READBACK, f"the job says that it succeeded, but {missing(attempt.story)}")
    attempt.handover.clear(KEY)
    return None


def missing(story: BiosStory) -> str:
    """What is not as it should be yet, empty where everything is."""
    after = story.after
    if after is None:
        return "the values could not be read back"
    wrong = [
        f"{change.attribute} is {after.attributes.get(change.attribute)}, wanted {change.limit}"
        for change in story.plan.changes
        if change.limit.judge(after.attributes.get(change.attribute)) not in (Outcome.PASS, Outcome.MARGINAL)
        and not is_at_rest(change.attribute, after.attributes.get(change.attribute))
    ]
    if after.pending:
        wrong.append(f"{', '.join(sorted(after.pending))} still pending")
    wrong += [f"{job} still in the queue" for job in story.jobs_after if job.is_bios]
    return "; ".join(wrong)
