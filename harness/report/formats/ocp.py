"""OCP Test and Validation output (opencomputeproject/ocp-diag-core, json_spec): JSON lines through the ocptv library.

testRunStart        the machine, its parts and firmware
testStepStart       one step a stage
  measurement       with validators, keyed to the part in its slot
  diagnosis         one a case: pass, fail, or unknown with the reason
testStepEnd
testRunEnd          complete, skipped (not all was measured) or error (bench, harness, interrupted)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import ocptv.output as tv
from ocptv.output.config import Writer, get_config

from harness.limits import Limit
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.record.lines import CaseOutcome
from harness.record.verdict import FAILED, PASSED, at_fault
from harness.report.headline import headline, word
from harness.report.text import clip, one_line, printable

_DIAGNOSES = {
    CaseOutcome.PASSED: tv.DiagnosisType.PASS,
    CaseOutcome.FAILED: tv.DiagnosisType.FAIL,
    CaseOutcome.ERROR: tv.DiagnosisType.UNKNOWN,
}
_MESSAGE_LIMIT = 4_000


def render_ocp(record: Record) -> str:
    """The record as JSON lines; times are those of the run, so that rendering twice gives the same."""
    lines = _Lines(record.run.started)
    before = get_config().writer
    tv.config(writer=lines)
    try:
        _tell(record, lines)
    finally:
        tv.config(writer=before)
    return lines.text()


class _Lines(Writer):  # type: ignore[misc]
    """Takes the library's lines and gives each the time of what it tells, where the library would write its own."""

    def __init__(self, started: str) -> None:
        try:
            self._started = datetime.fromisoformat(started).astimezone(UTC)
        except ValueError:
            self._started = datetime(1970, 1, 1, tzinfo=UTC)
        self._lines: list[str] = []
        self.at = 0.0

    def write(self, buffer: str) -> None:
        line: dict[str, Any] = json.loads(buffer)
        moment = self._started + timedelta(seconds=self.at)
        line["timestamp"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._lines.append(json.dumps(line))

    def text(self) -> str:
        """Everything written so far."""
        return "".join(line + "\n" for line in self._lines)


def _tell(record: Record, lines: _Lines) -> None:
    dut = tv.Dut(id=record.identity.get("service_tag") or record.run.bench or "unknown", name=record.run.bench or None)
    parts = _parts(record, dut)
    run = tv.TestRun(
        name="bringup-harness",
        version=record.run.harness or "unknown",
        command_line=one_line(" ".join(record.run.command)),
        parameters={"platform": record.run.platform, "mode": record.run.mode, "source": record.run.source},
    )
    run.start(dut=dut)
    run.add_log(severity=tv.LogSeverity.INFO, message=headline(record), source_location=None)
    for stage in record.stage_names:
        _stage(record, stage, run, parts, lines)
    for text in record.handovers[-1:]:
        run.add_log(severity=tv.LogSeverity.INFO, message=f"hand-over: {printable(text)}", source_location=None)
    lines.at = record.end.at if record.end else lines.at
    run.end(status=_status(record), result=_result(record))


def _parts(record: Record, dut: tv.Dut) -> Mapping[str, tv.HardwareInfo]:
    """Every part that a measurement names, by slot, as last known; the machine's firmware beside them."""
    for name in ("bios", "idrac"):
        if version := record.identity.get(name):
            dut.add_software_info(name=name, type=tv.SoftwareType.FIRMWARE, version=version)
    known = {measurement.part.slot: measurement.part for measurement in record.measurements if measurement.part is not None}
    return {
        slot: dut.add_hardware_info(
            name=part.model or "part", location=slot, serial_no=part.serial or None, version=part.firmware or None
        )
        for slot, part in known.items()
    }


def _stage(record: Record, stage: str, run: tv.TestRun, parts: Mapping[str, tv.HardwareInfo], lines: _Lines) -> None:
    entry = record.stage(stage)
    lines.at = entry.started if entry is not None and entry.started is not None else lines.at
    step = run.add_step(name=stage)
    step.start()
    cases = record.cases_of(stage)
    for case in cases:
        for measurement in record.by_case.get(case.id, ()):
            lines.at = measurement.at
            _measurement(measurement, step, parts)
        lines.at = case.at
        _diagnosis(case, step, parts)
    lines.at = entry.ended if entry is not None and entry.ended is not None else lines.at
    step.end(status=tv.TestStatus.COMPLETE if cases else tv.TestStatus.SKIP)


def _measurement(measurement: MeasurementRecord, step: tv.TestStep, parts: Mapping[str, tv.HardwareInfo]) -> None:
    if measurement.value is None:
        step.add_log(severity=tv.LogSeverity.WARNING, message=one_line(str(measurement)), source_location=None)
        return
    step.add_measurement(
        name=measurement.name,
        value=measurement.value,
        unit=measurement.unit or None,
        validators=_validators(measurement.bounds) if measurement.bounds is not None else [],
        hardware_info=parts[measurement.part.slot] if measurement.part is not None else None,
    )


def _validators(limit: Limit) -> list[tv.Validator]:
    kinds = tv.ValidatorType
    match limit.kind:
        case "at_least":
            pairs = [(kinds.GREATER_THAN_OR_EQUAL, limit.bounds[0])]
        case "at_most":
            pairs = [(kinds.LESS_THAN_OR_EQUAL, limit.bounds[0])]
        case "between":
            pairs = [(kinds.GREATER_THAN_OR_EQUAL, limit.bounds[0]), (kinds.LESS_THAN_OR_EQUAL, limit.bounds[-1])]
        case "exactly" if limit.within and not isinstance(limit.bounds[0], str):
            off = abs(limit.bounds[0]) * limit.within / 100
            pairs = [(kinds.GREATER_THAN_OR_EQUAL, limit.bounds[0] - off), (kinds.LESS_THAN_OR_EQUAL, limit.bounds[0] + off)]
        case "exactly":
            pairs = [(kinds.EQUAL, limit.bounds[0])]
        case "one_of":
            return [tv.Validator(type=kinds.IN_SET, value=list(limit.bounds), name=str(limit))]
        case _:
            pairs = [(kinds.REGEX_MATCH, f"^(?:{limit.bounds[0]})$")]
    return [tv.Validator(type=kind, value=value, name=str(limit)) for kind, value in pairs]


def _diagnosis(case: CaseRecord, step: tv.TestStep, parts: Mapping[str, tv.HardwareInfo]) -> None:
    """A failure of the bench or the harness is no word about the machine: its diagnosis is unknown."""
    kind = _DIAGNOSES.get(case.outcome, tv.DiagnosisType.UNKNOWN)
    blame = f"-{at_fault(case).value}" if case.has_failed else ""
    if case.has_failed and at_fault(case) != "product":
        kind = tv.DiagnosisType.UNKNOWN
    step.add_diagnosis(
        kind,
        verdict=re.sub(r"[^a-z0-9.-]+", "-", f"{case.check}-{case.outcome.value}{blame}".lower()),
        message=clip(printable(case.message), _MESSAGE_LIMIT) or None,
        hardware_info=parts.get(case.slot or ""),
        source_location=None,
    )


def _status(record: Record) -> tv.TestStatus:
    return tv.TestStatus.COMPLETE if word(record) in (PASSED, FAILED) else tv.TestStatus.ERROR


def _result(record: Record) -> tv.TestResult:
    return {PASSED: tv.TestResult.PASS, FAILED: tv.TestResult.FAIL}.get(word(record), tv.TestResult.NOT_APPLICABLE)
