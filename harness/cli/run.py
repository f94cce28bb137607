"""``bringup run`` and ``bringup report``: carry out, follow, render.

What cannot be shown or written is said in one line on standard error and never hides how the run ended: the exit status is the
verdict's. Only a run that passed cannot keep its 0 where its page was lost (2, unless the reader just went away) or where its
reports could not be written (4).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from harness.cli.progress import ProgressLines
from harness.cli.streams import complain, show
from harness.errors import BenchError, UsageMistake
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
    rendered = _render(run.folder)
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


def report_again(name: str, reports: Path) -> int:
    """Render the reports of a run once more; the exit status is 3 where the run never came to its end, and one line says so.

    Raises UsageMistake where there is no such run and, after the table was printed, where the reports cannot be written.
    """
    rendered = _render(find_run(name, reports))
    _show_all(rendered.text)
    if rendered.problem:
        raise UsageMistake(rendered.problem)
    return _tell_unfinished([rendered.record])


def print_report(name: str, reports: Path, form: str) -> int:
    """Print a run in another form; nothing is written. Raises UsageMistake where there is no such run or form.

    The exit status is that of ``report_again``.
    """
    from harness.record.reader import read_record
    from harness.report.formats import NAMES, render_as

    if form not in NAMES:
        raise UsageMistake(f"no format {form!r}: --format takes {', '.join(NAMES)}")
    record = read_record(find_run(name, reports))
    _show_all(render_as(form)(record))
    return _tell_unfinished([record])


def compare_runs(names: Sequence[str], reports: Path, form: str) -> int:
    """Compare runs, print what differs, and write ``comparison.html`` below ``reports``; in the form html only print the page.

    Raises UsageMistake where there is no such run, or for another form. The exit status is that of ``report_again``.
    """
    from harness.record.reader import read_record
    from harness.report.comparison import compare, render_comparison, tell
    from harness.report.files import write_page

    if form not in ("", "html"):
        raise UsageMistake(f"--format {form} takes one run: several are compared, on the terminal and as html")
    records = [read_record(find_run(name, reports)) for name in names]
    comparison = compare(records)
    page = render_comparison(comparison)
    if form == "html":
        _show_all(page)
        return _tell_unfinished(records)
    target = reports / "comparison.html"
    try:
        write_page(target, page)
    except BenchError as error:
        raise UsageMistake(str(error)) from None
    _show_all(f"{tell(comparison)}\nreport: {target}\n")
    return _tell_unfinished(records)


def _show_all(text: str) -> None:
    if (lost := show(text)) is not None:
        raise lost if isinstance(lost, BrokenPipeError) else UsageMistake(_takes_nothing(lost))


def _tell_unfinished(records: Sequence[Record]) -> int:
    """3, with a line for each record that is not whole; what was rendered of it is no result."""
    from harness.report.headline import verdict_and_fault

    broken = [record for record in records if not record.closed]
    for record in broken:
        complain(f"{record.path}: this is no whole record, {verdict_and_fault(record)}")
    return 3 if broken else 0


def find_run(name: str, reports: Path) -> Path:
    """The folder of a run, named by itself or by its id below the reports. Raises UsageMistake where there is none."""
    for folder in (Path(name), reports / name):
        if (folder / "results.jsonl").is_file():
            return folder
    raise UsageMistake(f"no run {name!r}: neither {name}/results.jsonl nor {reports / name}/results.jsonl is there")


@dataclass(frozen=True)
class _Rendered:
    """The page for the terminal, and why reports could not be written ("" where they were)."""

    record: Record
    text: str
    page: Path | None
    problem: str


def _render(folder: Path) -> _Rendered:
    from rich.console import Console

    from harness.record.reader import read_record
    from harness.report.files import write_reports
    from harness.report.terminal import render_terminal

    problem, page = "", None
    try:
        written = write_reports(folder)
        record, page = written.record, written.page
    except BenchError as error:
        record, problem = read_record(folder), str(error)
    draft = _Draft()
    render_terminal(record, Console(file=draft, highlight=False, soft_wrap=False))
    where = f"report: {page}\n" if page is not None else ""
    return _Rendered(record, draft.text() + where, page, problem)


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


def _in_short(rendered: _Rendered, lost: OSError) -> str:
    """What a person must know who cannot be shown the page."""
    from harness.report.headline import verdict_and_fault
    from harness.report.text import one_line

    where = [f"report: {rendered.page}"] if rendered.page is not None else []
    told = [_takes_nothing(lost), verdict_and_fault(rendered.record), *rendered.record.handovers]
    return one_line("; ".join([*told, *where]))


def _takes_nothing(lost: OSError) -> str:
    return f"standard output takes nothing: {lost.strerror}"
