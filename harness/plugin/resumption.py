"""Going on with a run that was cut off: which of its stages still hold, and which are void.

    stage ended before, machine as it was      carried over: its cases stand as they were judged
    firmware, bench or platform changed        all void, and so with the waivers
    the record itself is damaged               all void
    another boot, or none that can be named    bios, boot and all after them void
    another part in a slot, by serial too      pcie and all after it void
    a waiver expired meanwhile                 its stage and all after it void
    stage cut off in the middle                it and all after it run again, whole

bmc always runs again: it proves that this is the machine. Reads only; nothing is written before it is decided.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from harness.bench import Bench
from harness.clock import Clock
from harness.devices.gpu import join, read_inventory
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.pcie import read_snapshot
from harness.devices.redfish import Redfish
from harness.errors import BenchError, DeviceError, OwnershipError, UsageMistake
from harness.part import Part
from harness.platform import Slot
from harness.plugin.case import Case
from harness.ports import Lanes
from harness.procedures.contact import make_contact
from harness.procedures.handover import NOTHING
from harness.procedures.links import identity as identity_of
from harness.procedures.stages import STAGES, Gates
from harness.record.entries import CaseRecord, Record
from harness.record.lines import CaseOutcome
from harness.record.reader import read_lines, read_record
from harness.report.text import is_inside

_FIRMWARE = ("system", "bios", "idrac")
_BOOT_ID = "boot.boot-id"


@dataclass(frozen=True)
class Sight:
    """What the machine shows: who it is, which boot it is in, and what sits in each slot; "" where unknown.

    ``parts`` are address and ids as the kernel has them, ``serials`` what the driver says.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    boot_id: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    serials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Resumption:
    """The run that is gone on with; ``void`` says of stages that had ended why they run again."""

    record: Record
    carried: tuple[str, ...]
    void: Mapping[str, str]

    @property
    def left(self) -> tuple[str, ...]:
        """The stages that are to run, in order; none where all of them hold."""
        return tuple(stage for stage in self.record.run.stages if stage not in self.carried)

    @property
    def leftover(self) -> str:
        """What that run had left on the machine when it last said so; "" for nothing."""
        return next((text for text in self.record.handovers[-1:] if text != NOTHING), "")

    @property
    def told(self) -> list[str]:
        """What a person is told of it, a line each."""
        name = self.record.run.id
        lines = [f"resumed from {name}: {', '.join(self.carried)} carried over" if self.carried else f"nothing of {name} holds"]
        reasons: dict[str, list[str]] = {}
        for stage, why in self.void.items():
            reasons.setdefault(why, []).append(stage)
        lines += [f"void of {name}: {', '.join(stages)}: {why}" for why, stages in reasons.items()]
        return lines + ([f"{name} left on the machine: {self.leftover}"] if self.leftover else [])


def read_resumable(folder: Path) -> Record:
    """The record of a run that can be gone on with. Raises UsageMistake with one line for any other."""
    record = read_record(folder)
    run = record.run
    if run.mode not in ("live", "record"):
        raise UsageMistake(f"{folder}: this run is a {run.mode or 'run of unknown mode'} and touched no machine; run it again")
    unfinished = [stage for stage in run.stages if (entry := record.stage(stage)) is None or entry.state == "started"]
    if not unfinished and record.end is not None and not record.unreached:
        raise UsageMistake(f"{folder}: every stage of this run came to its end; there is nothing to resume")
    return record


def weigh(record: Record, now: Sight, changed_files: Sequence[str], *, today: date | None = None) -> Resumption:
    """Which of the stages that ended still hold; ``changed_files`` names the files (bench, platform, waivers) whose
    checksum is another, ``today`` tells which waivers have expired.

    Raises OwnershipError for another machine.
    """
    tag, here = record.identity.get("service_tag", ""), now.identity.get("service_tag", "")
    if tag and here and tag != here:
        raise OwnershipError(f"run {record.run.id} was made on service tag {tag}, and this is {here}: another machine")
    ended = list(_ended(record))
    void: dict[str, str] = {}
    for first, why in [*_reasons(record, now, changed_files), *_lapsed(record, today)]:
        for stage in ended:
            if STAGES.index(stage) >= STAGES.index(first):
                void.setdefault(stage, why)
    return Resumption(record, tuple(stage for stage in ended if stage not in void), void)


