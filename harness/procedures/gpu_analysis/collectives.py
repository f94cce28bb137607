"""Judging runs of nccl-tests: wrong values, errors, a bandwidth that the tool refuses, runs that did not come to their end.

A run that never ended tells most beside others: where only pairs below one switch hang, NCCL used peer access for them alone
(NVIDIA/nccl#667); where it had come to large sizes at a crawl it was slow and not hung (NVIDIA/nccl#199).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.devices.gpu_reports.facts import Collective, Reading
from harness.devices.pcie import Unread
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu_analysis.known_lines import TOO_MANY
from harness.procedures.gpu_analysis.machine import NEAR, Machine
from harness.procedures.p2p_patterns import count_of

_LARGE = 1 << 20
_CRAWL = 1.0
"""GB/s: slower than any link of a machine in order, for a megabyte and more."""


def judge_collectives(readings: Sequence[Reading], machine: Machine) -> Iterator[Diagnosis]:
    """Every run, then what those that did not end have in common."""
    runs = [(reading, reading.collective) for reading in readings if reading.collective is not None]
    for reading, run in runs:
        yield from _values(reading, run)
    yield from _unfinished(runs, machine)


def gaps_of(reading: Reading, run: Collective) -> Iterator[Unread]:
    """What the run cannot tell."""
    if run.validated is False or (run.rows and all(row.wrong is None for row in run.rows) and run.wrong is None):
        yield Unread(
            f"{reading.source}: whether its values were right",
            "they were not compared (validation 0)",
            "run it with -c 1, the default",
        )


def _values(reading: Reading, run: Collective) -> Iterator[Diagnosis]:
    wrong = max(sum(row.wrong or 0 for row in run.rows), run.wrong or 0)
    if wrong:
        sizes = [row.size for row in run.rows if row.wrong]
        yield Diagnosis(
            Severity.FAIL,
            "wrong-values",
            _where(run),
            f"{wrong} wrong values{f', first at {sizes[0]} bytes' if sizes else ''}: do not use",
            next((line for line in (run.refused,) if line), ""),
            reading.source,
            "wrong bytes on the way between GPUs, or a memory; the tool does not tell which pair",
            "find the pair: run the p2p stage, which compares every byte of every ordered pair",
        )
    elif run.refused:
        yield Diagnosis(
            Severity.FAIL,
            "refused",
            _where(run),
            "the tool itself refuses its result",
            run.refused,
            reading.source,
            "below the bandwidth that whoever ran it asked for" if "bandwidth" in run.refused else "",
            "compare pair by pair; look at the transport (NCCL_DEBUG=INFO: P2P or SHM)",
        )
    others = [line for line in run.errors if not _is_told_elsewhere(line) and not (wrong or run.refused)]
    if others:
        yield Diagnosis(
            Severity.FAIL,
            "failed",
            _where(run),
            "the run ended with an error",
            others[0],
            reading.source,
            "see the line",
            "run it again with NCCL_DEBUG=INFO and read what comes before it",
        )


def _is_told_elsewhere(line: str) -> bool:
    """Error 711 is a limit, which the reader of known lines tells."""
    return "711" in line or "peer mapping" in line


def _unfinished(runs: Sequence[tuple[Reading, Collective]], machine: Machine) -> Iterator[Diagnosis]:
    open_ones = [(reading, run) for reading, run in runs if not run.ended and not run.errors]
    done = [run for _, run in runs if run.ended]
    near = [run for _, run in open_ones if _class(run, machine) in NEAR]
    far_ended = [run for run in done if _class(run, machine) not in ("", *NEAR)]
    if near and far_ended and len(near) == len(open_ones) and not any(_class(run, machine) in NEAR for run in done):
        pairs = ", ".join(f"GPU {run.devices[0]} and GPU {run.devices[1]} ({_class(run, machine)})" for run in near)
        yield Diagnosis(
            Severity.FAIL,
            "hang",
            pairs,
            "did not end, and only pairs below one switch did not: those across host bridges ended",
            "",
            ", ".join(reading.source for reading, _ in open_ones),
            "NCCL uses peer access below one host bridge only, and there access control (ACS) or VT-d swallows it",
            "turn VT-d off and read ACSCtl of every bridge; "
            "a setting may not hold over a warm reboot: power the machine off and on (cold)",
        )
        return
    for reading, run in open_ones:
        yield _crawl(reading, run) if _is_slow(run) else _open_end(reading, run)


def _is_slow(run: Collective) -> bool:
    """True where the last size that it came to is large and went at a crawl."""
    large = [row for row in run.rows if row.size >= _LARGE]
    return bool(large) and large[-1].best < _CRAWL and len(run.ranks) > 1


def _crawl(reading: Reading, run: Collective) -> Diagnosis:
    last = run.rows[-1]
    return Diagnosis(
        Severity.FAIL,
        "crawl",
        _where(run),
        f"the output ends after {last.size} bytes at {last.best:g} GB/s: extremely slow, not hung",
        "",
        reading.source,
        "access control (ACS) sends peer traffic up to the root complex",
        "read ACSCtl of every bridge between the GPUs (lspci -vvv)",
    )


def _open_end(reading: Reading, run: Collective) -> Diagnosis:
    where = f"after {run.rows[-1].size} bytes" if run.rows else "before its first row"
    hint = f"; {TOO_MANY}" if len(run.ranks) > 9 and len({rank.pid for rank in run.ranks}) == 1 else ""
    return Diagnosis(
        Severity.WARN,
        "hang",
        _where(run),
        f"the output ends {where}, without its last lines",
        "",
        reading.source,
        f"the run hung or was killed, or the file was cut{hint}",
        "run each pair of GPUs alone with a time limit, and add nvidia-smi topo -m",
    )


def _class(run: Collective, machine: Machine) -> str:
    """The topology's word for the pair that a run of two GPUs is about, else ""."""
    devices = run.devices
    return machine.classes.get((devices[0], devices[1]), "") if len(devices) == 2 else ""


def _where(run: Collective) -> str:
    return f"{run.name or 'collective'} over {count_of(len(run.ranks), 'rank')}"
