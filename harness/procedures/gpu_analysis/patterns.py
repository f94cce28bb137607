"""What the rates of many pairs show together: which GPU's link, which way, what happens when all copy at once.

    both ways at once hardly more than one    access control redirects, or both ways share a line
    well below its like                       a row and a column: that GPU's link; else what the pairs share
    one way faster than the other             an asymmetric link
    many at once lose most of the rate        posted writes block each other

Only the last fails, as it does in the p2p stage. The others are told, for they may be the machine's design.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from harness.devices.gpu_reports.facts import Reading
from harness.devices.p2p import Contention, Pair
from harness.limits import Outcome
from harness.platform import P2p
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu_analysis.copies import Copies, addresses_of, direct_pairs, figures_of, named, shared_by
from harness.procedures.gpu_analysis.machine import Machine
from harness.procedures.p2p_patterns import LOW, count_of

_ASYMMETRY = 0.10
_BOTH_WAYS = 1.2
"""Both ways at once over one way: full duplex gives nearly 2, access control about 1 (voipmonitor/rtx6kpro)."""


def judge_patterns(reading: Reading, copies: Copies, machine: Machine, rules: P2p) -> Iterator[Diagnosis]:
    """Every pattern in one tool's tables."""
    yield from _both_ways(copies, rules, reading.source)
    yield from _low(copies, machine, rules, reading.source)
    yield from _asymmetric(copies, rules, reading.source)
    yield from _crowded(reading, copies, machine, rules)


def is_crowd(reading: Reading) -> bool:
    """True where all others at once are at least two."""
    return len({index for grid in reading.grids for pair in grid.cells for index in pair}) > 2


def _both_ways(copies: Copies, rules: P2p, source: str) -> Iterator[Diagnosis]:
    if copies.halved:
        return
    found = [
        (pair, both) for pair in direct_pairs(copies, rules)
        if (both := copies.both.get((pair.source, pair.target))) is not None and both < _BOTH_WAYS * (pair.enabled or 0.0)
    ]  # fmt: skip
    if found:
        pair, both = found[0]
        yield Diagnosis(
            Severity.WARN,
            "both-ways",
            named([each for each, _ in found], copies.places),
            f"both ways at once give {both:g} GB/s in all, one way alone {pair.enabled:g}: nothing gained by full duplex",
            "",
            source,
            "access control (ACS) sends the traffic up to the root complex, or both ways share one line",
            "read ACSCtl of every bridge between them (lspci -vvv); a bridge of a switch is not the BIOS's to set",
        )


def _low(copies: Copies, machine: Machine, rules: P2p, source: str) -> Iterator[Diagnosis]:
    """Well below the median of those that the topology calls alike; without one, only what is one GPU's own."""
    like: dict[str, list[Pair]] = {}
    for pair in direct_pairs(copies, rules):
        like.setdefault(machine.classes.get((pair.source, pair.target), ""), []).append(pair)
    low = [pair for pairs in like.values() for pair in _below(pairs)]
    if not low:
        return
    words = shared_by(low, copies)
    own = [index for index in copies.places if all(index in (pair.source, pair.target) for pair in low)]
    if not machine.classes and len(own) != 1:
        return
    middle = median(pair.enabled or 0.0 for pairs in like.values() for pair in pairs)
    yield Diagnosis(
        Severity.WARN if machine.classes or len(low) > 1 else Severity.NOTE,
        "low",
        ", ".join(copies.places[index].slot for index in own) or named(low, copies.places),
        f"{count_of(len(low), 'ordered pair')} at {median(pair.enabled or 0.0 for pair in low):g} GB/s where all have {middle:g}",
        figures_of(low[0]),
        source,
        f"{words}{'' if machine.classes else ', or its place in the tree: no topology tells'}",
        "read the link's generation and width while it is busy (LnkSta, nvidia-smi -q): idle GPUs drop to Gen1",
        addresses_of(low, machine) if len(own) != 1 else tuple(filter(None, (machine.addresses.get(own[0], ""),))),
    )


def _below(pairs: Sequence[Pair]) -> list[Pair]:
    middle = median(pair.enabled or 0.0 for pair in pairs)
    return [pair for pair in pairs if (pair.enabled or 0.0) < LOW * middle]


def _asymmetric(copies: Copies, rules: P2p, source: str) -> Iterator[Diagnosis]:
    direct = {(pair.source, pair.target): pair for pair in direct_pairs(copies, rules)}
    found = []
    for (one, other), pair in direct.items():
        back = direct.get((other, one))
        if back is not None and (pair.enabled or 0.0) < (1 - _ASYMMETRY) * (back.enabled or 0.0):
            found.append((pair, back))
    if found:
        pair, back = min(found, key=lambda each: (each[0].enabled or 0.0) / (each[1].enabled or 1.0))
        yield Diagnosis(
            Severity.WARN,
            "asymmetric",
            named([each for each, _ in found], copies.places),
            f"slower than the other way by more than 10 %: {pair.enabled:g} against {back.enabled:g} GB/s",
            "",
            source,
            "errors that one direction of a link corrects all the time, or a narrower way back",
            "read replay counters of both GPUs before and after copies (nvidia-smi -q)",
        )


def _crowded(reading: Reading, copies: Copies, machine: Machine, rules: P2p) -> Iterator[Diagnosis]:
    """One GPU with all others at once, over the median pair alone: the contention of the p2p stage."""
    if not is_crowd(reading):
        return
    together: Mapping[tuple[int, str], float] = {(crowd.index, crowd.way): crowd.rate for crowd in reading.crowds}
    for index in sorted({crowd.index for crowd in reading.crowds}):
        own = [pair for pair in copies.report.pairs if pair.target == index]
        entry = Contention(
            machine.label(index),
            (index,),
            write_alone=_middle([pair.enabled for pair in own]),
            write_together=together.get((index, "write")),
            read_alone=_middle([pair.pulled if pair.pulled is not None else pair.enabled for pair in own]),
            read_together=together.get((index, "read")),
        )
        for way, ratio, alone, at_once in (
            ("write", entry.write_ratio, entry.write_alone, entry.write_together),
            ("read", entry.read_ratio, entry.read_alone, entry.read_together),
        ):
            if rules.contention_ratio.judge(ratio) is Outcome.FAIL:
                yield Diagnosis(
                    Severity.FAIL,
                    "contention",
                    machine.label(index),
                    f"{way}s collapse when all GPUs use it at once: {at_once:g} GB/s in all, {alone:g} for one pair alone",
                    "",
                    reading.source,
                    "posted writes of several GPUs block each other in a switch or root port"
                    if way == "write"
                    else "a shared line",
                    "compare with reads at once; split the traffic over fewer root ports (voipmonitor/rtx6kpro)",
                    tuple(filter(None, (machine.addresses.get(index, ""),))),
                )


def _middle(rates: Sequence[float | None]) -> float | None:
    told = [rate for rate in rates if rate is not None]
    return median(told) if told else None
