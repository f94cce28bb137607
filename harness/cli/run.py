"""``bringup run``: carry out, follow, render.

What cannot be shown or written is said in one line on standard error and never hides how the run ended: the exit status is the
verdict's. Only a run that passed cannot keep its 0 where its page was lost (2, unless the reader just went away) or where its
reports could not be written (4).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from harness.cli.progress import ProgressLines
from harness.cli.streams import complain, show
from harness.errors import BenchError
from harness.plugin.settings import Settings
from harness.record.entries import Record


def run_and_report(settings: Settings) -> int:
    """Carry out a run, write its reports, print the table, and return the exit status."""
    from harness.plugin.launch import launch

    with _own_output() as stream:
        progress = ProgressLines(stream)
        run = launch(replace(settings, watcher=progress))
    status = run.verdict.exit if run.verdict is not None else 130 if run.interrupted else 4
    if run.folder is None:
        complain("interrupted before the run began: nothing was touched" if run.interrupted else "the run did not begin")
        return status
    rendered = render(run.folder)
    if rendered.problem:
        complain(rendered.problem)
    lost = show(rendered.text)
    if lost is not None:
        complain(_in_short(rendered, lost))
    if status != 0:
        return status
    return 4 if rendered.problem else 2 if lost is not None and not isinstance(lost, BrokenPipeError) else 0


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """Standard output by a descriptor of its own, which pytest's capturing does not take away in the middle of a test."""
    try:
        descriptor = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):
        yield sys.stdout
        return
    stream = os.fdopen(descriptor, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):  # its reader may have gone away with something unread
            stream.close()


@dataclass(frozen=True)
class Rendered:
    """The page for the terminal, and why reports could not be written ("" where they were)."""

    record: Record
    text: str
    page: Path | None
    problem: str


def render(folder: Path) -> Rendered:
    """Write the reports of a run and make its page for the terminal."""
    from rich.console import Console

    from harness.record.reader import read_record
    from harness.report.files import write_reports
    from harness.report.terminal import render_terminal

    problem, page, qualification = "", None, None
    try:
        written = write_reports(folder)
        record, page, qualification = written.record, written.page, written.qualification
    except BenchError as error:
        record, problem = read_record(folder), str(error)
    draft = _Draft()
    render_terminal(record, Console(file=draft, highlight=False, soft_wrap=False))
    where = f"report: {page}\n" if page is not None else ""
    if qualification is not None:
        where = f"qualification record: {qualification}\n{where}"
    return Rendered(record, draft.text() + where, page, problem)


class _Draft(io.TextIOWrapper):
    """Takes a page as standard output would show it, without writing to it yet."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding=sys.stdout.encoding, errors="backslashreplace", newline="\n", write_through=True)

    def isatty(self) -> bool:
        return sys.stdout.isatty()

    def text(self) -> str:
        """What was written so far."""
        return self._bytes.getvalue().decode(self.encoding)


def _in_short(rendered: Rendered, lost: OSError) -> str:
    """What a person must know who cannot be shown the page."""
    from harness.report.headline import verdict_and_fault
    from harness.report.text import one_line

    where = [f"report: {rendered.page}"] if rendered.page is not None else []
    told = [takes_nothing(lost), verdict_and_fault(rendered.record), *rendered.record.handovers]
    return one_line("; ".join([*told, *where]))


def takes_nothing(lost: OSError) -> str:
    """What to say where standard output is lost."""
    return f"standard output takes nothing: {lost.strerror}"
