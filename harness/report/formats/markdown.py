"""Markdown: the first screen as a comment on a merge request or a ticket shows it."""

from __future__ import annotations

import re

from harness.record.entries import Record
from harness.report.headline import headline
from harness.report.summary import failures, not_measured, outside_limits, summarise
from harness.report.text import clip, one_line

MOST = 20
"""Rows of a list; what comes after them is counted, for a comment has a limit of its own."""

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def render_markdown(record: Record) -> str:
    """Verdict, stages, failures, violated limits, what was not measured, what was left on the machine."""
    lines = [f"**{_plain(headline(record))}**", "", *_stages(record)]
    lines += _section(
        "Failed",
        [
            f"`{_code(failed.check)}` ({failed.blame}, {len(failed.cases)}): {_plain(clip(one_line(failed.cases[0].message), 400))}"
            for failed in failures(record)
        ],
    )
    lines += _section("Waived", [f"`{_code(case.id)}` by {_plain(str(case.waiver))}" for case in record.waived()])
    lines += _section("Outside limits", [_plain(str(measurement)) for measurement in outside_limits(record)])
    lines += _section("Not measured", [_plain(f"{missing.what}: {missing.reason}") for missing in not_measured(record)])
    lines += _section("Left on the machine", [_plain(text) for text in record.handovers[-1:]])
    return "\n".join(lines) + "\n"


def _stages(record: Record) -> list[str]:
    rows = ["| stage | gate | passed | failed | blocked | not measured | waived |", "|---|---|---:|---:|---:|---:|---:|"]
    for stage in summarise(record):
        counts = " | ".join(str(count) for count in (stage.passed, stage.failed, stage.blocked, stage.not_measured, stage.waived))
        rows.append(f"| {_plain(stage.stage)} | {_plain(stage.leaves)} | {counts} |")
    return rows


def _section(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    more = [f"* ... and {len(entries) - MOST} more"] if len(entries) > MOST else []
    return ["", f"### {title}", "", *(f"* {entry}" for entry in entries[:MOST]), *more]


def _plain(text: str) -> str:
    """Text that stays text: what a machine said is no link, no picture and no mention."""
    return _MARKUP.sub(r"\\\1", one_line(text)).replace("@", "@\u200b")


def _code(text: str) -> str:
    return one_line(text).replace("`", "'")
