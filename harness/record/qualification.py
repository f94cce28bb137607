"""The qualification record: what a whole run on real hardware showed, and what it did not.

    reports/<run-id>/qualification.json      only beside a record that nothing speaks against

Only a live run of all stages on hardware that came to its end, passed, and whose record is as the run sealed it gets one; a
replay never does. It is no signature: who rewrites record and seal on purpose can forge it. ``qualification.schema.json``
describes it to programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from harness.limits import Outcome
from harness.part import Part
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.record.lines import CaseOutcome
from harness.record.seal import digest, read_seal
from harness.record.verdict import PASSED

SCHEMA = 1
FILE_NAME = "qualification.json"
WHOLE = ("bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50")
"""The stages that a machine is qualified by."""


def objections(record: Record) -> list[str]:
    """Why a run is no qualification, one sentence each; empty for one that is."""
    run = record.run
    told = []
    if run.mode not in ("live", "record"):
        told.append(f"it is a {run.mode or 'run of unknown mode'}: no machine was touched")
    if run.source != "hardware" or record.identity.get("simulated"):
        told.append(f"its machine is no hardware but {record.identity.get('simulated') or run.source or 'of unknown source'}")
    if run.faults:
        told.append(f"faults were switched on: {', '.join(run.faults)}")
    if run.resumed is not None and run.resumed.stages:
        told.append(f"it was resumed from {run.resumed.run}, and a machine is qualified by one whole run")
    if not record.closed or record.end is None:
        told.append("its record is not whole")
    elif record.end.verdict != PASSED:
        told.append(f"it ended {record.end.verdict}")
    if missing := [stage for stage in WHOLE if not _is_done(record, stage)]:
        told.append(f"stages were not run to their end: {', '.join(missing)}")
    if not record.identity.get("service_tag"):
        told.append("the machine did not tell its service tag")
    if record.path is None or read_seal(record.path) != _digest_of(record):
        told.append("its record is not the one that the run sealed")
    return told


def describe_qualification(record: Record) -> dict[str, Any]:
    """The record of a run that nothing speaks against (``objections``)."""
    run, end = record.run, record.end
    return {
        "schema": SCHEMA,
        "kind": "bringup-qualification",
        "verdict": "" if end is None else end.verdict,
        "run": run.id,
        "started": run.started,
        "took": 0.0 if end is None else end.at,
        "harness": run.harness,
        "command": list(run.command),
        "machine": dict(record.identity),
        "parts": [vars(part) for part in _parts(record.measurements)],
        "bench": run.bench,
        "platform": run.platform,
        "checksums": {**run.checksums, "record": _digest_of(record)},
        "measured": [_measured(record, check, cases) for check, cases in _by_check(record.cases).items()],
        "marginal": [str(each) for each in record.measurements if each.outcome == Outcome.MARGINAL],
        "not_measured": _without_verdict(record),
        "waived": [{"case": case.id, **vars(case.waiver)} for case in record.waived() if case.waiver is not None],
    }


def qualification_text(record: Record) -> str:
    """The same as JSON."""
    return json.dumps(describe_qualification(record), indent=2, ensure_ascii=False) + "\n"


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) of the record."""
    return files("harness.record").joinpath("qualification.schema.json").read_text("utf-8")


def _is_done(record: Record, stage: str) -> bool:
    """The stage was selected, ended, and something of it passed."""
    entry = record.stage(stage)
    passed = any(case.outcome == CaseOutcome.PASSED and not case.information for case in record.cases_of(stage))
    return stage in record.run.stages and entry is not None and entry.state == "ended" and passed


def _digest_of(record: Record) -> str:
    try:
        return "" if record.path is None else digest(record.path.read_bytes())
    except OSError:
        return ""


def _by_check(cases: Iterable[CaseRecord]) -> Mapping[str, Sequence[CaseRecord]]:
    grouped: dict[str, list[CaseRecord]] = {}
    for case in cases:
        if case.outcome == CaseOutcome.PASSED:
            grouped.setdefault(case.check, []).append(case)
    return grouped


def _measured(record: Record, check: str, cases: Sequence[CaseRecord]) -> dict[str, Any]:
    """A check that passed: for how many cases, and the range of each of its values."""
    values: dict[tuple[str, str, str | None], list[MeasurementRecord]] = {}
    for case in cases:
        for measurement in record.by_case.get(case.id, ()):
            values.setdefault((measurement.name, measurement.unit, measurement.limit), []).append(measurement)
    return {
        "check": check,
        "says": cases[0].title,
        "cases": len(cases),
        "values": [_range(name, unit, limit, found) for (name, unit, limit), found in values.items()],
    }


def _range(name: str, unit: str, limit: str | None, found: Sequence[MeasurementRecord]) -> dict[str, Any]:
    """Least and most of numbers, all the words of words, and how near the nearest bound was; ``judged`` by a limit, or recorded."""
    told: dict[str, Any] = {"name": name, "unit": unit, "limit": limit, "count": len(found), "judged": limit is not None}
    numbers = [each.value for each in found if isinstance(each.value, int | float) and not isinstance(each.value, bool)]
    others = sorted({str(each.value) for each in found if each.value is not None and each.value not in numbers})
    margins = [each.margin for each in found if each.margin is not None]
    told |= {"least": min(numbers), "most": max(numbers)} if numbers else {}
    told |= {"words": others} if others else {}
    return told | ({"margin": min(margins)} if margins else {})


def _without_verdict(record: Record) -> list[dict[str, Any]]:
    """Cases and single values that nothing is known of, and cases that do not apply, with their reasons."""
    cases = [case for case in record.cases if case.outcome in (CaseOutcome.NOT_MEASURED, CaseOutcome.NOT_APPLICABLE)]
    values = [each for each in record.measurements if each.outcome == Outcome.NOT_MEASURED]
    return [{"what": case.id, "is": case.outcome.value, "why": case.message} for case in cases] + [
        {"what": f"{each.case}: {each.name}", "is": "not measured", "why": each.note} for each in values
    ]


def _parts(measurements: Iterable[MeasurementRecord]) -> list[Part]:
    """Who sits in each slot, as it was last known."""
    known = {each.part.slot: each.part for each in measurements if each.part is not None and each.part.serial}
    return [known[slot] for slot in sorted(known)]