def look(lanes: Lanes, host: Host | None, bench: Bench, slots: tuple[Slot, ...], clock: Clock, *, serials: bool) -> Sight:
    """Ask the machine, by reads only, for what a run is tied to. What does not answer stays unknown.

    ``serials``: ask the driver as well. Raises BringupError where the BMC does not let anybody in.
    """
    identity: Mapping[str, str] = {}
    if lanes.bmc is not None:
        contact = make_contact(Idrac(Redfish(lanes.bmc, clock)), bench.service_tag)
        if contact.error is not None:
            raise contact.error
        identity = contact.identity()
    boot_id, parts, said = "", {}, {}
    if host is not None:
        with suppress(BenchError, DeviceError):
            boot_id = host.boot_id()
            snapshot = read_snapshot(host)
            for slot in slots:
                function = snapshot.at(slot.path)
                parts[slot.name] = "" if function is None else f"{function.bdf} {identity_of(function)}"
            if serials:
                joined = join(read_inventory(host, watch=0.0), snapshot, slots)
                said = {slot: gpu.serial for slot, gpu in joined.items() if gpu.serial}
    return Sight(identity, boot_id, parts, said)


def restore_gates(resumption: Resumption, gates: Gates) -> None:
    """Move the gates as the stages that are carried over left them."""
    record = resumption.record
    for stage in resumption.carried:
        entry = record.stage(stage)
        if entry is None:
            continue
        if entry.gate == "closed":
            gates.close(stage, entry.reason or f"BLOCKED by stage {stage}")
        for slot in entry.lost:
            lost = next((case for case in record.cases_of(stage) if case.slot == slot and _fell_short(case)), None)
            gates.lose(stage, [slot], f"BLOCKED by {lost.id if lost is not None else f'stage {stage}'}")


def _fell_short(case: CaseRecord) -> bool:
    """True where it failed or broke, whether or not somebody answers for it."""
    return case.has_failed or (case.waiver is not None and case.waiver.outcome == CaseOutcome.FAILED)


def carried_cases(resumption: Resumption) -> list[Case]:
    """The cases that are carried over, as ended."""
    return [_case(case) for case in resumption.record.cases if case.stage in resumption.carried]


def carried_parts(resumption: Resumption) -> Iterator[Part]:
    """Who sits in which slot, as the stages that are carried over learned it, the latest last."""
    record = resumption.record
    ids = {case.id for case in record.cases if case.stage in resumption.carried}
    yield from (each.part for each in record.measurements if each.part is not None and each.case in ids)


def carried_lines(resumption: Resumption) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of the record that are carried over: kind and fields, in their order."""
    record = resumption.record
    if record.path is None:
        return
    ids = {case.id for case in record.cases if case.stage in resumption.carried}
    for line in read_lines(record.path):
        kind = line.get("kind", "")
        of_stage = kind in ("stage", "case") and line.get("stage") in resumption.carried
        of_case = kind == "measurement" and line.get("case") in ids
        of_page = kind == "exhibit" and line.get("name") in (*resumption.carried, "firmware")
        if of_stage or of_case or of_page:
            yield kind, {key: value for key, value in line.items() if key not in ("kind", "seq")}


def copy_evidence(resumption: Resumption, folder: Path) -> None:
    """Bring the attachments of what is carried over into the new run's folder; what is gone stays gone."""
    record = resumption.record
    if record.path is None:
        return
    for case in record.cases:
        for path in case.attachments if case.stage in resumption.carried else ():
            if not is_inside(path):
                continue
            source, target = record.path.parent / path, folder / path
            with suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


