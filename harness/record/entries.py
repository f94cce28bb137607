"""What a record holds, as frozen facts; times are seconds of the run's clock.

Record
├─ run          RunInfo: who, when, in which mode, from which source
├─ identity     service tag, system, BIOS, iDRAC, ... as the machine said
├─ planned      PlannedCase*: the cases that were to come
├─ stages       StageRecord*
├─ cases        CaseRecord*, each with its measurements in ``by_case``
├─ handovers, notes
├─ exhibits     what stages show of their facts, by name
├─ end          EndRecord, or None where the run was killed
└─ truncated, damage, others
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.limits import Limit, Outcome, Value
from harness.part import Part
from harness.record.lines import CaseOutcome
from harness.units import amount


@dataclass(frozen=True)
class TapeInfo:
    """The tape of a replay: its name, when it was recorded (ISO 8601) and where its machine was (source).

    ``pseudonyms``: what names machine, parts and addresses is none of their own names.
    """

    name: str = ""
    recorded_at: str = ""
    source: str = ""
    pseudonyms: bool = False


@dataclass(frozen=True)
class ResumedRecord:
    """The run that this one went on with, and the stages whose lines it took over; their times are of that run's clock."""

    run: str = ""
    stages: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunInfo:
    """The run line. ``mode`` is live, replay or record; ``source`` is hardware, virtual-lab or model.

    ``checksums`` are the SHA-256 of the files that said what to expect, by ``bench`` and ``platform``.
    """

    id: str = ""
    started: str = ""
    mode: str = ""
    source: str = ""
    bench: str = ""
    platform: str = ""
    stages: tuple[str, ...] = ()
    harness: str = ""
    tape: TapeInfo | None = None
    faults: tuple[str, ...] = ()
    apply: bool = False
    command: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    resumed: ResumedRecord | None = None


@dataclass(frozen=True)
class PlannedCase:
    """A case that was to come when the run began; ``id`` is ``check[slot]`` or, for the whole machine, the check's id."""

    id: str
    check: str = ""
    stage: str = ""
    slot: str | None = None
    title: str = ""


@dataclass(frozen=True)
class StageRecord:
    """A stage: ``state`` is started (and never ended), ended or not run; ``gate`` is open, degraded or closed once it ended."""

    stage: str
    state: str = "started"
    gate: str | None = None
    reason: str = ""
    lost: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class MeasurementRecord:
    """A judged value; ``limit`` is the limit's text, ``bounds`` the limit itself. Prints itself as the measurement did."""

    name: str
    value: Value | None = None
    unit: str = ""
    limit: str | None = None
    bounds: Limit | None = None
    outcome: Outcome = Outcome.NOT_MEASURED
    margin: float | None = None
    part: Part | None = None
    case: str = ""
    check: str = ""
    at: float = 0.0
    note: str = ""

    @property
    def shown(self) -> str:
        """The value with its unit."""
        if self.value is None:
            return f"not measured{f': {self.note}' if self.note else ''}"
        if isinstance(self.value, str | bool):
            return str(self.value)
        (figure,), unit = amount(self.value, unit=self.unit)
        return f"{figure} {unit}".rstrip()

    def __str__(self) -> str:
        where = f"{self.part} " if self.part else ""
        limit = f"  [{self.limit}]" if self.limit is not None else ""
        return f"{where}{self.name} = {self.shown}{limit}  {self.outcome.value.upper()}"


@dataclass(frozen=True)
class WaiverRecord:
    """Who answers for a case that did not pass: ``expires`` is an ISO 8601 date, ``outcome`` the case's without the waiver."""

    check: str = ""
    ticket: str = ""
    owner: str = ""
    expires: str = ""
    reason: str = ""
    outcome: str = ""

    def __str__(self) -> str:
        return f"{self.ticket} ({self.owner}, until {self.expires}): {self.reason}"


