"""``bringup report``: render a run again, in one form or another; compare or merge several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.cli.run import render, takes_nothing
from harness.cli.streams import complain, show
from harness.errors import BenchError, UsageMistake
from harness.record.entries import Record


def report_again(name: str, reports: Path) -> int:
    """Render the reports of a run once more; the exit status is 3 where the run never came to its end, and one line says so.

    Raises UsageMistake where there is no such run and, after the table was printed, where the reports cannot be written.
    """
    rendered = render(find_run(name, reports))
    _show_all(rendered.text)
    if rendered.problem:
        raise UsageMistake(rendered.problem)
    return _tell_unfinished([rendered.record])


def print_report(names: Sequence[str], reports: Path, form: str, output: Path | None) -> int:
    """Print runs in another form, or write them to ``output``, whole or not at all; of several, only JUnit is one file.

    Raises UsageMistake where there is no such run or form. The exit status is that of ``report_again``.
    """
    from harness.record.reader import read_record
    from harness.report.files import write_page
    from harness.report.formats import NAMES, render_as

    if form not in NAMES:
        raise UsageMistake(f"no format {form!r}: --format takes {', '.join(NAMES)}")
    if len(names) > 1 and form not in MERGED:
        raise UsageMistake(f"--format {form} takes one run: several are compared (html) or merged (junit)")
    records = [read_record(find_run(name, reports)) for name in names]
    text = MERGED[form](records) if len(records) > 1 else render_as(form)(records[0])
    if output is None:
        _show_all(text)
    else:
        try:
            write_page(output, text)
        except BenchError as error:
            raise UsageMistake(str(error)) from None
    return _tell_unfinished(records)


def compare_runs(names: Sequence[str], reports: Path) -> int:
    """Compare runs, print what differs, and write ``comparison.html`` below ``reports``.

    Raises UsageMistake where there is no such run. The exit status is that of ``report_again``.
    """
    from harness.record.reader import read_record
    from harness.report.comparison import compare, render_comparison, tell
    from harness.report.files import write_page

    records = [read_record(find_run(name, reports)) for name in names]
    comparison = compare(records)
    target = reports / "comparison.html"
    try:
        write_page(target, render_comparison(comparison))
    except BenchError as error:
        raise UsageMistake(str(error)) from None
    _show_all(f"{tell(comparison)}\nreport: {target}\n")
    return _tell_unfinished(records)


def _compared(records: Sequence[Record]) -> str:
    from harness.report.comparison import compare, render_comparison

    return render_comparison(compare(records))


def _merged(records: Sequence[Record]) -> str:
    from harness.report.junit import merge_junit

    return merge_junit(records)


MERGED = {"html": _compared, "junit": _merged}
"""The forms that take several runs."""


def _show_all(text: str) -> None:
    if (lost := show(text)) is not None:
        raise lost if isinstance(lost, BrokenPipeError) else UsageMistake(takes_nothing(lost))


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
