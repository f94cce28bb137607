"""What every rendering needs of a record: counts per stage, failures by check, values outside their limits, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, PlannedCase, Record, StageRecord
from harness.record.lines import CaseOutcome
from harness.record.verdict import at_fault
from harness.report.text import first_sentence


@dataclass(frozen=True)
class StageSummary:
    """A stage in one row. ``failed`` counts errors too; ``unreached`` are planned cases that never came.

    ``blocked_by`` is what the first blocked case says, where all that was to be judged was blocked.
    """

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
    waived: int
    unreached: int
    information: bool
    first_failure: str
    blocked_by: str

    @property
    def leaves(self) -> str:
        """What the stage left behind, in a word or two: its gate where something passed, else why that means nothing."""
        counts: dict[str, int] = {
            CaseOutcome.PASSED: self.passed,
            CaseOutcome.FAILED: self.failed,
            CaseOutcome.BLOCKED: self.blocked,
            CaseOutcome.NOT_MEASURED: self.not_measured,
            CaseOutcome.WAIVED: self.waived,
        }
        return gate_word(self.gate, counts) if self.state == "ended" else self.state


@dataclass(frozen=True)
class Failure:
    """A check that failed: whose fault, and its failed cases in order."""

    check: str
    blame: str
    title: str
    cases: tuple[CaseRecord, ...]

    @property
    def means(self) -> str:
        """What the check says that its failure means, "" where it does not."""
        return self.title if self.title.startswith("A failure ") else ""


@dataclass(frozen=True)
class Missing:
    """Something that was to be measured and was not: the case or the measurement, and why."""

    what: str
    reason: str


def gate_word(gate: str, counts: Mapping[str, int]) -> str:
    """``gate``, or what to say instead where no case passed, so that nothing was let through; ``counts`` are by outcome.

    A gate that failures closed or degraded stays what it is.
    """
    failed = counts.get(CaseOutcome.FAILED, 0) + counts.get(CaseOutcome.ERROR, 0)
    if counts.get(CaseOutcome.PASSED, 0) or (failed and gate != "open"):
        return gate
    if failed or counts.get(CaseOutcome.NOT_MEASURED, 0) or counts.get(CaseOutcome.WAIVED, 0):
        return "none passed"
    return "blocked" if counts.get(CaseOutcome.BLOCKED, 0) else "nothing ran"


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
        waived=counts[CaseOutcome.WAIVED],
        unreached=len(_of_stage(record.unreached, name)),
        information=any(case.information for case in cases),
        first_failure=f"{failed[0].id}: {first_sentence(failed[0].message) or 'no message'}" if failed else "",
        blocked_by=_blocked_by(cases),
    )


def _blocked_by(cases: Iterable[CaseRecord]) -> str:
    """What the first blocked case says, where no case came to a verdict of its own."""
    own = [case for case in cases if case.outcome != CaseOutcome.NOT_APPLICABLE]
    if any(case.outcome != CaseOutcome.BLOCKED for case in own):
        return ""
    return first_sentence(own[0].message) if own else ""


def _of_stage(planned: Iterable[PlannedCase], stage: str) -> list[PlannedCase]:
    return [plan for plan in planned if plan.stage == stage]
