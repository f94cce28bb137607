"""From everything that files of one machine gave to what a person reads: findings, figures, and what could not be told.

readings (results of tests) ──┬─ judges of this package ──┐
harvests (nvidia-smi, logs) ──┴─ picture ─ judges of dumps ┴─ GpuAnalysis
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.devices.dumps.harvest import Format, Harvest
from harness.devices.dumps.picture import Picture, merge
from harness.devices.gpu_reports import known_lines
from harness.devices.gpu_reports.facts import Quantity, Reading, Tool
from harness.devices.pcie import Unread
from harness.platform import P2p, Platform, Resnet50
from harness.procedures.analysis.analysis import analyse
from harness.procedures.analysis.diagnosis import Diagnosis, Severity, fold
from harness.procedures.gpu_analysis import collectives, training, verdicts
from harness.procedures.gpu_analysis.inventory import judge_inventory
from harness.procedures.gpu_analysis.known_lines import judge_lines
from harness.procedures.gpu_analysis.machine import Machine, machine_of
from harness.procedures.gpu_analysis.matrices import judge_copies
from harness.procedures.gpu_analysis.patterns import is_crowd
from harness.procedures.gpu_analysis.summaries import Summary, of_collectives, of_copies, of_trainings, of_verdicts

_COPIES = (Tool.P2P_SAMPLE, Tool.NVBANDWIDTH, Tool.GPU_COPY)
_TOLD_HERE = ("peer-limit", "iommu")
"""Checks of the dumps' analysis whose lines this one judges itself, for what they mean to peer copies."""


@dataclass(frozen=True)
class GpuAnalysis:
    """What was found in the files of one machine."""

    readings: tuple[Reading, ...]
    picture: Picture
    diagnoses: tuple[Diagnosis, ...]
    summaries: tuple[Summary, ...]
    runs: tuple[training.Run, ...]
    unread: tuple[Unread, ...]

    @property
    def failed(self) -> bool:
        """True where something is wrong."""
        return any(diagnosis.severity is Severity.FAIL for diagnosis in self.diagnoses)

    def of(self, severity: Severity) -> tuple[Diagnosis, ...]:
        """The diagnoses of one severity."""
        return tuple(diagnosis for diagnosis in self.diagnoses if diagnosis.severity is severity)


def analyse_reports(readings: Sequence[Reading], harvests: Sequence[Harvest], platform: Platform | None = None) -> GpuAnalysis:
    """Judge what files of one machine gave, by a platform's rules where one is named, else by what holds everywhere."""
    told = _told(tuple(readings), merge(harvests), platform)
    found = [*_results(told), *(each for each in analyse(told.picture, platform).diagnoses if not _is_told_here(each))]
    if platform is not None:
        found += judge_inventory(told.picture, platform)
    return GpuAnalysis(
        told.readings,
        told.picture,
        fold(found),
        tuple(_summaries(told)),
        told.runs,
        tuple(dict.fromkeys(_gaps(told))),
    )


def _is_told_here(diagnosis: Diagnosis) -> bool:
    return diagnosis.check == "peer-access" or (diagnosis.check in _TOLD_HERE and known_lines.looks_like(diagnosis.quote))


@dataclass(frozen=True)
class _Told:
    """All that is known before anything is judged. ``machines`` are by reading, ``here`` is by nvidia-smi's own numbers."""

    readings: tuple[Reading, ...]
    picture: Picture
    runs: tuple[training.Run, ...]
    machines: tuple[Machine, ...]
    here: Machine
    rules: P2p
    limits: Resnet50

    def by_machine(self) -> Iterator[tuple[Reading, Machine]]:
        """Each reading with the machine by its own indexes."""
        yield from zip(self.readings, self.machines, strict=True)


