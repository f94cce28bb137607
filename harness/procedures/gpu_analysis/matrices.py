"""What the tables of copies between pairs show, in the order in which it matters.

    the driver rules the pair out             no peer access: whatever figure stands there went through the host
    cell above the link's ceiling             invalid: the copy did not happen as timed
    no faster with peer access, and late      silently staged through the host
    slower with peer access                   the way between the GPUs is worse than that through the host
    both ways at once hardly more than one    access control redirects, or both ways share a line
    well below its like                       a row and a column: that GPU's link; else what the pairs share
    one way faster than the other             an asymmetric link
    many at once lose most of the rate        posted writes block each other

Only the first three, and the last, fail: so they do in the p2p stage. The others are told, for they may be the machine's design.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from harness.devices.gpu import Peering
from harness.devices.gpu_reports.facts import Reading
from harness.devices.p2p import Contention, Pair, Report
from harness.limits import Outcome
from harness.platform import P2p
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu_analysis.copies import Copies, copies_of, named, shared_by
from harness.procedures.gpu_analysis.machine import FAR, Machine
from harness.procedures.p2p import DIRECT, STAGED, judge_path, path_of
from harness.procedures.p2p_patterns import LOW, count_of

_ASYMMETRY = 0.10
_BOTH_WAYS = 1.2
"""Both ways at once over one way: full duplex gives nearly 2, access control about 1 (voipmonitor/rtx6kpro)."""


def judge_copies(reading: Reading, machine: Machine, rules: P2p) -> Iterator[Diagnosis]:
    """Every finding about one tool's tables."""
    copies = copies_of(reading, machine)
    yield from _ruled_out(copies, machine, rules, reading.source)
    yield from _impossible(copies, machine, reading.source)
    yield from _paths(copies, machine, rules, reading.source)
    yield from _both_ways(copies, rules, reading.source)
    yield from _low(copies, machine, rules, reading.source)
    yield from _asymmetric(copies, rules, reading.source)
    yield from _crowded(reading, copies, machine, rules)


def _ruled_out(copies: Copies, machine: Machine, rules: P2p, source: str) -> Iterator[Diagnosis]:
    found = [pair for pair in copies.report.pairs if pair.can is False]
    if not found:
        return
    slots = {index: place.slot for index, place in copies.places.items()}
    said = {(slots[one], slots[other]): Peering(status, status) for (one, other), status in machine.said.items() if one in slots}
    words = judge_path(Report(pairs=tuple(found)), copies.places, found[0].source, rules, said).explanation
    measured = [pair for pair in found if pair.enabled is not None]
    staged = "; the figures that stand for them went through the host" if measured else ""
    yield Diagnosis(
        Severity.FAIL,
        "can-access",
        named(found, copies.places),
        f"no peer access for {count_of(len(found), 'ordered pair')}{staged}",
        words.splitlines()[0] if words else "",
        source,
        "this kind of GPU, the chipset, or the driver's settings; all pairs of one kind point to the kind",
        "read nvidia-smi topo -p2p r for the driver's reason by pair",
        _addresses(found, machine),
    )


def _impossible(copies: Copies, machine: Machine, source: str) -> Iterator[Diagnosis]:
    over = [pair for pair in copies.report.pairs if _is_over(pair, machine)]
    bridged = [pair for pair in over if _may_be_bridged(pair, machine)]
    over = [pair for pair in over if pair not in bridged]
    if over:
        worst = max(over, key=_fastest)
        most = machine.ceiling((worst.source, worst.target))
        yield Diagnosis(
            Severity.FAIL,
            "ceiling",
            named(over, copies.places),
            f"{_fastest(worst):g} GB/s where the link can carry {most}: invalid, not excellent",
            _figures(worst),
            source,
            "the copy did not happen as timed: writes that do not land cost no time",
            "compare bytes before anything else: run the p2p stage, with the IOMMU off or in pass-through",
            _addresses(over, machine),
        )
    if bridged:
        worst = max(bridged, key=_fastest)
        yield Diagnosis(
            Severity.WARN,
            "ceiling",
            named(bridged, copies.places),
            f"{_fastest(worst):g} GB/s is more than PCIe can carry ({machine.ceiling((worst.source, worst.target))})",
            _figures(worst),
            source,
            "right only where an NVLink bridge joins these two",
            "add nvidia-smi topo -m, which shows bridges",
            _addresses(bridged, machine),
        )


def _is_over(pair: Pair, machine: Machine) -> bool:
    ceiling = machine.ceiling((pair.source, pair.target))
    return ceiling is not None and ceiling.judge(_fastest(pair)) is Outcome.FAIL


def _may_be_bridged(pair: Pair, machine: Machine) -> bool:
    """Without a topology a platform's PCIe ceiling is no proof where its NVLink ceiling is not passed."""
    if machine.rules is None or (pair.source, pair.target) in machine.classes:
        return False
    return machine.rules.nvlink_ceiling.judge(_fastest(pair)) is not Outcome.FAIL


