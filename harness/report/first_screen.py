"""The first screen: verdict, whose fault, what is broken and where, why, what to do next, what was not measured.

┌ verdict, fault, LIVE or REPLAY, machine, firmware ┐
│ the parts to look at      stages x slots          │
│ what was found first, its cause, the next step    │
│ each stage in one line    firmware, not measured  │
└───────────────────────────────────────────────────┘
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.limits import Outcome
from harness.record.entries import CaseRecord, Record
from harness.record.lines import CaseOutcome
from harness.record.verdict import INTERRUPTED, PASSED
from harness.report.account import Account, take_apart
from harness.report.exhibits import exhibit, objects, rows
from harness.report.headline import ALL_STAGES, DAMAGED, UNFINISHED, word
from harness.report.summary import Failure, StageSummary, failures, not_measured, summarise
from harness.report.text import listed, one_line

_MOST_SUSPECTS = 20
_LIST = 60


@dataclass(frozen=True)
class Suspect:
    """A part to look at: its place, and its serial number where one is known."""

    place: str
    serial: str


@dataclass(frozen=True)
class StageLine:
    """A stage in one line: a glyph, a word, and for one that failed the first failure as an account."""

    summary: StageSummary
    glyph: str
    word: str
    account: Account | None
    where: str

    @property
    def counts(self) -> str:
        """Its cases in words."""
        named = (
            (self.summary.passed, "passed"),
            (self.summary.failed, "failed"),
            (self.summary.blocked, "blocked"),
            (self.summary.not_measured, "not measured"),
            (self.summary.waived, "waived"),
            (self.summary.not_applicable, "not applicable"),
            (self.summary.unreached, "never reached"),
        )
        return ", ".join(f"{count} {name}" for count, name in named if count) or "nothing ran"

    @property
    def remark(self) -> str:
        """The gate, where it is not as after a stage that passed, and that it ran for information."""
        said = [] if self.summary.leaves in ("open", self.word, self.summary.state) else [f"gate {self.summary.leaves}"]
        said += ["for information"] if self.summary.information else []
        return "".join(f"; {text}" for text in said)

    @property
    def lost(self) -> str:
        """The slots that the stage lost."""
        return listed(self.summary.lost, _LIST)


@dataclass(frozen=True)
class FirstScreen:
    """All that must be seen before anybody scrolls."""

    alarm: str
    lead: Failure | None
    lead_case: CaseRecord | None
    lead_account: Account | None
    suspects: tuple[Suspect, ...]
    more_suspects: int
    others: tuple[str, ...]
    counts: tuple[tuple[str, int, bool], ...]
    information: str
    lines: tuple[StageLine, ...]
    command: str
    command_note: str
    missing: tuple[tuple[str, int], ...]
    marginal: int


def compose(record: Record) -> FirstScreen:
    """The first screen of a record."""
    failed = failures(record)
    lead = _lead(record, failed)
    case = lead.cases[0] if lead is not None else None
    account = take_apart(case.message) if case is not None else None
    suspects = _suspects(record, lead)
    command, note = _next_command(record, lead)
    return FirstScreen(
        alarm=_alarm(record),
        lead=lead,
        lead_case=case,
        lead_account=account,
        suspects=suspects[:_MOST_SUSPECTS],
        more_suspects=max(0, len(suspects) - _MOST_SUSPECTS),
        others=tuple(_other(record, failure) for failure in failed if failure is not lead),
        counts=_chain(record),
        information=_information(record),
        lines=tuple(_line(record, summary) for summary in summarise(record)),
        command=command,
        command_note=note,
        missing=_missing(record),
        marginal=sum(measurement.outcome == Outcome.MARGINAL for measurement in record.measurements),
    )


def _lead(record: Record, failed: Sequence[Failure]) -> Failure | None:
    """What failed first of those that decide the verdict; the rest is its consequence, or beside it."""
    blame = record.end.blame if record.end is not None else ""
    return next((failure for failure in failed if failure.blame == blame), failed[0] if failed else None)


def _alarm(record: Record) -> str:
    alarms = [case for case in (*record.failed(), *record.waived()) if take_apart(case.message).is_alarm]
    return "DATA CORRUPTION: do not use this machine" if alarms else ""


def _suspects(record: Record, lead: Failure | None) -> tuple[Suspect, ...]:
    """The places where the first check that failed found something; what failed after it is told below."""
    if lead is None or lead.blame != "product":
        return ()
    serials = _serials(record)
    places = dict.fromkeys(place for case in lead.cases for place in _places(record, case))
    return tuple(Suspect(place, serials.get(place, "")) for place in places)


def _other(record: Record, failure: Failure) -> str:
    """A check that failed beside the first one: its name, how often, where."""
    places = list(dict.fromkeys(place for case in failure.cases for place in _places(record, case)))
    where = f": {listed(places, _LIST)}" if places else ""
    whose = "" if failure.blame == "product" else f" ({failure.blame})"
    return f"{failure.check}{whose}{where}"


def _places(record: Record, case: CaseRecord) -> list[str]:
    """The case's slot, else the parts whose values failed in it, else what its id names."""
    pairs = [
        measurement.part.slot
        for measurement in record.by_case.get(case.id, ())
        if measurement.outcome == Outcome.FAIL and measurement.part is not None and " -> " in measurement.part.slot
    ]
    if pairs:
        return list(dict.fromkeys(pairs))
    if case.slot:
        return [case.slot]
    parts = [
        measurement.part.slot
        for measurement in record.by_case.get(case.id, ())
        if measurement.outcome == Outcome.FAIL and measurement.part is not None
    ]
    _, bracket, inside = case.id.partition("[")
    return list(dict.fromkeys(parts)) or ([inside.removesuffix("]")] if bracket else [])


