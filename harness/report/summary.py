"""What every rendering needs of a record: counts per stage, failures by check, values outside their limits, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, PlannedCase, Record, StageRecord
from harness.record.lines import CaseOutcome
from harness.record.verdict import at_fault
from harness.report.text import first_sentence


@dataclass(frozen=True)
class StageSummary:
    """A stage in one row. ``failed`` counts errors too; ``unreached`` are planned cases that never came."""

    stage: str
    state: str
    gate: str
    reason: str
    lost: tuple[str, ...]
    passed: int
    failed: int
    blocked: int
    not_measured: int
    not_applicable: int
    unreached: int
    information: bool
    first_failure: str


@dataclass(frozen=True)
class Failure:
    """A check that failed: whose fault, and its failed cases in order."""

    check: str
    blame: str
    title: str
    cases: tuple[CaseRecord, ...]


@dataclass(frozen=True)
class Missing:
    """Something that was to be measured and was not: the case or the measurement, and why."""

    what: str
    reason: str


def summarise(record: Record) -> tuple[StageSummary, ...]:
    """The stages in their order."""
    return tuple(_stage(record, name) for name in record.stage_names)


def failures(record: Record) -> tuple[Failure, ...]:
    """The checks that failed, in the order of their first failure."""
    grouped: dict[str, list[CaseRecord]] = {}
    for case in record.failed():
        grouped.setdefault(case.check, []).append(case)
    return tuple(Failure(check, at_fault(cases[0]).value, cases[0].title, tuple(cases)) for check, cases in grouped.items())


def outside_limits(record: Record) -> tuple[MeasurementRecord, ...]:
    """The violated limits in the order of the run, then the marginal ones."""
    failed = [measurement for measurement in record.measurements if measurement.outcome == Outcome.FAIL]
    return (*failed, *(measurement for measurement in record.measurements if measurement.outcome == Outcome.MARGINAL))


def not_measured(record: Record) -> tuple[Missing, ...]:
    """Cases without a verdict for want of a value, and single values that could not be read within other cases."""
    cases = {case.id: case.message for case in record.cases if case.outcome == CaseOutcome.NOT_MEASURED}
    values = [
        Missing(f"{measurement.case}: {measurement.name}" if measurement.case else measurement.name, measurement.note)
        for measurement in record.measurements
        if measurement.outcome == Outcome.NOT_MEASURED and measurement.case not in cases
    ]
    return (*(Missing(case, message) for case, message in cases.items()), *values)


def reason_not_reached(stage: StageRecord | None) -> str:
    """Why a planned case has no line."""
    return stage.reason if stage is not None and stage.state == "not run" and stage.reason else "the run ended before it"


def _stage(record: Record, name: str) -> StageSummary:
    cases, stage = record.cases_of(name), record.stage(name)
    counts = Counter(case.outcome for case in cases)
    failed = [case for case in cases if case.has_failed]
    return StageSummary(
        stage=name,
        state=stage.state if stage else "ended" if cases else "not reached",
        gate=stage.gate or "" if stage else "",
        reason=stage.reason if stage else "",
        lost=stage.lost if stage else (),
        passed=counts[CaseOutcome.PASSED],
        failed=len(failed),
        blocked=counts[CaseOutcome.BLOCKED],
        not_measured=counts[CaseOutcome.NOT_MEASURED],
        not_applicable=counts[CaseOutcome.NOT_APPLICABLE],
        unreached=len(_of_stage(record.unreached, name)),
        information=any(case.information for case in cases),
        first_failure=f"{failed[0].id}: {first_sentence(failed[0].message) or 'no message'}" if failed else "",
    )


def _of_stage(planned: Iterable[PlannedCase], stage: str) -> list[PlannedCase]:
    return [plan for plan in planned if plan.stage == stage]
