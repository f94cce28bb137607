"""The page on the terminal: read top to bottom, the first screen says what is broken.

Words carry the meaning, colour only repeats it, so a log file or NO_COLOR loses nothing. Nothing is wider than the console.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.record.verdict import BROKEN, FAILED, HARNESS_ERROR, PASSED
from harness.report.hanging import hang
from harness.report.headline import headline, word
from harness.report.summary import Failure, Missing, StageSummary, failures, not_measured, outside_limits, summarise
from harness.report.text import clip, listed, one_line, printable

_ROWS = 30
"""Rows of a table or list; the rest is counted."""

_FULL_MESSAGES = 3
"""Cases of one check whose whole message is shown; the rest are named."""

_MESSAGE_LINES = 40
_DUMP_LINES = 6
_LIST = 2000
"""Characters of a list of slots or cases."""

_DUMP = re.compile(r"E  +\S|Traceback \(most recent call last\)|\S+\.py:\d+: ")
"""A line that only pytest's or Python's own account of an exception has."""

_STYLES = {PASSED: "bold green", FAILED: "bold red", BROKEN: "bold red", HARNESS_ERROR: "bold red"}


def render_terminal(record: Record, console: Console, *, page: Path | None = None) -> None:
    """Print the record to ``console``; ``page`` is where its HTML page is, if it was written."""
    shown = word(record)
    _say(console, headline(record), style=_STYLES.get(shown, "bold yellow"))
    for sentence in record.damage:
        _say(console, f"damaged record: {sentence}", style="red")
    _print_stages(console, summarise(record))
    _print_limits(console, outside_limits(record))
    _print_missing(console, not_measured(record))
    for failure in failures(record):
        _print_failure(console, failure)
    _print_waived(console, record.waived())
    console.print()
    for text in (*record.notes, *record.handovers):
        _say(console, text)
    if page is not None:
        _say(console, f"report: {page}")


def _print_stages(console: Console, stages: Sequence[StageSummary]) -> None:
    """The counts as a table; what needs words stands below it, where there is room for them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("stage", overflow="fold")
    table.add_column("gate", overflow="fold")
    any_waived = any(stage.waived for stage in stages)
    for name in ("passed", "failed", "blocked", "not\nmeasured", "n/a", *(["waived"] if any_waived else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in stages:
        table.add_row(
            _text(console, stage.stage),
            _text(console, stage.leaves),
            _count(stage.passed),
            _count(stage.failed, "bold red"),
            _count(stage.blocked),
            _count(stage.not_measured, "yellow"),
            _count(stage.not_applicable),
            *([_count(stage.waived, "yellow")] if any_waived else []),
        )
    console.print()
    console.print(table)
    told = [(stage.stage, why) for stage in stages if (why := _why(stage))]
    if told:
        _title(console, "First failure of each stage, or why")
        width = min(12, max(len(stage) for stage, _ in told))
        _indented(console, [f"{stage:{width}}  {why}" for stage, why in told])


def _why(stage: StageSummary) -> str:
    said = [stage.first_failure or stage.reason or stage.blocked_by]
    if stage.lost:
        said.append(f"lost: {listed(stage.lost, _LIST)}")
    if stage.unreached:
        said.append(f"never reached: {stage.unreached}")
    if stage.information:
        said.append("for information only")
    return "; ".join(text for text in said if text)


def _print_limits(console: Console, outside: Sequence[MeasurementRecord]) -> None:
    if not outside:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("part", overflow="fold", max_width=20)
    table.add_column("measurement", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("limit", overflow="fold")
    table.add_column("", overflow="fold", min_width=8)
    for measurement in outside[:_ROWS]:
        failed = measurement.outcome == Outcome.FAIL
        cells = (str(measurement.part or ""), measurement.name, measurement.shown, measurement.limit or "")
        table.add_row(
            *(_text(console, one_line(cell, 200)) for cell in cells),
            Text(measurement.outcome.value.upper(), style="bold red" if failed else "yellow"),
        )
    _title(console, "Outside the limits, or only just inside")
    console.print(table)
    _print_rest(console, len(outside), "values")


def _print_missing(console: Console, missing: Sequence[Missing]) -> None:
    if not missing:
        return
    _title(console, "Not measured")
    by_check: dict[str, list[Missing]] = {}
    for entry in missing:
        by_check.setdefault(entry.what.partition("[")[0], []).append(entry)
    for entries in list(by_check.values())[:_ROWS]:
        first, more = entries[0], f" (and {len(entries) - 1} more)" if len(entries) > 1 else ""
        _indented(console, [one_line(f"{first.what}{more}: {first.reason}" if first.reason else f"{first.what}{more}", 400)])
    _print_rest(console, len(by_check), "kinds not measured")


def _print_failure(console: Console, failure: Failure) -> None:
    count = f", {len(failure.cases)} cases" if len(failure.cases) > 1 else ""
    _title(console, f"{failure.check} failed ({failure.blame}{count})", style="bold red")
    dumped = False
    for case in failure.cases[:_FULL_MESSAGES]:
        if case.id != case.check:
            _say(console, f"{case.id}{' (for information)' if case.information else ''}")
        lines = printable(case.message).rstrip().splitlines() or ["failed without a message"]
        if _is_dump(lines):
            _indented(console, lines[:1] if dumped else _dump(lines))
            dumped = True
        else:
            _indented(console, _message(lines))
    others = [case.id for case in failure.cases[_FULL_MESSAGES:]]
    if others:
        _say(console, f"and the same check for {listed(others, _LIST)}")


def _print_waived(console: Console, waived: Sequence[CaseRecord]) -> None:
    """What did not pass and who answers for it; cases of one waiver stand together."""
    by_waiver: dict[str, list[CaseRecord]] = {}
    for case in waived:
        by_waiver.setdefault(str(case.waiver or "a waiver that the record does not tell"), []).append(case)
    if by_waiver:
        _title(console, "Waived", style="bold yellow")
    for waiver, cases in list(by_waiver.items())[:_ROWS]:
        named = f"{listed([case.id for case in cases], _LIST)} ({', '.join(dict.fromkeys(_without(case) for case in cases))})"
        _indented(console, [f"{named} by {one_line(waiver, 400)}"])
    _print_rest(console, len(by_waiver), "waivers")


def _without(case: CaseRecord) -> str:
    return case.waiver.outcome if case.waiver is not None else "unknown"


def _is_dump(lines: Sequence[str]) -> bool:
    """True for an exception that nobody foresaw: a line that names it, then where the program was."""
    return any(_DUMP.match(line) for line in lines)


def _dump(lines: Sequence[str]) -> Sequence[str]:
    """The line that names the exception and the end of the dump, where it was raised."""
    cut = len(lines) - 1 - _DUMP_LINES
    return lines if cut <= 0 else [lines[0], f"... {cut} more lines in report.html", *lines[-_DUMP_LINES:]]


def _message(lines: Sequence[str]) -> Sequence[str]:
    cut = len(lines) - _MESSAGE_LINES
    return lines if cut <= 0 else [*lines[:_MESSAGE_LINES], f"... {cut} more lines in report.html"]


def _print_rest(console: Console, count: int, what: str) -> None:
    if count > _ROWS:
        _indented(console, [f"... and {count - _ROWS} more {what} in report.html"])


def _title(console: Console, text: str, *, style: str = "bold") -> None:
    console.print()
    _say(console, text, style=style)


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(_text(console, text, style), overflow="fold", soft_wrap=False)


def _indented(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        for wrapped in hang(console, _text(console, f"    {clip(line, 2000)}")):
            console.print(wrapped)


def _count(count: int, style: str = "") -> Text:
    return Text(str(count) if count else "-", style=style if count else "dim")


def _text(console: Console, text: str, style: str = "") -> Text:
    """Text without markup, with only what the console's encoding can say; a long word is folded, never cut."""
    fitting = printable(text).expandtabs(4).encode(console.encoding, "backslashreplace").decode(console.encoding)
    return Text(fitting, style=style, overflow="fold")
