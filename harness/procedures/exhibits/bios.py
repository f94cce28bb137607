"""The BIOS settings: wanted, before, after, what changed; the job as it went."""

from __future__ import annotations

from typing import Any

from harness.devices.jobs import Job
from harness.limits import Limit, Outcome, Value
from harness.platform import Platform
from harness.procedures.bios.story import BiosStory
from harness.procedures.exhibits.bounds import moment, shortened

_MOST = 200


def show_bios(story: BiosStory, platform: Platform) -> dict[str, Any]:
    """``settings`` are rows of (name, wanted, before, after, whether it is as wanted (yes, no), note), then what changed
    beside them.

    ``job`` has each change of the job as (at, id, what it said), of all attempts. Times are seconds of the run's clock.
    """
    attempts = (*story.earlier, story)
    before = attempts[0].before.attributes
    after = story.values
    wanted = platform.bios.attributes
    beside = [
        name for name in after if name not in wanted and story.after is not None and name in before and after[name] != before[name]
    ]
    rows = [_row(story, name, limit, before.get(name), after.get(name)) for name, limit in wanted.items()]
    rows += [[name, "", _word(before[name]), _word(after[name]), "", _why_beside(story, name)] for name in beside]
    return {
        "settings": rows[:_MOST],
        "more": max(0, len(rows) - _MOST),
        "pending": [[name, _word(value)] for name, value in list(_pending(story).items())[:_MOST]],
        "job": [_seen(job) for attempt in attempts for job in attempt.history][:_MOST],
        "reset": moment(story.reset.at if story.reset is not None else None),
        "restarted": moment(story.restarted_at),
        "stopped": shortened(story.stopped),
    }


def _row(story: BiosStory, name: str, limit: Limit, before: Value | None, after: Value | None) -> list[str]:
    gap = next((gap.reason for gap in story.plan.gaps if gap.attribute == name), "")
    refused = next((danger.why for change, danger in story.plan.refused if change.attribute == name), "")
    holds = limit.judge(after) in (Outcome.PASS, Outcome.MARGINAL)
    return [name, str(limit), _word(before), _word(after), "yes" if holds else "no", shortened(gap or refused)]


def _why_beside(story: BiosStory, name: str) -> str:
    return shortened(story.plan.because.get(name, "") or "changed beside what was asked for")


def _pending(story: BiosStory) -> dict[str, Value | None]:
    return dict((story.after or story.before).pending)


def _seen(job: Job) -> list[Any]:
    return [moment(job.at), job.id, str(job.phase), job.percent, job.message_id, shortened(job.message)]


def _word(value: Value | None) -> str:
    return "" if value is None else str(value)
