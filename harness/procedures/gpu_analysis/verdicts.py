"""What other tools say themselves: diagnostics, stress tests, SuperBench. A skip of theirs is no pass, an OK needs work done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median

from harness.devices.gpu_reports.facts import Check, Monitor, NodeResult, Reading, Status, Tool
from harness.devices.pcie import Unread
from harness.limits import Outcome
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu_analysis.machine import Machine
from harness.procedures.p2p_patterns import count_of
from harness.units import number

_ALIKE = 0.2
"""Ranks that are this near to the middle, as a share of it, agree."""
_FEWEST = 4


def judge_verdicts(reading: Reading) -> Iterator[Diagnosis]:
    """What a tool found itself, and where its own OK cannot be believed."""
    yield from _checks(reading)
    yield from _burns(reading)
    yield from _nodes(reading)
    if reading.monitor is not None:
        yield from _monitor(reading.monitor, reading.source)


def judge_host_rates(reading: Reading, machine: Machine) -> Iterator[Diagnosis]:
    """Copies between host and GPU that are faster than the GPU's link."""
    for rate in reading.host_rates:
        index = rate.index if rate.index is not None else 0
        # NVLink never leads to the host here, but a topology is not needed to know the GPU's own link
        ceiling = machine.host_ceiling(index)
        if ceiling is not None and ceiling.judge(rate.rate) is Outcome.FAIL:
            yield Diagnosis(
                Severity.FAIL,
                "ceiling",
                machine.label(index),
                f"{rate.rate:g} GB/s {'from' if rate.to_gpu else 'to'} the host, where its link can carry {ceiling}: invalid",
                "",
                reading.source,
                "the copy did not happen as timed, or the link is another one than its name tells",
                "compare bytes, and read the link in nvidia-smi -q",
            )


def gaps_of(reading: Reading) -> Iterator[Unread]:
    """Tests that were left out, with the tool's reason."""
    skipped = [check for check in reading.checks if check.status in (Status.SKIP, Status.OTHER) and check.name]
    for (suite, name), checks in groupby(skipped, key=lambda check: (check.suite, check.name)):
        listed = list(checks)
        parts = ", ".join(check.part for check in listed if check.part)
        word = "was skipped" if listed[0].status is Status.SKIP else "gave no result"
        yield Unread(
            f"{suite} {name}{f' on {parts}' if parts else ''}",
            f"it {word}: {listed[0].words or 'no reason given'}; a skip is no pass",
        )
    unnamed = sum(check.status is Status.SKIP and not check.name for check in reading.checks)
    if unnamed:
        yield Unread(f"{reading.source}: {unnamed} tests", "they were waived: no peer access, or one GPU only; a skip is no pass")
    if reading.tool in (Tool.SUPERBENCH, Tool.SUPERBENCH_SUMMARY):
        yield Unread(
            f"{reading.source}: its throughputs",
            "SuperBench trains with small batches and waits after every step: no floor is for that",
            "run the resnet50 stage",
        )


def _checks(reading: Reading) -> Iterator[Diagnosis]:
    for status, severity in ((Status.FAIL, Severity.FAIL), (Status.WARN, Severity.WARN)):
        bad = [check for check in reading.checks if check.status is status]
        for (suite, name), checks in groupby(bad, key=lambda check: (check.suite, check.name)):
            listed = list(checks)
            yield Diagnosis(
                severity,
                "diagnostic",
                _parts(listed) or reading.tool.value,
                f"{suite} {name}: {status.value} on {len(listed)} of {_tested(reading.checks, suite, name)}",
                listed[0].words,
                reading.source,
                "the diagnostic's own threshold, which may be another card's"
                if "stress level" in listed[0].words
                else "see its words",
                "run this test alone on these GPUs; compare with their like",
                then=tuple(check.words for check in listed[1:4] if check.words),
            )


def _parts(checks: Sequence[Check]) -> str:
    return ", ".join(dict.fromkeys(check.part for check in checks if check.part))


def _tested(checks: Iterable[Check], suite: str, name: str) -> int:
    return sum((check.suite, check.name) == (suite, name) for check in checks)


