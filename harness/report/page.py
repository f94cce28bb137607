"""The HTML page: one file, readable on a phone and on paper, in light and in dark, whole without its script.

templates/page.html.j2          the frame: policy, style, script, the sections in their order
templates/first_screen.html.j2  verdict, fault, parts, cause, next step
templates/stages.html.j2        what the stages show: settings, start, tree, copies, training
templates/tables.html.j2        cases, measurements, what is outside its limits
templates/page.css, page.js     the script sorts and filters tables, nothing else
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.part import Part
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.report.drawings.bars import show_spaces
from harness.report.drawings.heat import Map, draw_maps, why_none
from harness.report.drawings.rates import Training, show_training
from harness.report.drawings.tree import draw_trees
from harness.report.exhibits import exhibit, rows
from harness.report.first_screen import compose
from harness.report.grid import Mark, build_grid
from harness.report.headline import headline, machine, verdict_and_fault, where_from, word
from harness.report.sections import Start, show_settings, show_start, show_versions
from harness.report.summary import StageSummary, failures, not_measured, outside_limits, summarise
from harness.report.text import clip, is_inside, printable
from harness.units import duration

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
    maps, training, start = draw_maps(record), show_training(record), show_start(record)
    return render(
        "page.html.j2",
        title=f"{word(record)}: {record.run.bench or record.run.id}",
        headline=headline(record),
        pieces=_pieces(record),
        word=word(record),
        record=record,
        first=compose(record),
        facts=_run_facts(record),
        failures=failures(record),
        outside=outside_limits(record),
        missing=not_measured(record),
        grid=build_grid(record),
        legend=[mark for mark in Mark if mark is not Mark.NO_CASE],
        stages=_sections(record),
        parts=_parts(record.measurements),
        firmware=show_versions(record),
        bios=show_settings(record),
        boot=start,
        trees=draw_trees(record),
        spaces=show_spaces(record),
        maps=maps,
        refused=why_none(record),
        training=training,
        figures=_figures(record, maps, training, start),
    )


def render(template: str, **values: object) -> str:
    """A page of a template, with the style and the script that all pages share."""
    script = Markup(_read("page.js"))  # noqa: S704 - our own file
    style = Markup(_read("page.css"))  # noqa: S704 - our own file
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return _environment().get_template(template).render(script=script, style=style, policy=policy, **values)


@cache
def _environment() -> Environment:
    """Our own templates; compiling them takes longer than a page of a thousand values."""
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        loader=FunctionLoader(_read),
    )
    environment.filters["href"] = href
    environment.filters["clock"] = _clock
    return environment


def href(path: str) -> str:
    """A link to an attachment, or "" where the path leads out of the run's folder."""
    return f"./{quote(printable(path), safe='/')}" if is_inside(path) else ""


def _read(name: str) -> str:
    return files("harness.report").joinpath("templates", name).read_text(encoding="utf-8")


def _finalize(value: object) -> object:
    """Every value on its way into the page: nothing for None, only visible characters, no endless texts."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clip(printable(value), _TEXT_LIMIT)
    return value


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else duration(max(0.0, seconds))


def _pieces(record: Record) -> Sequence[tuple[str, str]]:
    """The headline in its pieces, for a heading that breaks where it may."""
    whole, place, about = headline(record), where_from(record), machine(record)
    verdict = whole.partition(" | ")[0] if whole.startswith(verdict_and_fault(record)) else ""
    if not verdict or whole != " | ".join((verdict, place, about)):
        return [("verdict", whole)]
    return [("verdict", verdict), ("place", place), ("about", about)]


def _figures(record: Record, maps: Sequence[Map], training: Training | None, start: Start | None) -> Sequence[tuple[str, str]]:
    """What was found, in one line for each of the stages that measure."""
    counted = [(name, count) for name, count in rows(exhibit(record, "pcie") or {}, "counts", str, int) if name]
    figures = [("parts", f"{counted[-1][1]} of {counted[0][1]} expected: {counted[-1][0]}")] if counted else []
    if start is not None and start.took is not None:
        figures.append(("start", f"the host was back after {duration(start.took)}"))
    figures += [("copies" if number == 0 else "", f"{each.name} {each.said}") for number, each in enumerate(maps)]
    total = next((each for each in (training.judged if training else ()) if each.name == "resnet50.total"), None)
    if total is not None:
        figures.append(("training", f"{total.shown}{f' ({total.limit})' if total.limit else ', recorded, not judged'}"))
    return figures


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
        "exit status": "" if record.end is None else str(record.end.exit),
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
