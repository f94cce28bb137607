"""The start of the machine: what was seen when, the log since, the end of the console."""

from __future__ import annotations

from typing import Any

from harness.platform import Platform
from harness.procedures.boot.story import BootStory
from harness.procedures.exhibits.bounds import LINES, last, moment, shortened


def show_boot(story: BootStory, platform: Platform) -> dict[str, Any]:
    """``sights`` are (at, stage) of each change since the reset; ``events`` (created, message id, severity, text) since then.

    ``usual`` and ``within`` are seconds that a start usually takes and may take; times are seconds of the run's clock.
    """
    events = [[event.created, event.message_id, event.severity, shortened(event.text)] for event in story.events]
    return {
        "reset": moment(story.reset.at if story.reset is not None else None),
        "began": moment(story.began_at),
        "through": moment(story.through_at),
        "reached": moment(story.reached_at),
        "usual": platform.boot.usual,
        "within": platform.boot.within,
        "sights": [[moment(sight.at), sight.stage] for sight in story.sights][-LINES:],
        "events": events[-LINES:],
        "earlier": max(0, len(events) - LINES),
        "console": [] if story.console is None else last(list(story.console.tail(10 * LINES))),
        "silent": shortened(story.console_error) or ("the bench has no console" if story.console is None else ""),
        "stopped": shortened(story.stopped),
    }
