"""One run: everything that is opened for it, and everything that is said about it.

prepare(settings)     reads every file and checks every name; no machine is touched      (prepare.py)
Run.open()            the first touch: report folder, lock, lanes
Run.close()           the last: sessions, tape, record, reports, lock
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import harness
from harness.bench import Bench
from harness.clock import Clock, wall_time
from harness.consent import Consent
from harness.devices.fields import progress_of
from harness.errors import BringupError, UsageMistake
from harness.measurement import Measurement
from harness.part import Part
from harness.platform import Platform, Slot
from harness.plugin.case import Case
from harness.plugin.measuring import Measure
from harness.plugin.settings import Settings
from harness.ports import Lanes, OnLine
from harness.procedures.handover import Handover
from harness.procedures.stages import STAGES, Gates
from harness.record.ledger import Ledger
from harness.record.verdict import Verdict, conclude
from harness.tape.header import TapeInfo
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

RUN = pytest.StashKey["Run"]()
CASE = pytest.StashKey[Case]()


@dataclass
class Run:
    """The parts and the state of one run. Built by ``prepare``; suites see it only through fixtures."""

    settings: Settings
    bench: Bench
    platform: Platform
    slots: tuple[Slot, ...]
    clock: Clock
    tracks: Tracks
    consent: Consent
    redactor: Redactor
    source: str
    not_run: Mapping[str, str]
    open_lanes: Callable[[ExitStack], Lanes]
    tape: TapeInfo | None = None
    recorder: Recorder | None = None
    player: Player | None = None
    lanes: Lanes = field(default_factory=Lanes)
    handover: Handover = field(default_factory=Handover)
    gates: Gates = field(default_factory=Gates)
    cases: list[Case] = field(default_factory=list)
    verdict: Verdict | None = None
    folder: Path | None = None
    interrupted: bool = False
    _identity: dict[str, str] = field(default_factory=dict)
    _parts: dict[str, Part] = field(default_factory=dict)
    _facts: list[str] = field(default_factory=list)
    _harness_failures: list[Case] = field(default_factory=list)
    _held: ExitStack = field(default_factory=ExitStack)
    _ledger: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        """The record; it is open from ``open()`` to ``close()``."""
        if self._ledger is None:
            raise RuntimeError("the record is not open")
        return self._ledger

    @property
    def stages(self) -> tuple[str, ...]:
        """The selected stages, in order."""
        return tuple(stage for stage in STAGES if not self.settings.stages or stage in self.settings.stages)

    @property
    def is_open(self) -> bool:
        """True between ``open()`` and ``close()``."""
        return self._ledger is not None

    def open(self) -> None:
        """Make the report folder, take the lock, open the lanes and begin the record. Raises BringupError."""
        self.folder = _make_folder(self.settings.report, self.bench.name)
        self._ledger = Ledger(self.folder / "results.jsonl", self.redactor.text)
        self._ledger.write(
            "run",
            schema=1,
            id=self.folder.name,
            started=wall_time().isoformat(timespec="seconds"),
            mode=self.settings.mode,
            source=self.source,
            bench=self.bench.name,
            platform=self.platform.name,
            stages=list(self.stages),
            harness=harness.__version__,
            tape=None if self.tape is None else {"name": self.tape.bench, "recorded_at": self.tape.recorded_at},
            faults=sorted(self.settings.faults),
            apply=self.consent.apply,
            command=list(self.settings.command),
        )
        for stage, reason in self.not_run.items():
            if stage in self.stages:
                self._ledger.write("stage", stage=stage, state="not run", gate=None, reason=reason, lost=[], at=0.0)
        self.clock.progress = self.settings.watcher.waits
        if self.recorder is not None:
            self.recorder.keep_in(self.folder / "tape", self._tape_info())
        self.lanes = self.open_lanes(self._held)
        if self.recorder is not None:
            self.lanes = self.recorder.lanes(self.lanes)

    def plan(self, cases: Sequence[Case]) -> None:
        """Write down every case that should be reached, so that a run that is cut off still names them all."""
        listed = [
            {"case": case.id, "check": case.check, "stage": case.stage, "slot": case.slot, "title": case.title} for case in cases
        ]
        self.ledger.write("plan", cases=listed)

    def part(self, name: str) -> Part:
        """What is known of the part in a slot."""
        return self._parts.get(name, Part(name))

    def know(self, part: Part) -> None:
        """Remember who sits in a slot, for every later measurement of it."""
        self._parts[part.slot] = part

    def identify(self, facts: Mapping[str, str]) -> None:
        """Write down who the machine is."""
        self._identity |= facts
        self.ledger.write("identity", facts=dict(self._identity))

    def following(self, worker: str) -> OnLine:
        """Show a worker's progress lines to whoever follows the run."""
        began = self.clock.now()

        def show(line: str, at: float) -> None:
            if '"progress"' in line and (done := progress_of(line)):
                self.settings.watcher.waits(worker, at - began, done)

        return show

    def measure_for(self, item: pytest.Item) -> Measure:
        """The measure of one test."""
        case = item.stash[CASE]

        def record(taken: Measurement) -> None:
            self.ledger.measurement(taken, case=case.id, check=case.check)

        case.measure = Measure(self.clock, self.part, record)
        return case.measure

    def begin_stage(self, stage: str, cases: int) -> None:
        """Say that a stage begins."""
        self.ledger.write("stage", stage=stage, state="started", gate=None, reason="", lost=[], at=self.clock.now())
        self.settings.watcher.stage_begins(stage, cases)

    def end_stage(self, stage: str) -> None:
        """Say that a stage ended, and what its gate is."""
        gate = self.gates.state(stage).value
        self.ledger.write(
            "stage",
            stage=stage,
            state="ended",
            gate=gate,
            reason=self.gates.closed.get(stage, ""),
            lost=list(self.gates.lost_in(stage)),
            at=self.clock.now(),
        )
        self.ledger.checkpoint()
        self.settings.watcher.stage_ends(stage, gate, self.clock.now())

    def end_case(self, case: Case) -> None:
        """Record what became of a case and move the gates."""
        if case.failed:
            if case.is_vital:
                self.gates.close(case.stage, f"BLOCKED by {case.id}")
            if case.is_presence:
                self.gates.lose(case.stage, case.parts, f"BLOCKED by {case.id}")
                if all(slot.name in self.gates.lost for slot in self.slots):
                    self.gates.close(case.stage, f"BLOCKED by {case.id}: no part is left")
        self.cases.append(case)
        self._write_case(self.ledger, case)
        self.ledger.checkpoint()
        self.settings.watcher.case_ends(case.id, case.outcome, self.clock.now())

    def fact_entered(self, track: str) -> None:
        """Remember the track of a session fixture whose writes must all be played by the end."""
        if track not in self._facts:
            self._facts.append(track)

    def harness_fails(self, check: str, message: str, param: str = "") -> None:
        """Remember that the harness itself failed; the run ends with it."""
        title = "The harness, its suites and its recording agree."
        case = Case(check, "harness", title, param, outcome="error", blame="harness", message=self.redactor.text(message))
        self._harness_failures.append(case)

    def close(self) -> None:
        """End everything that was opened, whatever happened before, and conclude."""
        if self._ledger is None:
            return
        ledger, self._ledger = self._ledger, None
        with ExitStack() as last:
            last.callback(ledger.close)
            last.callback(self._held.close)
            last.callback(self._conclude, ledger)
            self.lanes.close()

    def _conclude(self, ledger: Ledger) -> None:
        self._judge_the_tape()
        verdict = self._verdict()
        if self.recorder is not None:
            try:
                self._keep_recording(self.recorder, ledger, verdict)
            except BringupError as error:
                self.harness_fails("harness.tape", str(error))
                verdict = self._verdict()
        for case in self._harness_failures:
            self._write_case(ledger, case)
        self.verdict = verdict
        ledger.write("handover", text=self.handover.line())
        ledger.write("end", verdict=verdict.word, blame=verdict.blame, exit=verdict.exit, at=self.clock.now())
        ledger.checkpoint()

    def _judge_the_tape(self) -> None:
        """Writes that were recorded for a fact and never came are a change of the harness: loud, unless a case failed."""
        if self.player is None or self.interrupted or any(case.failed for case in self.cases):
            return
        unplayed = [f"{track}: {write}" for track in self._facts for write in self.player.unplayed(track)]
        if unplayed:
            self.harness_fails("harness.unplayed", "recorded writes that never came:\n" + "\n".join(unplayed))

    def _verdict(self) -> Verdict:
        ended = [*self.cases, *self._harness_failures]
        return conclude(ended, interrupted=self.interrupted, optional=self.platform.optional)

    def _write_case(self, ledger: Ledger, case: Case) -> None:
        ledger.write(
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
            took=self.clock.now() - case.began if case.stage != "harness" else 0.0,
            at=self.clock.now(),
            attachments=[],
        )

    def _keep_recording(self, recorder: Recorder, ledger: Ledger, verdict: Verdict) -> None:
        """Keep the run's traffic as evidence, and as the bench's tape where that was asked for and everything passed."""
        recorder.settle(self._tape_info())
        if self.settings.mode != "record":
            return
        target = (self.settings.tapes or Path("fixtures") / "tapes") / self.bench.name
        if verdict.exit != 0:
            ledger.write("note", text=f"the tape {target} was left as it was: only a run that passed replaces it")
            return
        recorder.keep(target, self._tape_info())
        ledger.write("note", text=f"the tape {target} was replaced")

    def _tape_info(self) -> TapeInfo:
        return TapeInfo(
            bench=self.bench.name,
            platform=self.platform.name,
            source=self.source,
            recorded_at=wall_time().isoformat(timespec="seconds"),
            harness=harness.__version__,
            stages=self.stages,
            apply=self.consent.apply,
            identity=dict(self._identity),
        )