def _serials(record: Record) -> dict[str, str]:
    """Serial numbers by place, by what was measured there or by what the fabric told of a part that was lost."""
    serials = {part.slot: part.serial for measurement in record.measurements if (part := measurement.part) and part.serial}
    for slot in objects(exhibit(record, "pcie") or {}, "slots"):
        lost = slot.get("lost")
        if isinstance(lost, dict) and isinstance(lost.get("serial"), str) and lost["serial"]:
            serials.setdefault(str(slot.get("slot")), lost["serial"])
    return serials


def _chain(record: Record) -> tuple[tuple[str, int, bool], ...]:
    """(what is counted, parts, whether parts were lost right there), where any was lost."""
    counted = [
        (name, count) for name, count in rows(exhibit(record, "pcie") or {}, "counts", str, int) if name and count is not None
    ]
    if not counted or counted[-1][1] == counted[0][1]:
        return ()
    before = [counted[0][1], *(count for _, count in counted)]
    return tuple((name, count, count < before[at]) for at, (name, count) in enumerate(counted))


def _information(record: Record) -> str:
    """Which stages ran on the parts that were left."""
    stages = list(dict.fromkeys(case.stage for case in record.cases if case.information and case.outcome == CaseOutcome.PASSED))
    if not stages:
        return ""
    return f"{', '.join(stages)} went on with the parts that are left, for information: a pass there improves nothing."


def _line(record: Record, summary: StageSummary) -> StageLine:
    first = next((case for case in record.cases_of(summary.stage) if case.has_failed), None)
    glyph, said = _state(summary)
    return StageLine(summary, glyph, said, None if first is None else take_apart(first.message), "" if first is None else first.id)


def _state(summary: StageSummary) -> tuple[str, str]:
    """The first that holds; a stage with nothing of all that was not run."""
    holds = (
        (summary.failed, "✗", "failed"),
        (summary.unreached or summary.state in ("started", "not reached"), "…", "not finished"),
        (summary.state == "not run", "○", "not run"),
        (summary.not_measured, "?", "not measured"),
        (summary.blocked, "⊘", "in part blocked" if summary.passed else "blocked"),
        (summary.waived, "w", "in part waived" if summary.passed else "waived"),
        (summary.passed, "✓", "passed"),
    )
    return next(((glyph, said) for does, glyph, said in holds if does), ("○", "nothing ran"))


def _next_command(record: Record, lead: Failure | None) -> tuple[str, str]:
    """What to type next, and why; a run that passed needs nothing."""
    run, shown = record.run, word(record)
    if shown in (UNFINISHED, INTERRUPTED, DAMAGED):
        return shlex.join(run.command), "the run did not come to its end: run it again, what it had begun is recognised"
    if shown == PASSED or not run.bench:
        return "", ""
    mode = ["--replay"] if run.mode == "replay" else ["--live"]
    stage = lead.cases[0].stage if lead is not None else next((line.stage for line in summarise(record) if line.not_measured), "")
    words = ["bringup", "run", "--bench", run.bench, *mode, *(["--stage", stage] if stage in ALL_STAGES else [])]
    words += [] if run.mode == "replay" else [word for fault in run.faults for word in ("--fault", fault)]
    if stage in ("bios", "boot") and run.apply and run.mode != "replay":
        words.append("--apply")
    return shlex.join(words), "looks at this stage again"


def _missing(record: Record) -> tuple[tuple[str, int], ...]:
    """What has no verdict, by check or stage, with how many cases."""
    counted: Counter[str] = Counter(entry.what.partition("[")[0] for entry in not_measured(record))
    for case in record.cases:
        if case.outcome == CaseOutcome.BLOCKED:
            counted[f"{case.stage} (blocked)"] += 1
    for plan in record.unreached:
        counted[f"{plan.stage} (never reached)"] += 1
    for stage in record.stages:
        if stage.state == "not run":
            counted[one_line(f"{stage.stage} (not run: {stage.reason})", 120)] += 1
    return tuple(counted.items())
