"""The HTML page: one file, no scripts, readable in light, in dark and on paper."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from harness.part import Part
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.report.grid import Mark, build_grid
from harness.report.headline import headline, word
from harness.report.summary import StageSummary, failures, not_measured, outside_limits, summarise
from harness.report.text import clip, is_inside, printable

_TEXT_LIMIT = 100_000
"""Characters of one text on the page; the record has the rest."""


@dataclass(frozen=True)
class StageSection:
    """A stage with what was measured in it."""

    summary: StageSummary
    cases: tuple[CaseRecord, ...]
    measurements: tuple[MeasurementRecord, ...]


def render_html(record: Record) -> str:
    """The record as one self-contained page, encoded as UTF-8 when written."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_finalize)
    environment.filters["href"] = href
    source = files("harness.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        title=f"{word(record)}: {record.run.bench or record.run.id}",
        headline=headline(record),
        word=word(record),
        record=record,
        facts=_run_facts(record),
        failures=failures(record),
        outside=outside_limits(record),
        missing=not_measured(record),
        grid=build_grid(record),
        legend=[mark for mark in Mark if mark is not Mark.NO_CASE],
        stages=_sections(record),
        parts=_parts(record.measurements),
    )


def href(path: str) -> str:
    """A link to an attachment, or "" where the path leads out of the run's folder."""
    return f"./{quote(printable(path), safe='/')}" if is_inside(path) else ""


def _finalize(value: object) -> object:
    """Every value on its way into the page: nothing for None, only visible characters, no endless texts."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clip(printable(value), _TEXT_LIMIT)
    return value


def _run_facts(record: Record) -> Mapping[str, str]:
    run = record.run
    facts = {
        "run": run.id,
        "started": run.started,
        "bench": run.bench,
        "platform": run.platform,
        "mode": run.mode,
        "source": run.source,
        "tape": f"{run.tape.name}, recorded {run.tape.recorded_at}" if run.tape else "",
        "settings": _settings(record),
        "faults switched on": ", ".join(run.faults),
        "harness": run.harness,
        "command": shlex.join(run.command),
    }
    return {name: value for name, value in facts.items() if value}


def _settings(record: Record) -> str:
    """Whether settings could be changed; a replay changes nothing, whatever its recording was allowed."""
    if record.run.mode == "replay":
        return f"nothing is changed; recorded {'with changes allowed' if record.run.apply else 'without changes allowed'}"
    return "may be changed (--apply)" if record.run.apply else "only compared"


def _sections(record: Record) -> Sequence[StageSection]:
    measured: dict[str, list[MeasurementRecord]] = {}
    stage_of = {case.id: case.stage for case in record.cases}
    for measurement in record.measurements:
        stage = stage_of.get(measurement.case, measurement.check.partition(".")[0])
        measured.setdefault(stage, []).append(measurement)
    return [
        StageSection(summary, record.cases_of(summary.stage), tuple(measured.get(summary.stage, ())))
        for summary in summarise(record)
    ]


def _parts(measurements: Sequence[MeasurementRecord]) -> Sequence[Part]:
    """The parts that measurements named, each as it was last known, where more than its slot is known."""
    known: dict[str, Part] = {}
    for measurement in measurements:
        if measurement.part is not None and measurement.part != Part(measurement.part.slot):
            known[measurement.part.slot] = measurement.part
    return [known[slot] for slot in sorted(known)]