def headline_before(run: Run) -> str:
    """What is said before anything else: whether a machine is touched, and where what follows comes from."""
    if run.tape is not None:
        return (
            f"REPLAY of bench {run.bench.name}: no machine is touched. "
            f"The recording's source is {run.source!r}, recorded {run.tape.recorded_at}."
        )
    if run.bench.lab is not None:
        return f"LIVE on the simulated machine of bench {run.bench.name} (source {run.source!r}): no hardware is touched."
    changes = "settings may be changed and the machine rebooted" if run.consent.apply else "nothing is changed (no --apply)"
    return f"LIVE on bench {run.bench.name}, machine {run.bench.service_tag or 'without service tag'}: {changes}."


def _make_folder(reports: Path, bench: str) -> Path:
    stamp = wall_time().strftime("%Y%m%d-%H%M%S")
    try:
        for number in range(1, 1000):
            folder = reports / f"{stamp}-{bench}{'' if number == 1 else f'-{number}'}"
            if not folder.exists():
                folder.mkdir(parents=True)
                _point_latest(reports, folder)
                return folder
    except FileExistsError:
        return _make_folder(reports, bench)
    except OSError as error:
        raise UsageMistake(f"cannot write reports to {reports}: {error.strerror}; name another folder with --report") from None
    raise UsageMistake(f"cannot find a free name in {reports}; name another folder with --report")


def _point_latest(reports: Path, folder: Path) -> None:
    """Let ``latest`` name the newest run; a file system without links does without."""
    link = reports / "latest"
    fresh = reports / f".latest-{folder.name}"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError:
        fresh.unlink(missing_ok=True)


def command_line(words: Sequence[str]) -> str:
    """The command that would do the same again."""
    return shlex.join(words)
