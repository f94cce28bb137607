"""Reading results.jsonl back, tolerantly: a record that a kill or a full disk cut short is still worth a report.

cut last line              truncated
broken line in the middle  damage      a sequence number is missing or stands twice      damage
unknown kind of line       kept        unknown key kept, missing key                     default
no run line at the head    UsageMistake: this is no record
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import UsageMistake
from harness.limits import Limit, Outcome, Value
from harness.part import Part
from harness.record.entries import (
    CaseRecord,
    EndRecord,
    MeasurementRecord,
    PlannedCase,
    Record,
    ResumedRecord,
    RunInfo,
    StageRecord,
    TapeInfo,
    WaiverRecord,
)
from harness.record.lines import EXHIBIT, FILE_NAME, LINES, SCHEMA, CaseOutcome

Line: TypeAlias = Mapping[str, Any]


def read_record(path: Path) -> Record:
    """Read a record from its results.jsonl, or from the folder of its run.

    Raises UsageMistake with one line where there is no file, nothing in it, or something else than a record.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise UsageMistake(f"{file}: there is no record; name the folder of a run, e.g. reports/latest") from None
    except OSError as error:
        raise UsageMistake(f"{file}: cannot read the record: {error.strerror or error}") from None
    if not data.strip(b"\0\r\n\t "):
        raise UsageMistake(f"{file}: the record is empty: the run ended before it wrote anything")
    lines, truncated, damage = _split(data)
    run = _run(lines[0], file) if lines else None
    if run is None:
        raise UsageMistake(f"{file}: this is no record of a run: its first line is not a run line")
    extras = tuple(extra for line in lines if (extra := _extra(line)) is not None)
    return _assemble(Record(run=run, path=file, truncated=truncated, extras=extras), lines[1:], [*damage, *_gaps(lines)])


def read_lines(file: Path) -> list[Line]:
    """The whole lines of a record as they stand there, for who takes them over into another. Raises OSError."""
    return _split(file.read_bytes())[0]


def _split(data: bytes) -> tuple[list[Line], bool, list[str]]:
    """The whole lines, whether the last one is cut, and a sentence for each broken one before it.

    A power failure leaves a tail of zero bytes on some file systems; that too is a cut last line.
    """
    parsed = [(position, _parse(line)) for position, line in enumerate(data.split(b"\n"), start=1) if line.strip(b"\r\t ")]
    truncated = False
    while parsed and parsed[-1][1] is None and not truncated:
        parsed.pop()
        truncated = True
    damage = [f"line {position} is no JSON object" for position, line in parsed if line is None]
    return [line for _, line in parsed if line is not None], truncated, damage


def _parse(text: bytes) -> Line | None:
    try:
        line = json.loads(text.decode("utf-8", "backslashreplace"))
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _gaps(lines: list[Line]) -> Iterator[str]:
    expected = 1
    for line in lines:
        seq = line.get("seq")
        if seq != expected:
            yield f"line number {expected} is missing or out of place: {seq!r} follows {expected - 1}"
        expected = (seq if isinstance(seq, int) else expected) + 1


def _extra(line: Line) -> Line | None:
    """What this version does not know of a line whose kind it knows."""
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in LINES:
        return None
    known = {"seq", "kind", *(key for key, _ in LINES[kind])}
    unknown = {key: value for key, value in line.items() if key not in known}
    return {"seq": line.get("seq"), "kind": kind, **unknown} if unknown else None


def _run(line: Line, file: Path) -> RunInfo | None:
    if line.get("kind") != "run":
        return None
    schema = line.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageMistake(f"{file}: schema {schema} is newer than this version reads ({SCHEMA}); update bringup-harness")
    tape, resumed = line.get("tape"), line.get("resumed")
    return RunInfo(
        id=_text(line, "id"),
        started=_text(line, "started"),
        mode=_text(line, "mode"),
        source=_text(line, "source"),
        bench=_text(line, "bench"),
        platform=_text(line, "platform"),
        stages=_texts(line, "stages"),
        harness=_text(line, "harness"),
        tape=None if not isinstance(tape, dict) else _tape(tape),
        faults=_texts(line, "faults"),
        apply=line.get("apply") is True,
        command=_texts(line, "command"),
        checksums={str(key): _text(sums, key) for key in sums} if isinstance(sums := line.get("checksums"), dict) else {},
        resumed=ResumedRecord(_text(resumed, "run"), _texts(resumed, "stages")) if isinstance(resumed, dict) else None,
    )


def _tape(tape: Line) -> TapeInfo:
    is_hidden = tape.get("pseudonyms") is True
    return TapeInfo(_text(tape, "name"), _text(tape, "recorded_at"), _text(tape, "source"), pseudonyms=is_hidden)