def _burns(reading: Reading) -> Iterator[Diagnosis]:
    for burn in reading.burns:
        where = f"GPU {burn.index}"
        if burn.died:
            yield Diagnosis(
                Severity.FAIL,
                "burn",
                where,
                "the process that burned it died",
                burn.errors,
                reading.source,
                "the GPU fell off the bus, or its driver gave up",
                "read the kernel log for an Xid",
            )
        elif burn.verdict == "FAULTY":
            yield Diagnosis(
                Severity.FAIL,
                "burn",
                where,
                "gpu-burn found wrong results; its exit status says nothing of it",
                "FAULTY",
                reading.source,
                "memory or arithmetic of this GPU, heat or power",
                "swap it with a neighbour and see what follows",
            )
        elif burn.work == 0:
            yield Diagnosis(
                Severity.FAIL,
                "burn",
                where,
                f"gpu-burn calls it {burn.verdict or 'nothing'} and had computed nothing on it",
                "proc'd: 0 (0 Gflop/s)",
                reading.source,
                "cuBLAS did not start on it, or all its memory was taken",
                "read what gpu-burn says at its start; a pass needs proof of work",
            )
        elif not burn.verdict:
            yield Diagnosis(
                Severity.WARN,
                "burn",
                where,
                "gpu-burn came to no verdict on it",
                "",
                reading.source,
                "it was stopped, or hung",
                "run it to its end",
            )


def _nodes(reading: Reading) -> Iterator[Diagnosis]:
    for node in reading.nodes:
        if node.category:
            first = node.issues[0] if node.issues else ""
            yield Diagnosis(
                Severity.FAIL,
                "superbench",
                node.node,
                f"SuperBench does not accept it: {node.category}, {count_of(len(node.issues), 'finding')}",
                first,
                reading.source,
                "its own rules against its own baseline",
                "run the named benchmark alone on this node",
                then=node.issues[1:4],
            )
            continue
        yield from _odd_ranks(node, reading.source)
        failed = [name for name, value in node.metrics.items() if name.rsplit("/", 1)[-1].startswith("return_code") and value != 0]
        if failed:
            quote = ", ".join(f"{name} {node.metrics[name]:g}" for name in failed[:4])
            yield Diagnosis(
                Severity.FAIL,
                "superbench",
                node.node,
                f"{count_of(len(failed), 'benchmark')} ended with an error",
                quote,
                reading.source,
                "the benchmark failed, so its figures are missing",
                "run it alone on this node and read its log",
            )


def _odd_ranks(node: NodeResult, source: str) -> Iterator[Diagnosis]:
    """One rank far from the others, which agree among themselves: a part, not the software."""
    families: dict[str, dict[str, float]] = {}
    for name, value in node.metrics.items():
        family, colon, rank = name.rpartition(":")
        if colon and rank.isdigit():
            families.setdefault(family, {})[rank] = value
    for family, ranks in families.items():
        middle = median(ranks.values())
        odd = [rank for rank, value in ranks.items() if abs(value - middle) > _ALIKE * abs(middle)]
        if len(ranks) >= _FEWEST and len(odd) == 1 and abs(ranks[odd[0]] - middle) > abs(middle) / 2:
            yield Diagnosis(
                Severity.WARN,
                "odd-rank",
                f"{node.node} rank {odd[0]}",
                f"{family} is {number(ranks[odd[0]])}, and {number(middle)} in the middle of {len(ranks)} ranks that else agree",
                "",
                source,
                "this GPU, its link or its processor",
                "run this benchmark again on this node; look at the GPU if the same rank stands out",
            )


def _monitor(monitor: Monitor, source: str) -> Iterator[Diagnosis]:
    for gpu, (first, last) in monitor.uncorrected.items():
        if last:
            yield Diagnosis(
                Severity.FAIL,
                "ecc",
                f"GPU {gpu}",
                f"{count_of(last, 'memory error')} that could not be corrected, {last - first} of them meanwhile",
                "",
                source,
                "bad memory",
                "reset the GPU, test its memory, replace it if they come back",
            )
    for gpu, (first, last) in monitor.corrected.items():
        if last > first:
            yield Diagnosis(
                Severity.WARN,
                "ecc",
                f"GPU {gpu}",
                f"{last - first} errors of memory were corrected meanwhile",
                "",
                source,
                "a weak cell, or radiation",
                "watch the count",
            )
