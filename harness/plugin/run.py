"""One run: everything that is opened for it, and what comes of it.

prepare(settings)     reads every file and checks every name; no machine is touched      (prepare.py)
Run.open()            the first touch: lock, lanes, report folder, record
Run.close()           the last: sessions, tape, record, lock
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import harness
from harness.bench import Bench
from harness.clock import Clock, wall_time
from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.fields import progress_of
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.errors import BenchError, Blame, BringupError
from harness.part import Part
from harness.platform import Platform, Slot
from harness.plugin.case import Case
from harness.plugin.chronicle import HARNESS, Chronicle
from harness.plugin.evidence import Evidence, FirstFailures
from harness.plugin.folder import make_folder
from harness.plugin.measuring import Measure
from harness.plugin.recordings import find_drift, replace_with
from harness.plugin.resumption import Resumption, carried_cases, carried_lines, carried_parts, copy_evidence, restore_gates
from harness.plugin.settings import Settings
from harness.plugin.waiving import Waiving
from harness.ports import HttpAsks, HttpQuestion, Lanes, OnLine
from harness.procedures.guard import GuardedBmc, GuardedFabric
from harness.procedures.handover import Handover
from harness.procedures.stages import STAGES, Gates
from harness.record.ledger import Ledger
from harness.record.lines import FILE_NAME, CaseOutcome
from harness.record.seal import write_seal
from harness.record.verdict import Verdict, conclude
from harness.tape.header import TapeInfo
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

PROCEDURES = ("session/bios", "session/boot")
"""The tracks whose writes say themselves what they leave on the machine."""

_BLOCKER = re.compile(r"BLOCKED by ([\w.-]+):")

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
    checksums: Mapping[str, str] = field(default_factory=dict)
    waiving: Waiving | None = None
    doubts: Sequence[str] = ()
    verified_against: Path | None = None
    resumption: Resumption | None = None
    insist_on_lock: Callable[[], None] = lambda: None
    lanes: Lanes = field(default_factory=Lanes)
    handover: Handover = field(init=False)
    gates: Gates = field(default_factory=Gates)
    planned: tuple[Case, ...] = ()
    cases: list[Case] = field(default_factory=list)
    verdict: Verdict | None = None
    folder: Path | None = None
    interrupted: bool = False
    changed: str = ""
    firsts: FirstFailures = field(default_factory=FirstFailures)
    problems: list[str] = field(default_factory=list)
    refusal: BringupError | None = None
    _identity: dict[str, str] = field(default_factory=dict)
    _parts: dict[str, Part] = field(default_factory=dict)
    _facts: list[str] = field(default_factory=list)
    _vital: set[str] = field(default_factory=set)
    _harness_failures: list[Case] = field(default_factory=list)
    _loose_ends: tuple[Callable[[], str], ...] = ()
    _evidence: Evidence = field(init=False)
    _held: ExitStack = field(default_factory=ExitStack)
    _chronicle: Chronicle | None = None

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.redactor.text)
        self.handover = Handover(lambda line: self.chronicle.handover(line) if self.is_open else None)

    @property
    def chronicle(self) -> Chronicle:
        """The record's writer; there is one from ``open()`` to ``close()``."""
        if self._chronicle is None:
            raise RuntimeError("the record is not open")
        return self._chronicle

    @property
    def is_open(self) -> bool:
        """True between ``open()`` and ``close()``."""
        return self._chronicle is not None

    @property
    def selected(self) -> tuple[str, ...]:
        """The selected stages, in order."""
        return tuple(stage for stage in STAGES if not self.settings.stages or stage in self.settings.stages)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that are to run, in order: the selected ones but for those that are carried over."""
        carried = () if self.resumption is None else self.resumption.carried
        return tuple(stage for stage in self.selected if stage not in carried)

    def open(self) -> None:
        """Take the lock, open the lanes, make the report folder and begin the record.

        Raises BringupError, and leaves nothing behind where it does.
        """
        with ExitStack() as opening:
            lanes = self.open_lanes(opening)
            opening.callback(lanes.close)
            self.folder = make_folder(self.settings.report, self.bench.name)
            ledger = Ledger(self.folder / FILE_NAME, self.redactor.text)
            self._chronicle = Chronicle(ledger, self.clock, self.settings.watcher)
            self._chronicle.begin(self._words(), {stage: why for stage, why in self.not_run.items() if stage in self.stages})
            for doubt in self.doubts:
                self._chronicle.note(doubt)
            if self.resumption is not None:
                self._carry_over(self.resumption, self._chronicle, self.folder)
            self._held = opening.pop_all()
        self._loose_ends = lanes.loose_ends
        self.clock.progress = self._tell
        if self.recorder is not None:
            self.recorder.keep_in(self.folder / "tape", self._tape_info())
            lanes = self.recorder.lanes(lanes)
        fabric = None if lanes.fabric is None else GuardedFabric(lanes.fabric, self.consent, self.insist_on_lock)
        self.lanes = replace(lanes, fabric=fabric, bmc=None if lanes.bmc is None else self._guarded(lanes.bmc))

    def _carry_over(self, resumption: Resumption, chronicle: Chronicle, folder: Path) -> None:
        """Take over what an earlier run found, as if this one had found it."""
        for line in resumption.told:
            chronicle.note(line)
        for kind, fields in carried_lines(resumption):
            chronicle.carry(kind, fields)
        copy_evidence(resumption, folder)
        restore_gates(resumption, self.gates)
        carried = carried_cases(resumption)
        self.cases += carried
        if self.waiving is not None:
            self.waiving.take_over(carried)
        for part in carried_parts(resumption):
            self.know(part)
        looks_again = "bios" in self.stages and "bios" not in self.not_run
        if resumption.leftover and not looks_again:
            self.handover.leave("resumed", f"as run {resumption.record.run.id} left it: {resumption.leftover}")

    def _tell(self, what: str, seconds: float, seen: object) -> None:
        """Show what is waited for, without any secret that the machine may have said."""
        self.settings.watcher.waits(self.redactor.text(what), seconds, self.redactor.text(str(seen)) if seen else seen)

    def _guarded(self, bmc: HttpAsks) -> GuardedBmc:
        """Put the last look before a write in front of the BMC, and note what is written by others than the procedures."""

        def wrote(question: HttpQuestion) -> None:
            track = self.tracks.current
            if track not in PROCEDURES:
                self.handover.leave(track, f"{track} sent {question.key}: what that left is for its author to say")

        return GuardedBmc(bmc, self.consent, self.bench.service_tag, wrote, self.insist_on_lock)

    def close(self) -> None:
        """End everything that was opened, whatever happened before, and conclude.

        Raises BenchError, which then says what was left on the machine, where the record cannot be written any more.
        """
        if self._chronicle is None:
            return
        chronicle, self._chronicle = self._chronicle, None
        try:
            with ExitStack() as last:
                last.callback(chronicle.close)
                last.callback(self._conclude, chronicle)
                last.callback(self._tell_loose_ends)
                last.callback(self._held.close)
            if self.folder is not None:
                write_seal(self.folder / FILE_NAME)
        except BenchError as error:
            raise BenchError(f"{error}; {self.handover.line()}") from None

    def plan(self, cases: Sequence[Case]) -> None:
        """Record every case that is to come; the verdict misses those that never do."""
        self.planned = tuple(cases)
        self.chronicle.plan(cases)

    def _tell_loose_ends(self) -> None:
        """What the closed lanes may have left behind belongs to the hand-over too."""
        for number, loose_end in enumerate(self._loose_ends):
            if text := loose_end():
                self.handover.leave(f"lane-{number}", text)

    def part(self, name: str) -> Part:
        """What is known of the part in a slot."""
        return self._parts.get(name, Part(name))

    def know(self, part: Part) -> None:
        """Remember who sits in a slot, for every later measurement of it."""
        self._parts[part.slot] = part

    def identify(self, facts: Mapping[str, str]) -> None:
        """Write down who the machine is. One that says that it is simulated is not hardware, however it was reached."""
        self._identity |= facts
        self.source = facts.get("simulated") or self.source
        self.chronicle.identity(self._identity)

    def following(self, worker: str) -> OnLine:
        """Show a worker's progress lines to whoever follows the run."""
        began = self.clock.now()

        def show(line: str, at: float) -> None:
            if '"progress"' in line and (done := progress_of(line)):
                self._tell(worker, at - began, done)

        return show

    def measure_for(self, item: pytest.Item) -> Measure:
        """The measure of one test."""
        case = item.stash[CASE]
        case.measure = Measure(self.clock, self.part, lambda taken: self.chronicle.measurement(taken, case))
        return case.measure

    def end_case(self, case: Case) -> None:
        """Record what became of a case and move the gates, whoever answers for it: a waiver opens none.

        A check that a vital one was blocked by is as vital.
        """
        if case.is_vital and case.outcome == CaseOutcome.BLOCKED and (blocker := _BLOCKER.match(case.message)):
            self._vital.add(blocker[1])
        if case.failed:
            if case.is_vital or case.check in self._vital:
                self.gates.close(case.stage, f"BLOCKED by {case.id}")
            if case.is_presence and case.blame == Blame.PRODUCT:
                self.gates.lose(case.stage, case.parts, f"BLOCKED by {case.id}")
                if all(slot.name in self.gates.lost for slot in self.slots):
                    self.gates.close(case.stage, f"BLOCKED by {case.id}: no part is left")
        self._keep_first_failure(case)
        case.attachments = self._evidence.of(case.check) if case.failed else ()
        if self.waiving is not None:
            self.waiving.apply(case, self._identity)
        self.cases.append(case)
        self.chronicle.end_case(case)

    def waiver_of(self, case: Case) -> str:
        """Who answers for a case as it stands; "" where nobody does."""
        waiver = None if self.waiving is None else self.waiving.holding(case, self._identity)
        return "" if waiver is None else f"WAIVED by {waiver}"

    def _keep_first_failure(self, case: Case) -> None:
        """Where it is one, keep what the machine shows now, before anybody restarts it; in a replay, what the recording has."""
        track = f"session/evidence-{case.stage}"
        if not self.firsts.is_one(case) or (self.player is not None and not self.player.open().has(track)):
            return
        with self.tracks.on(track):
            idrac = None if self.lanes.bmc is None else Idrac(Redfish(self.lanes.bmc, self.clock))
            console = None if self.lanes.console is None else Console(self.lanes.console, self.clock)
            self.keep(case.check, self.firsts.take(case.stage, self.host(), idrac, console))

    def host(self) -> Host | None:
        """The operating system of the machine; None where the bench has none."""
        return self.host_on(self.lanes)

    def host_on(self, lanes: Lanes) -> Host | None:
        """The operating system as these lanes reach it; None where the bench has none."""
        asks, settings, on_console = lanes.host, self.bench.host, self.bench.host_is_on_console
        if asks is None or settings is None:
            return None if asks is None else Host(asks, self.clock, is_on_console=on_console)
        return Host(asks, self.clock, python=settings.python, wrapper=settings.wrapper, is_on_console=on_console)

    def keep(self, check: str, files: Mapping[str, bytes | str]) -> None:
        """Keep evidence of a failure in the run's folder, for the case of ``check``; texts without secrets."""
        if self.folder is not None and check:
            self._evidence.keep(self.folder, check, files)

    def show(self, name: str, data: Mapping[str, object]) -> None:
        """Put what a stage shows of its facts into the record; a page draws it, nothing judges it."""
        if self.is_open:
            self.chronicle.exhibit(name, data)

    def fact_entered(self, track: str) -> None:
        """Remember the track of a session fixture whose writes must all be played by the end."""
        if track not in self._facts:
            self._facts.append(track)

    def harness_fails(self, check: str, message: str, param: str = "", *, blame: Blame = Blame.HARNESS) -> None:
        """Remember that the harness itself, or what it stands on, failed; the run ends with it."""
        title = "The harness, its suites and its recording agree."
        case = Case(check, HARNESS, title, param, outcome="error", blame=blame.value, message=self.redactor.text(message))
        self._harness_failures.append(case)

    def _conclude(self, chronicle: Chronicle) -> None:
        self._judge_the_tape()
        verdict = self._verdict()
        for text in [] if self.waiving is None else self.waiving.unused(self._identity):
            chronicle.note(text)
        if self.recorder is not None:
            try:
                self._keep_recording(self.recorder, chronicle, verdict)
            except BringupError as error:
                self.harness_fails("harness.tape", str(error))
                verdict = self._verdict()
            if self.verified_against is not None:
                self._tell_drift(chronicle, self.verified_against, verdict)
                verdict = self._verdict()
        for case in self._harness_failures:
            chronicle.end_case(case)
        self.verdict = verdict
        chronicle.end(verdict, self.handover.line())

    def _judge_the_tape(self) -> None:
        """Writes that were recorded for a fact and never came are a change of the harness, and so is a miss that nobody told.

        Loud, unless a case failed.
        """
        if self.player is None or self.interrupted or any(case.has_fallen_short for case in self.cases):
            return
        if swallowed := self.player.disagreements:
            self.harness_fails("harness.tape-miss", "\n".join(swallowed))
        unplayed = [f"{track}: {write}" for track in self._facts for write in self.player.unplayed(track)]
        if unplayed:
            self.harness_fails("harness.unplayed", "recorded writes that never came:\n" + "\n".join(unplayed))

    def _tell_drift(self, chronicle: Chronicle, tape: Path, verdict: Verdict) -> None:
        """In a run that passed, drift is the recording's failure."""
        if self.folder is None or self.interrupted:
            return
        drift = find_drift(tape, self.folder / "tape")
        for note in drift.notes:
            chronicle.note(note)
        if drift.failure and verdict.exit == 0:
            self.harness_fails("harness.tape-drift", drift.failure)

    def _verdict(self) -> Verdict:
        ended: Sequence[Case] = [*self.cases, *self._harness_failures]
        unreached = {case.id for case in self.planned} - {case.id for case in ended}
        return conclude(ended, interrupted=self.interrupted, optional=self.platform.optional, unreached=unreached)

    def _keep_recording(self, recorder: Recorder, chronicle: Chronicle, verdict: Verdict) -> None:
        """Keep the run's traffic as evidence, and as the bench's tape where that was asked for and everything passed."""
        recorder.settle(self._tape_info())
        if self.settings.mode != "record":
            return
        target = self.settings.tape_of(self.bench.name)
        is_there = target.exists()
        if verdict.exit != 0 or any(case.waiver is not None for case in self.cases):
            kept = "was left as it was" if is_there else "was not written"
            chronicle.note(f"the tape {target} {kept}: only a run in which everything passed makes one")
            return
        if self.folder is not None:
            is_hidden = self.source == "hardware" if self.settings.pseudonyms is None else self.settings.pseudonyms
            chronicle.note(replace_with(self.folder / "tape", target, self.redactor, under_pseudonyms=is_hidden))

    def _tape_info(self) -> TapeInfo:
        return TapeInfo(
            bench=self.bench.name,
            platform=self.platform.name,
            source=self.source,
            recorded_at=wall_time().isoformat(timespec="seconds"),
            harness=harness.__version__,
            stages=tuple(stage for stage in self.stages if stage not in self.not_run),
            apply=self.consent.apply,
            force_p2p=self.consent.force_p2p,
            faults=tuple(sorted(set(self.settings.faults))),
            identity=dict(self._identity),
        )

    def _words(self) -> dict[str, object]:
        """What the record's first line says of the run."""
        return {
            "id": "" if self.folder is None else self.folder.name,
            "started": wall_time().isoformat(timespec="seconds"),
            "mode": self.settings.mode,
            "source": self.source,
            "bench": self.bench.name,
            "platform": self.platform.name,
            "stages": list(self.selected),
            "harness": harness.__version__,
            "tape": None
            if self.tape is None
            else {
                "name": self.tape.bench,
                "recorded_at": self.tape.recorded_at,
                "pseudonyms": self.tape.pseudonyms,
            },
            "faults": sorted(set(self.settings.faults) | set(self.tape.faults if self.tape else ())),
            "apply": self.consent.apply,
            "command": list(self.settings.command),
            "checksums": dict(self.checksums),
            "resumed": None
            if self.resumption is None
            else {"run": self.resumption.record.run.id, "stages": list(self.resumption.carried)},
        }


def headline_before(run: Run) -> str:
    """What is said before anything else: whether a machine is touched, and where what follows comes from."""
    if run.tape is not None:
        return (
            f"REPLAY of bench {run.bench.name}: no machine is touched. "
            f"The recording's source is {run.source!r}, recorded {run.tape.recorded_at}."
        )
    forced = " --force-p2p: GPUs copy even where an IOMMU translates, which can overwrite the memory of other devices."
    forced = forced if run.consent.force_p2p else ""
    if run.bench.lab is not None:
        return f"LIVE on the simulated machine of bench {run.bench.name} (source {run.source!r}): no hardware is touched.{forced}"
    may_change = run.consent.apply and run.bench.bmc is not None
    changes = "settings may be changed and the machine rebooted" if may_change else "nothing is changed"
    changes += "" if run.consent.apply else " (no --apply)"
    return f"LIVE on bench {run.bench.name}, machine {run.bench.service_tag or 'without service tag'}: {changes}.{forced}"
