"""Writing the reports of a run into its folder: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BenchError
from harness.record import qualification as qualified
from harness.record.entries import Record
from harness.record.reader import read_record
from harness.report.junit import render_junit
from harness.report.page import render_html


@dataclass(frozen=True)
class Reports:
    """What was read and where its renderings are; ``qualification`` is None for a run that is none."""

    record: Record
    junit: Path
    page: Path
    qualification: Path | None = None


def write_reports(folder: Path) -> Reports:
    """Render ``results.jsonl`` of a run's folder as ``junit.xml`` and ``report.html`` beside it.

    Both are rendered before one is written. Raises UsageMistake where there is no record to read and BenchError where the folder
    cannot be written; a report that was there before is then still there.
    """
    record = read_record(folder)
    qualification = None if qualified.objections(record) else folder / qualified.FILE_NAME
    reports = Reports(record, folder / "junit.xml", folder / "report.html", qualification)
    junit, page = render_junit(record), render_html(record)
    _replace(reports.junit, junit)
    _replace(reports.page, page)
    if qualification is not None:
        _replace(qualification, qualified.qualification_text(record))
    return reports


def write_page(path: Path, text: str) -> None:
    """Write one page, whole or not at all. Raises BenchError where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"{path}: cannot write the report: {error.strerror or error}") from None
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with fresh.open("xb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BenchError(f"{path}: cannot write the report: {error.strerror or error}") from None