def _assemble(record: Record, lines: list[Line], damage: list[str]) -> Record:
    identity: dict[str, str] = {}
    planned: list[PlannedCase] = []
    stages: dict[str, StageRecord] = {}
    cases: list[CaseRecord] = []
    measurements: list[MeasurementRecord] = []
    handovers: list[str] = []
    notes: list[str] = []
    exhibits: dict[str, Line] = {}
    others: list[Line] = []
    end: EndRecord | None = None
    for line in lines:
        match line.get("kind"):
            case "identity":
                facts = line.get("facts")
                identity |= {str(key): _text(facts, key) for key in facts} if isinstance(facts, dict) else {}
            case "plan":
                listed = line.get("cases")
                planned += [_planned(plan) for plan in (listed if isinstance(listed, list) else []) if isinstance(plan, dict)]
            case "stage":
                name = _text(line, "stage")
                stages[name] = _stage(stages.get(name, StageRecord(name)), line)
            case "measurement":
                measurements.append(_measurement(line))
            case "case":
                cases.append(_case(line, damage))
            case "handover":
                handovers = [_text(line, "text")]  # each line says all that is left by then, so the last one counts
            case "note":
                notes.append(_text(line, "text"))
            case "exhibit" if line.get("version") == EXHIBIT and isinstance(shown := line.get("data"), dict):
                exhibits[_text(line, "name")] = shown
            case "end":
                end = _end(line)
            case _:
                others.append(line)
    if end is not None and end.exit == 0 and any(case.has_failed for case in cases):
        damage.append(f"the end line says {end.verdict}, but cases failed")
    return replace(
        record,
        run=replace(record.run, source=identity.get("simulated") or record.run.source),
        identity=identity,
        planned=tuple(planned),
        stages=tuple(stages.values()),
        cases=tuple(cases),
        measurements=tuple(measurements),
        handovers=tuple(text for text in handovers if text),
        notes=tuple(text for text in notes if text),
        exhibits=exhibits,
        end=end,
        damage=tuple(damage),
        others=tuple(others),
    )


def _planned(line: Line) -> PlannedCase:
    return PlannedCase(
        id=_text(line, "case"),
        check=_text(line, "check"),
        stage=_text(line, "stage"),
        slot=_text(line, "slot") or None,
        title=_text(line, "title"),
    )


def _stage(stage: StageRecord, line: Line) -> StageRecord:
    state, at = _text(line, "state"), _number(line, "at")
    if state == "started":
        return replace(stage, state=state, started=at)
    return replace(
        stage,
        state=state,
        gate=_text(line, "gate") or None,
        reason=_text(line, "reason"),
        lost=_texts(line, "lost"),
        ended=at,
    )


def _measurement(line: Line) -> MeasurementRecord:
    part = line.get("part")
    outcome = _text(line, "outcome")
    return MeasurementRecord(
        name=_text(line, "name"),
        value=_value(line.get("value")),
        unit=_text(line, "unit"),
        limit=_text(line, "limit") or None,
        bounds=_bounds(line.get("bounds"), _text(line, "unit")),
        outcome=Outcome(outcome) if outcome in list(Outcome) else Outcome.NOT_MEASURED,
        margin=_number(line, "margin"),
        part=Part(**{key: _text(part, key) for key in Part.__dataclass_fields__}) if isinstance(part, dict) else None,
        case=_text(line, "case"),
        check=_text(line, "check"),
        at=_number(line, "at") or 0.0,
        note=_text(line, "note"),
    )


def _bounds(bounds: object, unit: str) -> Limit | None:
    """The limit itself; None where an older version did not write it or somebody else wrote something else."""
    if not isinstance(bounds, dict) or not isinstance(values := bounds.get("values"), list):
        return None
    read = tuple(value for value in map(_value, values) if value is not None)
    return Limit(_text(bounds, "kind"), read, unit, _number(bounds, "within") or 0.0) if read else None


def _case(line: Line, damage: list[str]) -> CaseRecord:
    name, outcome = _text(line, "case"), _text(line, "outcome")
    if outcome not in list(CaseOutcome):
        damage.append(f"case {name!r} ended with {outcome!r}, which is no outcome; it is taken for an error")
    return CaseRecord(
        id=name,
        check=_text(line, "check"),
        stage=_text(line, "stage"),
        outcome=CaseOutcome(outcome) if outcome in list(CaseOutcome) else CaseOutcome.ERROR,
        slot=_text(line, "slot") or None,
        title=_text(line, "title"),
        blame=_text(line, "blame"),
        message=_text(line, "message"),
        information=line.get("information") is True,
        took=_number(line, "took") or 0.0,
        at=_number(line, "at") or 0.0,
        attachments=_texts(line, "attachments"),
        waiver=_waiver(line.get("waiver")),
    )


def _waiver(waiver: object) -> WaiverRecord | None:
    if not isinstance(waiver, dict):
        return None
    return WaiverRecord(**{key: _text(waiver, key) for key in WaiverRecord.__dataclass_fields__})


def _end(line: Line) -> EndRecord:
    status = line.get("exit")
    return EndRecord(
        verdict=_text(line, "verdict"),
        blame=_text(line, "blame"),
        exit=status if isinstance(status, int) else 4,
        at=_number(line, "at") or 0.0,
    )


def _text(line: Line, key: str) -> str:
    value = line.get(key)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(line: Line, key: str) -> tuple[str, ...]:
    value = line.get(key)
    return tuple(str(entry) for entry in value) if isinstance(value, list) else ()


def _number(line: Line, key: str) -> float | None:
    value = line.get(key)
    return float(value) if isinstance(value, int | float) and _is_finite(value) else None


def _value(value: object) -> Value | None:
    """A measured value; what is no word, truth value or number that can be reckoned with is shown as its JSON text."""
    if value is None or isinstance(value, str) or (isinstance(value, int | float) and _is_finite(value)):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