def _fastest(pair: Pair) -> float:
    return max(pair.enabled or 0.0, pair.pulled or 0.0)


def _paths(copies: Copies, machine: Machine, rules: P2p, source: str) -> Iterator[Diagnosis]:
    """Staged, slower than through the host, or no faster with nothing to tell why."""
    tried = [pair for pair in copies.report.pairs if pair.enabled is not None and pair.disabled is not None]
    staged = [pair for pair in tried if path_of(pair, rules) == STAGED]
    if staged:
        yield Diagnosis(
            Severity.FAIL,
            "path",
            named(staged, copies.places),
            f"{len(staged)} of {len(tried)} ordered pairs staged through the host: no faster with peer access than without",
            _figures(staged[0]),
            source,
            f"peer access is not in effect ({shared_by(staged, copies)})",
            "read topo -p2p r and w; where they say OK, look at ACS, the IOMMU and who holds peers (error 711)",
        )
    slower = [pair for pair in tried if pair not in staged and _ratio(pair) < 1 / rules.staged_ratio]
    far = [pair for pair in slower if machine.classes.get((pair.source, pair.target), "") in FAR]
    yield from _slower([pair for pair in slower if pair not in far], Severity.WARN, copies, source)
    yield from _slower(far, Severity.NOTE, copies, source)
    unclear = [
        pair for pair in tried if path_of(pair, rules) is None and 1 / rules.staged_ratio <= _ratio(pair) <= rules.staged_ratio
    ]
    if unclear:
        yield Diagnosis(
            Severity.WARN,
            "path",
            named(unclear, copies.places),
            "as fast with peer access as without: staged through the host, or a coincidence",
            _figures(unclear[0]),
            source,
            "the file has no latency of writes, which would tell: 9 us and more is staging",
            "send the whole output of the tool",
        )


def _slower(pairs: Sequence[Pair], severity: Severity, copies: Copies, source: str) -> Iterator[Diagnosis]:
    """Across host bridges it may be so by design: on Gen3 the way through the host's memory is no slower there."""
    if pairs:
        worst = min(pairs, key=_ratio)
        yield Diagnosis(
            severity,
            "slower",
            named(pairs, copies.places),
            "copies are slower with peer access than through the host"
            + (": these pairs lie across host bridges" if severity is Severity.NOTE else ""),
            _figures(worst),
            source,
            "the way between the GPUs leads through the root complex (access control), or over a slower line than the host's",
            "read ACSCtl of every bridge between them (lspci -vvv); compare with NCCL_P2P_DISABLE=1 (NVIDIA/nccl#814)",
        )


def _ratio(pair: Pair) -> float:
    return (pair.enabled or 0.0) / pair.disabled if pair.disabled else 1.0


def _direct(copies: Copies, rules: P2p) -> list[Pair]:
    """The pairs with a figure that nothing shows to be staged."""
    pairs = [pair for pair in copies.report.pairs if pair.enabled and pair.can is not False]
    return [pair for pair in pairs if path_of(pair, rules) in (DIRECT, None)]


def _both_ways(copies: Copies, rules: P2p, source: str) -> Iterator[Diagnosis]:
    if copies.halved:
        return
    found = [
        (pair, both) for pair in _direct(copies, rules)
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
    for pair in _direct(copies, rules):
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
        _figures(low[0]),
        source,
        f"{words}{'' if machine.classes else ', or its place in the tree: no topology tells'}",
        "read the link's generation and width while it is busy (LnkSta, nvidia-smi -q): idle GPUs drop to Gen1",
        _addresses(low, machine) if len(own) != 1 else tuple(filter(None, (machine.addresses.get(own[0], ""),))),
    )


def _below(pairs: Sequence[Pair]) -> list[Pair]:
    middle = median(pair.enabled or 0.0 for pair in pairs)
    return [pair for pair in pairs if (pair.enabled or 0.0) < LOW * middle]


def _asymmetric(copies: Copies, rules: P2p, source: str) -> Iterator[Diagnosis]:
    direct = {(pair.source, pair.target): pair for pair in _direct(copies, rules)}
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


def is_crowd(reading: Reading) -> bool:
    """True where all others at once are at least two."""
    return len({index for grid in reading.grids for pair in grid.cells for index in pair}) > 2


def _middle(rates: Sequence[float | None]) -> float | None:
    told = [rate for rate in rates if rate is not None]
    return median(told) if told else None


def _figures(pair: Pair) -> str:
    """All figures of a pair: one alone says nothing."""
    words = [f"{_speed(pair.enabled)} with, {_speed(pair.disabled)} without peer access"]
    words += [f"read {pair.pulled:g} GB/s"] if pair.pulled is not None else []
    words += [f"write latency {pair.write_us:g} us"] if pair.write_us is not None else []
    return ", ".join(words)


def _speed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} GB/s"


def _addresses(pairs: Sequence[Pair], machine: Machine) -> tuple[str, ...]:
    indexes = dict.fromkeys(index for pair in pairs for index in (pair.source, pair.target))
    return tuple(address for index in indexes if (address := machine.addresses.get(index, "")))
