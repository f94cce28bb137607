"""CSV: one row a measurement, for a spreadsheet or a data frame."""

from __future__ import annotations

import csv
import io

from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.report.text import one_line

COLUMNS = (
    *("run", "bench", "mode", "source", "service_tag", "bios", "idrac"),
    *("check", "case", "slot", "serial", "name", "value", "unit", "limit", "margin", "outcome", "at", "note"),
    *("case_outcome", "waiver"),
)
"""The header. ``value`` and ``margin`` are in ``unit``, ``at`` in seconds of the run's clock. ``outcome`` is the measurement's own;
``waiver`` says who answers for its case, where that was waived."""

_FORMULA = ("=", "+", "-", "@")


def render_csv(record: Record) -> str:
    """All measurements in the order of the run, RFC 4180, with a header row."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    run, facts = record.run, record.identity
    named = (run.id, run.bench, run.mode, run.source, *(facts.get(name, "") for name in ("service_tag", "bios", "idrac")))
    about = [_cell(value) for value in named]
    cases = {case.id: case for case in record.cases}
    for measurement in record.measurements:
        ended = _ended(cases.get(measurement.case))
        writer.writerow([*about, *map(_cell, (*_row(measurement), *ended))])
    return text.getvalue()


def _row(measurement: MeasurementRecord) -> tuple[object, ...]:
    part = measurement.part
    return (
        measurement.check,
        measurement.case,
        part.slot if part else "",
        part.serial if part else "",
        measurement.name,
        measurement.value,
        measurement.unit,
        measurement.limit,
        measurement.margin,
        measurement.outcome.value,
        measurement.at,
        measurement.note,
    )


def _ended(case: CaseRecord | None) -> tuple[str, str]:
    """How its case ended, "" where that is not known; and by which waiver."""
    return ("", "") if case is None else (case.outcome.value, "" if case.waiver is None else str(case.waiver))


def _cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula is quoted as text: a machine wrote it."""
    if not isinstance(value, str):
        return "" if value is None else value
    shown = one_line(value)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
