"""``bringup run`` and ``bringup report``: carry out, follow, render."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from harness.cli.progress import ProgressLines
from harness.errors import BenchError, UsageMistake
from harness.plugin.settings import Settings


def run_and_report(settings: Settings) -> int:
    """Carry out a run, write its reports, print the table, and return the exit status."""
    from dataclasses import replace

    from harness.plugin.launch import launch

    with _own_output() as stream:
        run = launch(replace(settings, watcher=ProgressLines(stream)))
    assert run.folder is not None
    assert run.verdict is not None
    _render(run.folder)
    return run.verdict.exit


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """Standard output by a descriptor of its own, which pytest's capturing does not take away in the middle of a test."""
    sys.stdout.flush()
    try:
        descriptor = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):
        yield sys.stdout
        return
    with os.fdopen(descriptor, "w", encoding=sys.stdout.encoding, errors="replace") as stream:
        yield stream


def report_again(name: str, reports: Path) -> None:
    """Render the reports of a run once more."""
    for folder in (Path(name), reports / name):
        if (folder / "results.jsonl").is_file():
            _render(folder)
            return
    raise UsageMistake(f"no run {name!r}: neither {name}/results.jsonl nor {reports / name}/results.jsonl is there")


def _render(folder: Path) -> None:
    from rich.console import Console

    from harness.record.reader import read_record
    from harness.report.files import write_reports
    from harness.report.terminal import render_terminal

    console = Console(highlight=False, soft_wrap=False)
    try:
        written = write_reports(folder)
    except BenchError as error:
        render_terminal(read_record(folder), console)
        sys.stderr.write(f"bringup: {error}\n")
    else:
        render_terminal(written.record, console)
        console.print(f"report: {written.page}", soft_wrap=True)
