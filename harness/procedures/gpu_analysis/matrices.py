"""What the tables of copies between pairs show, in the order in which it matters.

    the driver rules the pair out             no peer access: whatever figure stands there went through the host
    cell above the link's ceiling             invalid: the copy did not happen as timed
    no faster with peer access, and late      silently staged through the host
    slower with peer access                   the way between the GPUs is worse than that through the host

Only the first three fail: so they do in the p2p stage. What else the tables show stands in ``patterns``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.devices.gpu import Peering
from harness.devices.gpu_reports.facts import Reading
from harness.devices.p2p import Pair, Report
from harness.limits import Outcome
from harness.platform import P2p
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu_analysis.copies import Copies, addresses_of, copies_of, figures_of, named, shared_by
from harness.procedures.gpu_analysis.machine import FAR, Machine
from harness.procedures.gpu_analysis.patterns import judge_patterns
from harness.procedures.p2p import STAGED, judge_path, path_of
from harness.procedures.p2p_patterns import count_of


def judge_copies(reading: Reading, machine: Machine, rules: P2p) -> Iterator[Diagnosis]:
    """Every finding about one tool's tables."""
    copies = copies_of(reading, machine)
    yield from _ruled_out(copies, machine, rules, reading.source)
    yield from _impossible(copies, machine, reading.source)
    yield from _paths(copies, machine, rules, reading.source)
    yield from judge_patterns(reading, copies, machine, rules)


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
        addresses_of(found, machine),
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
            figures_of(worst),
            source,
            "the copy did not happen as timed: writes that do not land cost no time",
            "compare bytes before anything else: run the p2p stage, with the IOMMU off or in pass-through",
            addresses_of(over, machine),
        )
    if bridged:
        worst = max(bridged, key=_fastest)
        yield Diagnosis(
            Severity.WARN,
            "ceiling",
            named(bridged, copies.places),
            f"{_fastest(worst):g} GB/s is more than PCIe can carry ({machine.ceiling((worst.source, worst.target))})",
            figures_of(worst),
            source,
            "right only where an NVLink bridge joins these two",
            "add nvidia-smi topo -m, which shows bridges",
            addresses_of(bridged, machine),
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
            figures_of(staged[0]),
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
            figures_of(unclear[0]),
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
            figures_of(worst),
            source,
            "the way between the GPUs leads through the root complex (access control), or over a slower line than the host's",
            "read ACSCtl of every bridge between them (lspci -vvv); compare with NCCL_P2P_DISABLE=1 (NVIDIA/nccl#814)",
        )


def _ratio(pair: Pair) -> float:
    return (pair.enabled or 0.0) / pair.disabled if pair.disabled else 1.0
