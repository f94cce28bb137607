"""Are the BIOS settings as the platform wants them, and did they get there in one clean step?

lockdown, lc, pending, jobs ──▶ reconcile ──▶ job-before-reset ──▶ job-state ──▶ job-result ──▶ readback ──▶ events ──▶ attributes
"""

from __future__ import annotations

import pytest

from harness.devices.jobs import SUCCEEDED, Phase
from harness.errors import NotApplicable
from harness.limits import exactly, one_of
from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.bios import BiosStory
from harness.procedures.bios.post import forbidden, since_end
from harness.procedures.bios.preflight import JOBS, LC, LOCKDOWN, PENDING
from harness.procedures.bios.requests import is_at_rest
from harness.procedures.bios.story import ATTRIBUTES, BEFORE_RESET, EVENTS, READBACK, RECONCILE, RESULT, STATE


@pytest.mark.check("bios.preflight-lockdown")
def test_nothing_locks_the_settings(bios: BiosStory, measure: Measure) -> None:
    """A failure means that system lockdown mode is on, or that the BMC's user may not change anything; neither is for this run."""
    measure("bios.lockdown", bios.preflight.lockdown or "none")
    bios.reached(LOCKDOWN)
    if not bios.wants_to_write:
        raise NotApplicable("nothing is to be written in this run")


@pytest.mark.check("bios.preflight-lc")
def test_the_lifecycle_controller_is_free_and_the_host_is_nobodys(bios: BiosStory, measure: Measure) -> None:
    """A failure means that somebody left the host in F10 or F2, or is logged in: a job would not start, or cut somebody off."""
    measure("bios.lc-status", bios.preflight.lc.lc)
    measure("bios.server-status", bios.preflight.lc.server)
    bios.reached(LC)
    if not bios.wants_to_write:
        raise NotApplicable("nothing is to be written in this run")


@pytest.mark.check("bios.preflight-pending")
def test_nobody_else_has_staged_values(bios: BiosStory, measure: Measure) -> None:
    """A failure means that our job would apply a colleague's values too, since the pending set is shared: ask around."""
    measure("bios.pending", len(bios.preflight.pending))
    bios.reached(PENDING)


@pytest.mark.check("bios.preflight-jobs")
def test_nobody_else_has_a_job_waiting(bios: BiosStory, measure: Measure) -> None:
    """A failure means a job that our restart would run for somebody else, or that runs now and must not be cut off."""
    measure("bios.jobs", len(bios.preflight.jobs))
    bios.reached(JOBS)


@pytest.mark.check("bios.reconcile")
def test_the_values_are_taken_with_one_request(bios: BiosStory, measure: Measure) -> None:
    """A failure means that the answer was lost and nothing shows that the values arrived. They are not sent again; run again."""
    bios.reached(RECONCILE)
    _needs_a_write(bios)
    measure("bios.patches", bios.patches, limit=exactly(1 + bios.refetched))
    measure("bios.lost-answers", int(bool(bios.lost_answer)), note=bios.lost_answer)


@pytest.mark.check("bios.job-before-reset")
def test_a_job_is_there_before_anything_is_restarted(bios: BiosStory, measure: Measure) -> None:
    """A failure means values staged without a job, or refused: the commonest way to restart a machine for nothing."""
    bios.reached(BEFORE_RESET)
    _needs_a_write(bios)
    measure("bios.job", bios.job_id)
    scheduled = bios.first_in(Phase.SCHEDULED)
    if bios.reset is not None:
        assert scheduled is not None, "the host was restarted and the job was never seen Scheduled"
        assert scheduled <= bios.reset.at, "the host was restarted before the job was seen Scheduled"


@pytest.mark.check("bios.job-state")
def test_the_job_is_scheduled_and_begins_after_the_restart(bios: BiosStory, measure: Measure) -> None:
    """A failure means a job that says Scheduled for ever (PR30); often inventory on restart (CSIOR) is off."""
    bios.reached(STATE)
    _needs_a_write(bios)
    if (waited := bios.seconds_to(Phase.RUNNING)) is not None:
        measure("bios.job-waited", waited, unit="s")


@pytest.mark.check("bios.job-result")
def test_the_job_succeeds_by_message_id_and_not_by_percentage(bios: BiosStory, measure: Measure) -> None:
    """A failure means 100 % with PR31 or the like; the Lifecycle log names the attribute that was refused."""
    bios.reached(RESULT)
    _needs_a_write(bios)
    if (worked := bios.seconds_at_work()) is not None:
        measure("bios.job-worked", worked, unit="s")
    measure("bios.bmc-losses", len(bios.losses), note="; ".join(str(loss) for loss in bios.losses))
    measure("bios.job-message", bios.job.message_id if bios.job else None, limit=one_of(*sorted(SUCCEEDED)))


@pytest.mark.check("bios.readback")
def test_what_the_job_set_can_be_read_back_and_nothing_is_left_over(bios: BiosStory, measure: Measure) -> None:
    """A failure means that the job claims success and a value is as before, or something is still pending or queued."""
    if bios.after is not None:
        measure("bios.pending-after", len(bios.after.pending), limit=exactly(0))
        measure("bios.jobs-after", sum(job.is_bios for job in bios.jobs_after), limit=exactly(0))
    bios.reached(READBACK)
    _needs_a_write(bios)


@pytest.mark.check("bios.events")
def test_the_start_with_the_new_settings_logged_nothing_that_the_platform_forbids(
    bios: BiosStory, platform: Platform, measure: Measure
) -> None:
    """A failure means that the settings made the start worse: missing MMIO or I/O space, a bad link, a lost device, or no end.

    Judged from the end of our own job on: the start that carried it out had the old settings.
    """
    bios.reached(EVENTS)
    _needs_a_write(bios)
    if bios.is_settled:
        raise NotApplicable("everything was in effect when it came to writing, by a start that nobody here watched")
    found = forbidden(bios, platform.bios.forbidden_events)
    measure("bios.events", sum(len(since_end(each)) for each in (*bios.earlier, bios)))
    measure("bios.forbidden-events", len(found), limit=exactly(0))
    assert not found, "forbidden in the Lifecycle log: " + "; ".join(f"{event} {event.text}" for event in found)


@pytest.mark.check("bios.attributes")
def test_every_attribute_is_as_the_platform_wants_it(bios: BiosStory, platform: Platform, measure: Measure) -> None:
    """A failure means that one differs and was not changed: without --apply, in a danger class nobody named, or not settable.

    Blamed on the bench: the platform file asks for an attribute or a value that this BIOS does not know.
    """
    if bios.stopped_by != ATTRIBUTES or bios.plan.mistakes:
        bios.reached(ATTRIBUTES)
    for name, limit in platform.bios.attributes.items():
        is_request = is_at_rest(name, bios.values.get(name))
        note = "a request: what it did shows in other settings" if is_request else ""
        measure(f"bios.{name}", bios.values.get(name), limit=None if is_request else limit, note=note)
    assert bios.stop is None, bios.stopped


def _needs_a_write(bios: BiosStory) -> None:
    if not bios.patches:
        raise NotApplicable("nothing was written in this run")