@dataclass(frozen=True)
class CaseRecord:
    """A case: a check for one slot (or for the whole machine) and how it ended; ``id`` as in PlannedCase.

    ``information``: it ran behind a degraded gate, so a pass does not improve the verdict. ``attachments`` are relative to
    the run's folder. ``waiver`` is there for a case that was waived only.
    """

    id: str
    check: str
    stage: str = ""
    outcome: CaseOutcome = CaseOutcome.PASSED
    slot: str | None = None
    title: str = ""
    blame: str = ""
    message: str = ""
    information: bool = False
    took: float = 0.0
    at: float = 0.0
    attachments: tuple[str, ...] = ()
    waiver: WaiverRecord | None = None

    @property
    def has_failed(self) -> bool:
        """True for failed and error; ``harness.record.verdict.at_fault`` says whose fault it is."""
        return self.outcome in (CaseOutcome.FAILED, CaseOutcome.ERROR)


@dataclass(frozen=True)
class EndRecord:
    """The end line: the verdict's word, whom to blame ("" for nobody) and the exit status."""

    verdict: str
    blame: str = ""
    exit: int = 0
    at: float = 0.0


@dataclass(frozen=True)
class Record:
    """A whole run. ``path`` is the results.jsonl it was read from.

    ``truncated``: the last line is cut short, as a killed run leaves it. ``damage`` says what else is wrong with the file, one
    sentence each. ``others`` are lines of kinds, and exhibits of versions, that this one
    does not know; ``extras`` are keys it does not know of lines that it does, each with the line's ``seq`` and ``kind``.
    """

    run: RunInfo
    path: Path | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    planned: tuple[PlannedCase, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    cases: tuple[CaseRecord, ...] = ()
    measurements: tuple[MeasurementRecord, ...] = ()
    handovers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exhibits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    end: EndRecord | None = None
    truncated: bool = False
    damage: tuple[str, ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()
    extras: tuple[Mapping[str, Any], ...] = ()

    @property
    def closed(self) -> bool:
        """True where the run came to its end and the file is whole: only then its verdict counts."""
        return self.end is not None and not self.truncated and not self.damage

    @cached_property
    def by_case(self) -> Mapping[str, tuple[MeasurementRecord, ...]]:
        """The measurements of each case, in their order."""
        grouped: dict[str, list[MeasurementRecord]] = {}
        for measurement in self.measurements:
            grouped.setdefault(measurement.case, []).append(measurement)
        return {case: tuple(measurements) for case, measurements in grouped.items()}

    @cached_property
    def stage_names(self) -> tuple[str, ...]:
        """The stages in the order of the run, then those that only lines name."""
        named = [*self.run.stages, *(stage.stage for stage in self.stages), *(plan.stage for plan in self.planned)]
        named += [case.stage for case in self.cases]
        return tuple(dict.fromkeys(name for name in named if name))

    def stage(self, name: str) -> StageRecord | None:
        """What became of a stage; None where no line names it."""
        return next((stage for stage in self.stages if stage.stage == name), None)

    def cases_of(self, stage: str) -> tuple[CaseRecord, ...]:
        """The cases of a stage, in their order."""
        return tuple(case for case in self.cases if case.stage == stage)

    @cached_property
    def unreached(self) -> tuple[PlannedCase, ...]:
        """The planned cases that have no line: the run ended before them."""
        reached = {case.id for case in self.cases}
        return tuple(plan for plan in self.planned if plan.id not in reached)

    def waived(self) -> tuple[CaseRecord, ...]:
        """The cases that did not pass and that somebody answers for."""
        return tuple(case for case in self.cases if case.outcome == CaseOutcome.WAIVED)

    def failed(self) -> tuple[CaseRecord, ...]:
        """The cases that failed, whoever is to blame."""
        return tuple(case for case in self.cases if case.has_failed)

    def firsts_failed(self) -> tuple[CaseRecord, ...]:
        """The first failed case of each check that failed, in the order of the run."""
        firsts: dict[str, CaseRecord] = {}
        for case in self.failed():
            firsts.setdefault(case.check, case)
        return tuple(firsts.values())
