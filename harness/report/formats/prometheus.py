"""Prometheus text exposition for node-exporter's collector folder: one file a machine, the last run.

``bringup report RUN --format prometheus --output x.prom`` replaces the file in one step: the collector reads at any moment.
Words and truth values are no samples; ``bringup_case`` says how each check ended instead.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from harness.record.entries import MeasurementRecord, Record
from harness.record.verdict import EXITS
from harness.report.headline import word
from harness.report.text import one_line

_NAME = re.compile(r"[^a-zA-Z0-9_]")
_LONGEST = 300
Labels = Mapping[str, str]


def render_prometheus(record: Record) -> str:
    """The run as gauges. Every sample has the labels bench, source, mode and service_tag."""
    run = record.run
    named = {"bench": run.bench, "source": run.source, "mode": run.mode, "service_tag": record.identity.get("service_tag", "")}
    about = {name: one_line(text, _LONGEST) for name, text in named.items()}
    families = (
        ("bringup_run_info", "Firmware and harness of the last run.", [(_info(record), 1.0)]),
        ("bringup_run_started_seconds", "When the last run began, seconds since the epoch.", _started(record)),
        ("bringup_run_verdict", "1 for the verdict of the last run, 0 for every other one.", _verdicts(record)),
        ("bringup_case", "Cases of the last run by check and outcome.", _cases(record)),
        ("bringup_measurement", "Numbers measured in the last run; the unit is a label.", _measurements(record.measurements)),
        ("bringup_margin", "Distance to the nearest bound, positive inside the limit.", _margins(record.measurements)),
    )
    lines: list[str] = []
    for name, text, samples in families:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels({**about, **labels})} {value:.17g}" for labels, value in _unique(samples)]
    return "\n".join(lines) + "\n"


def _info(record: Record) -> Labels:
    facts = {name: record.identity.get(name, "") for name in ("system", "bios", "idrac", "driver")}
    return {**facts, "platform": record.run.platform, "harness": record.run.harness, "run": record.run.id}


def _started(record: Record) -> Iterable[tuple[Labels, float]]:
    try:
        yield {}, datetime.fromisoformat(record.run.started).timestamp()
    except ValueError:
        return


def _verdicts(record: Record) -> Iterable[tuple[Labels, float]]:
    shown = word(record)
    for name in dict.fromkeys((*EXITS, shown)):
        yield {"verdict": name}, float(name == shown)


def _cases(record: Record) -> Iterable[tuple[Labels, float]]:
    counts = Counter((case.check, case.stage, case.outcome.value, case.blame) for case in record.cases)
    for (check, stage, outcome, blame), count in counts.items():
        yield {"check": check, "stage": stage, "outcome": outcome, "blame": blame}, float(count)


def _measurements(measurements: Iterable[MeasurementRecord]) -> Iterable[tuple[Labels, float]]:
    for measurement in measurements:
        if _is_number(measurement.value):
            yield _place(measurement), float(measurement.value)  # type: ignore[arg-type]


def _margins(measurements: Iterable[MeasurementRecord]) -> Iterable[tuple[Labels, float]]:
    for measurement in measurements:
        if measurement.margin is not None and math.isfinite(measurement.margin):
            yield _place(measurement), measurement.margin


def _place(measurement: MeasurementRecord) -> Labels:
    part = measurement.part
    return {
        "name": measurement.name,
        "unit": measurement.unit,
        "check": measurement.check,
        "slot": part.slot if part else "",
        "serial": part.serial if part else "",
        "outcome": measurement.outcome.value,
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _unique(samples: Iterable[tuple[Labels, float]]) -> Iterable[tuple[Labels, float]]:
    """The last sample of each set of labels: two of one set make a collector drop the whole file."""
    return {tuple(sorted(labels.items())): (labels, value) for labels, value in samples}.values()


def _labels(labels: Labels) -> str:
    shown = (f'{_NAME.sub("_", name)}="{_quoted(value)}"' for name, value in labels.items() if value)
    return "{" + ",".join(shown) + "}"


def _quoted(text: str) -> str:
    return one_line(text, _LONGEST).replace("\\", "\\\\").replace('"', '\\"')
