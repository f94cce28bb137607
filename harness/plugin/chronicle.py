"""What a run says while it goes on: to the record first, then to whoever watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.clock import Clock
from harness.measurement import Measurement
from harness.plugin.case import Case
from harness.plugin.settings import Watcher
from harness.procedures.stages import Gates
from harness.record.ledger import Ledger
from harness.record.verdict import Verdict

HARNESS = "harness"
"""The stage of cases that are about the harness itself."""


class Chronicle:
    """Writes the lines of one run; each verb is one line of the record."""

    def __init__(self, ledger: Ledger, clock: Clock, watcher: Watcher) -> None:
        self._ledger = ledger
        self._clock = clock
        self._watcher = watcher

    def begin(self, run: Mapping[str, Any], not_run: Mapping[str, str]) -> None:
        """The run begins; ``not_run`` are the stages it cannot have, with reasons."""
        self._ledger.write("run", schema=1, **run)
        for stage, reason in not_run.items():
            self._ledger.write("stage", stage=stage, state="not run", gate=None, reason=reason, lost=[], at=0.0)

    def plan(self, cases: Sequence[Case]) -> None:
        """Every case that should be reached, so that a run that is cut off still names them all."""
        listed = [
            {"case": case.id, "check": case.check, "stage": case.stage, "slot": case.slot, "title": case.title} for case in cases
        ]
        self._ledger.write("plan", cases=listed)

    def identity(self, facts: Mapping[str, str]) -> None:
        """Who the machine is, as far as known by now."""
        self._ledger.write("identity", facts=dict(facts))

    def begin_stage(self, stage: str, cases: int) -> None:
        """A stage begins."""
        self._ledger.write("stage", stage=stage, state="started", gate=None, reason="", lost=[], at=self._clock.now())
        self._watcher.stage_begins(stage, cases)

    def end_stage(self, stage: str, gates: Gates) -> None:
        """A stage ended and left its gate behind; from here on the disk keeps it."""
        gate, reason, lost = gates.state(stage).value, gates.closed.get(stage, ""), list(gates.lost_in(stage))
        self._ledger.write("stage", stage=stage, state="ended", gate=gate, reason=reason, lost=lost, at=self._clock.now())
        self._ledger.checkpoint()
        self._watcher.stage_ends(stage, gate, self._clock.now())

    def measurement(self, taken: Measurement, case: Case) -> None:
        """Something was measured."""
        self._ledger.measurement(taken, case=case.id, check=case.check)

    def end_case(self, case: Case) -> None:
        """A case has its outcome; from here on the disk keeps it."""
        self._ledger.write(
            "case",
            case=case.id,
            check=case.check,
            stage=case.stage,
            slot=case.slot,
            title=case.title,
            outcome=case.outcome,
            blame=case.blame,
            message=case.message,
            information=case.information,
            took=0.0 if case.stage == HARNESS else self._clock.now() - case.began,
            at=self._clock.now(),
            attachments=list(case.attachments),
            waiver=case.waiver,
        )
        self._ledger.checkpoint()
        if case.stage != HARNESS:
            self._watcher.case_ends(case.id, case.outcome, self._clock.now())

    def exhibit(self, name: str, data: Mapping[str, Any]) -> None:
        """What a stage shows of its facts, for a page to draw."""
        self._ledger.write("exhibit", name=name, data=data, at=self._clock.now())

    def carry(self, kind: str, fields: Mapping[str, Any]) -> None:
        """A line of an earlier run that this one goes on with."""
        self._ledger.write(kind, **fields)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self._ledger.write("note", text=text)

    def handover(self, line: str) -> None:
        """What would be left on the machine if the run ended now; kept at once, for the run that is killed."""
        self._ledger.write("handover", text=line)
        self._ledger.checkpoint()

    def end(self, verdict: Verdict, handover: str) -> None:
        """The run ended; what it left on the machine comes before the verdict."""
        self.handover(handover)
        self._ledger.write("end", verdict=verdict.word, blame=verdict.blame, exit=verdict.exit, at=self._clock.now())

    def close(self) -> None:
        """Let go of the record."""
        self._ledger.close()