def _ended(record: Record) -> Iterator[str]:
    """The stages up to the first that was cut off, but for bmc, whose last check closes the run.

    Ctrl-C ends the stage that it hits as well: what was cut off there is a planned case without a line.
    """
    cut = {plan.stage for plan in record.unreached}
    for stage in record.run.stages:
        if stage == "bmc":
            continue
        entry = record.stage(stage)
        if entry is None or entry.state == "started" or stage in cut:
            return
        if stage in STAGES and entry.state == "ended":
            yield stage


def _reasons(record: Record, now: Sight, changed_files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Why stages are void: the first one, and the reason."""
    if record.damage:
        yield "bmc", f"its record is damaged: {record.damage[0]}"
    if changed_files:
        yield "bmc", f"the {' and the '.join(changed_files)} file changed since"
    for name in _FIRMWARE:
        before, here = record.identity.get(name, ""), now.identity.get(name, "")
        if before != here:
            yield "bmc", f"{name} was {before or 'unknown'} and is {here or 'unknown'}"
    boot = _boot_id(record)
    if not boot or not now.boot_id:
        yield "bios", "it cannot be proven that the machine has not restarted since"
    elif boot != now.boot_id:
        yield "bios", f"the machine restarted since (boot id {boot} then, {now.boot_id} now)"
    held = _parts(record)
    moved = [slot for slot, part in held.items() if now.parts.get(slot, "") != part]
    if moved:
        first = moved[0]
        more = f" (and {len(moved) - 1} more slots)" if len(moved) > 1 else ""
        yield "pcie", f"{first} held {held[first]}, and now {now.parts.get(first) or 'nothing that answers'}{more}"
    swapped = [slot for slot, serial in serials_of(record).items() if now.serials.get(slot, "") != serial]
    if swapped:
        first = swapped[0]
        more = f" (and {len(swapped) - 1} more slots)" if len(swapped) > 1 else ""
        here = f"serial {now.serials[first]}" if first in now.serials else "none that tells its serial"
        yield "pcie", f"{first} held the part with serial {serials_of(record)[first]}, and now {here}{more}"


def _lapsed(record: Record, today: date | None) -> Iterator[tuple[str, str]]:
    """The stages in which somebody answered for a case until a day that is over; bmc runs again anyway."""
    if today is None:
        return
    for case in record.waived():
        waiver = case.waiver
        if waiver is not None and waiver.expires < today.isoformat() and case.stage in STAGES[1:]:
            yield case.stage, f"the waiver {waiver.ticket} of {case.id} expired after {waiver.expires}"


def _boot_id(record: Record) -> str:
    """The boot that the run saw last."""
    shown = record.exhibits.get("pcie", {}).get("boot")
    if isinstance(shown, str) and shown:
        return shown
    return next((str(each.value) for each in record.measurements if each.name == _BOOT_ID and each.value), "")


def _parts(record: Record) -> dict[str, str]:
    """What sat in each slot, as the stage pcie saw it."""
    seen = (each for each in record.measurements if each.name == "pcie.identity" and each.value)
    return {each.part.slot: f"{each.part.address} {each.value}" for each in seen if each.part is not None and each.part.address}


def serials_of(record: Record) -> dict[str, str]:
    """The serial of the part in each slot, where the driver told it to the run."""
    return {each.part.slot: each.part.serial for each in record.measurements if each.part is not None and each.part.serial}


def _case(case: CaseRecord) -> Case:
    param = case.id.removeprefix(f"{case.check}[").removesuffix("]") if case.id != case.check else ""
    waiver = None if case.waiver is None else vars(case.waiver)
    made = Case(case.check, case.stage, case.title, param, (case.slot,) if case.slot else ())
    return replace(
        made, outcome=case.outcome.value, blame=case.blame, message=case.message, information=case.information, waiver=waiver
    )