def _told(readings: tuple[Reading, ...], picture: Picture, platform: Platform | None) -> _Told:
    noted = next((reading.system["driver"] for reading in readings if "driver" in reading.system), "")
    rules = None if platform is None else platform.p2p
    return _Told(
        readings,
        picture,
        training.runs_of(readings, noted or picture.system.get("driver", "")),
        tuple(machine_of(reading, readings, picture, rules) for reading in readings),
        machine_of(None, readings, picture, rules),
        rules or P2p(),
        Resnet50(floor=()) if platform is None else platform.resnet50,
    )


def _results(told: _Told) -> Iterator[Diagnosis]:
    """What the results of tests show."""
    for reading, machine in told.by_machine():
        if reading.tool in _COPIES:
            yield from judge_copies(reading, machine, told.rules)
        yield from verdicts.judge_verdicts(reading)
        yield from verdicts.judge_host_rates(reading, machine)
    if told.here.said and not any(reading.tool in _COPIES and (reading.grids or reading.access) for reading in told.readings):
        source = ", ".join(
            harvest.source for harvest in told.picture.harvests if harvest.matrix and harvest.matrix.what == "peer access"
        )
        yield from judge_copies(Reading(Tool.P2P_SAMPLE, source), told.here, told.rules)
    yield from collectives.judge_collectives(told.readings, told.here)
    for run in told.runs:
        yield from training.judge_run(run, told.limits)
    yield from judge_lines(told.readings)


def _summaries(told: _Told) -> Iterator[Summary]:
    yield from of_trainings(told.runs)
    yield from of_collectives(told.readings)
    for reading, machine in told.by_machine():
        yield from of_copies(reading, machine)
        yield from of_verdicts(reading)


def _gaps(told: _Told) -> Iterator[Unread]:
    """What the files leave out, and what would tell it."""
    for reading, machine in told.by_machine():
        yield from reading.unread
        if reading.tool in _COPIES:
            yield from _gaps_of_copies(reading, machine)
        if reading.collective is not None:
            yield from collectives.gaps_of(reading, reading.collective)
        yield from verdicts.gaps_of(reading)
    for run in told.runs:
        yield from training.gaps_of(run, told.limits)
    yield Unread(
        "whether every byte arrives unchanged, by pair and offset",
        "no tool here writes a pattern of its own for each pair and compares all of it",
        "run the p2p stage",
    )
    if any(reading.grids for reading in told.readings) and not told.here.classes:
        yield Unread("which GPUs share a switch or a bridge", "no topology among the files", "add nvidia-smi topo -m")
    if not told.picture.lists_driver:
        yield Unread("memory errors, links, clocks", "no nvidia-smi -q among the files", "add nvidia-smi -q -x")
    if not told.picture.has(Format.KERNEL_LOG):
        yield Unread("Xids and faults of the IOMMU", "no kernel log among the files", "add dmesg")


def _gaps_of_copies(reading: Reading, machine: Machine) -> Iterator[Unread]:
    source, kinds = reading.source, {(grid.quantity, grid.peers) for grid in reading.grids}
    if not reading.grids:
        yield Unread(f"{source}: bandwidth between GPUs", "no table of it is there")
        return
    if any(machine.ceiling(pair) is None for grid in reading.grids for pair in grid.cells):
        yield Unread(
            f"{source}: what the links can carry",
            "no file names the GPUs or their links, so nothing was judged against a ceiling",
            "add nvidia-smi -q -x and topo -m, or name a platform with --platform",
        )
    if {(Quantity.ONE_WAY, False), (Quantity.BOTH_WAYS, False)}.isdisjoint(kinds):
        yield Unread(
            f"{source}: the same copies without peer access", "not in the file, so staging shows by nothing but the ceiling"
        )
    if (Quantity.LATENCY, True) not in kinds:
        yield Unread(f"{source}: the latency of writes", "not in the file; staged copies take 9 us and more")
    if reading.crowds and not is_crowd(reading):
        yield Unread(f"{source}: contention", "all others at once are one GPU only; it takes two")
    if reading.tool is Tool.NVBANDWIDTH:
        yield Unread(
            f"{source}: copies from the wrong GPU",
            "nvbandwidth writes one pattern for all pairs, so it passes them",
            "run the p2p stage",
        )
