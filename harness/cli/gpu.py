"""``bringup gpu``: read the results of GPU tests that people already have, and judge them by the rules of the stages.

ANALYSIS of 2 files, no machine was touched: 1 fault, 0 warnings
files      what each was recognised as
findings   what, where, quote, likely cause, next step
tables     figures by file, beside what they could be at most
not told   what these files cannot show, and what would
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from harness import locator
from harness.cli.analysis import content_of, finding_lines, headline
from harness.cli.streams import complain
from harness.devices.dumps.harvest import Harvest
from harness.devices.gpu_reports.facts import Grid, Reading
from harness.devices.gpu_reports.recognise import read_report
from harness.procedures.analysis.diagnosis import Severity
from harness.procedures.gpu_analysis.analysis import GpuAnalysis, analyse_reports
from harness.procedures.gpu_analysis.summaries import Summary, efficiency_of


def analyse_files(files: Sequence[Path], platform: str | None) -> GpuAnalysis:
    """Read the files and judge what they tell together. Raises UsageMistake with one line for a file that cannot be read."""
    expected = None if platform is None else locator.find_platform(platform)[0]
    readings: list[Reading] = []
    harvests: list[Harvest] = []
    for file in files:
        if len(files) > 1:
            complain(f"reading {file}")
        found = read_report(str(file), content_of(file))
        readings += found.readings
        harvests += found.harvests
    return analyse_reports(readings, harvests, expected)


def as_json(analysis: GpuAnalysis) -> str:
    """The whole analysis as one JSON object."""
    told = {
        "schema": 1,
        "failed": analysis.failed,
        "files": [{"source": source, "format": form, "summary": summary} for source, form, summary in _files(analysis)],
        "system": {key: value for reading in analysis.readings for key, value in reading.system.items()}
        | dict(analysis.picture.system),
        "devices": [{"source": reading.source, **asdict(device)} for reading in analysis.readings for device in reading.devices],
        "copies": [_as_table(reading, grid) for reading in analysis.readings for grid in reading.grids],
        "training": [
            {
                "source": run.reading.source,
                "identity": str(run.report.identity),
                "gpus": run.training.count,
                "images_per_second": run.training.rate,
                "images_per_second_per_gpu": run.training.per_gpu,
                "efficiency": efficiency_of(run),
                "spread_percent": run.report.spread,
            }
            for run in analysis.runs
        ],
        "collectives": [
            {"source": reading.source, **asdict(reading.collective)}
            for reading in analysis.readings
            if reading.collective is not None
        ],
        "checks": [{"source": reading.source, **asdict(check)} for reading in analysis.readings for check in reading.checks],
        "gpus": [asdict(gpu) for gpu in analysis.picture.gpus],
        "findings": [asdict(diagnosis) for diagnosis in analysis.diagnoses],
        "unread": [asdict(unread) for unread in analysis.unread],
    }
    return json.dumps(told, indent=1)


def as_text(analysis: GpuAnalysis) -> Iterator[str]:
    """The whole analysis as a person reads it."""
    files = list(_files(analysis))
    count = len({source.split(":", 1)[0] for source, _, _ in files})
    yield headline(count, len(analysis.of(Severity.FAIL)), len(analysis.of(Severity.WARN)))
    yield ""
    for source, form, summary in files:
        yield f"  {source}: {form}, {summary}"
    for diagnosis in analysis.diagnoses:
        yield ""
        yield from finding_lines(diagnosis)
    for table in analysis.summaries:
        yield ""
        yield from _table(table)
    yield ""
    yield "these files do not tell"
    for unread in analysis.unread:
        yield f"  {unread}"


def _files(analysis: GpuAnalysis) -> Iterator[tuple[str, str, str]]:
    for reading in analysis.readings:
        yield reading.source, reading.tool.value, reading.summary
    for harvest in analysis.picture.harvests:
        yield harvest.source, harvest.format.value, harvest.summary


def _as_table(reading: Reading, grid: Grid) -> dict[str, object]:
    cells = [{"from": one, "to": other, "value": value} for (one, other), value in grid.cells.items()]
    return {"source": reading.source, "what": grid.quantity.value, "peer_access": grid.peers, "way": grid.way, "cells": cells}


def _table(summary: Summary) -> Iterator[str]:
    """Columns as wide as their widest word."""
    yield f"{summary.title}{f' ({summary.source})' if summary.source else ''}"
    lines = [summary.heads, *summary.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(summary.heads))]
    for line in lines:
        yield "  " + "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
