"""The figures of each file in a few rows, each beside what it could be at most: a number alone says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.devices.gpu_reports.facts import Grid, HostRate, Quantity, Reading
from harness.procedures.gpu_analysis.machine import Machine
from harness.procedures.gpu_analysis.training import Run
from harness.units import number

_SHOWN = re.compile(r"resnet50/throughput|nccl-bw.*_busbw:0$|gpu-copy-bw")
_MOST = 40


@dataclass(frozen=True)
class Summary:
    """A small table: its file, a title with the units, the heads of its columns, rows of words."""

    source: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def of_copies(reading: Reading, machine: Machine) -> Iterator[Summary]:
    """Each table of copies by kind of pair: how many, smallest, middle, largest, ceiling, share of it."""
    rows = [row for grid in reading.grids for row in _rows(grid, machine)]
    rows += [
        (f"all others at once, {crowd.way}s", machine.label(crowd.index), "1", number(crowd.rate), "", "", "", "")
        for crowd in reading.crowds
    ]
    rows += [_host_row(rate, machine) for rate in reading.host_rates]
    if rows:
        heads = ("copies", "class", "pairs", "least", "median", "most", "ceiling", "median/ceiling")
        yield Summary(reading.source, f"{reading.tool.value}: GB/s, latencies in us", heads, tuple(rows))


def _host_row(rate: HostRate, machine: Machine) -> tuple[str, ...]:
    index = rate.index or 0
    limit = machine.host_ceiling(index)
    most = None if limit is None else float(limit.bounds[0])
    return (
        f"bandwidth {'from' if rate.to_gpu else 'to'} the host",
        machine.label(index),
        "1",
        *[number(rate.rate)] * 3,
        "unknown" if most is None else number(round(most, 2)),
        "" if most is None else f"{rate.rate / most:.0%}",
    )


def _rows(grid: Grid, machine: Machine) -> Iterator[tuple[str, ...]]:
    like: dict[str, list[float]] = {}
    ceilings: dict[str, set[float]] = {}
    for pair, value in grid.cells.items():
        kind = machine.classes.get(pair, "")
        like.setdefault(kind, []).append(value)
        limit = machine.ceiling(pair)
        if limit is not None:
            ceilings.setdefault(kind, set()).add(float(limit.bounds[0]))
    peers = {True: "with peer access", False: "without", None: ""}[grid.peers]
    for kind, values in sorted(like.items()):
        most = min(ceilings[kind]) * (2 if grid.quantity is Quantity.BOTH_WAYS else 1) if kind in ceilings else None
        if grid.quantity is Quantity.LATENCY:
            most = None
        middle = median(values)
        yield (
            f"{grid.quantity}, {grid.way}s, {peers}",
            kind or "?",
            str(len(values)),
            number(min(values)),
            number(round(middle, 2)),
            number(max(values)),
            "unknown" if most is None and grid.quantity is not Quantity.LATENCY else "" if most is None else number(round(most, 2)),
            "" if most is None else f"{middle / most:.0%}",
        )


def of_trainings(runs: Sequence[Run]) -> Iterator[Summary]:
    """A row for each log: software, total, per GPU, share of perfect scaling, spread of the windows."""
    rows = tuple(
        (
            str(run.report.identity) if run.training.precision else f"{run.report.identity} (precision not told)",
            str(run.training.count),
            "?" if run.training.rate is None else number(round(run.training.rate, 1)),
            "?" if run.training.per_gpu is None else number(round(run.training.per_gpu)),
            "?" if (share := efficiency_of(run)) is None else f"{share:.0%}",
            "?" if run.report.spread is None else f"{run.report.spread:.1f} %",
            run.reading.source,
        )
        for run in sorted(runs, key=lambda run: (str(run.report.identity), run.training.count, run.reading.source))
    )
    if rows:
        heads = ("ResNet-50 training", "GPUs", "images/s", "per GPU", "of perfect", "spread", "file")
        yield Summary("", "images/s as the tool gives them; spread of its windows", heads, rows)


def efficiency_of(run: Run) -> float | None:
    """The tool's total over as many times the solo run of the same software: 1 is perfect."""
    alone = run.report.median_solo
    return None if run.training.per_gpu is None or not alone else run.training.per_gpu / alone


def of_collectives(readings: Sequence[Reading]) -> Iterator[Summary]:
    """A row for each run of nccl-tests: its largest size, the best bus bandwidth, wrong values."""
    rows = []
    for reading in readings:
        run = reading.collective
        if run is None:
            continue
        largest = max(run.rows, key=lambda row: row.size, default=None)
        wrong = "not compared" if run.validated is False else "?" if run.wrong is None else str(run.wrong)
        rows.append(
            (
                run.name or "collective",
                str(len(run.ranks)),
                "?" if largest is None else str(largest.size),
                "?" if largest is None else number(largest.best),
                "?" if run.average is None else number(run.average),
                wrong,
                "yes" if run.ended else "no",
                reading.source,
            )
        )
    if rows:
        heads = ("nccl-tests", "ranks", "largest bytes", "its busbw", "mean busbw", "wrong", "ended", "file")
        yield Summary("", "bus bandwidth in GB/s", heads, tuple(rows))


def of_verdicts(reading: Reading) -> Iterator[Summary]:
    """How the tests of a diagnostic ended, by test; the GPUs of gpu-burn; the nodes of SuperBench."""
    tests: dict[tuple[str, str], list[str]] = {}
    for check in reading.checks:
        if check.name:
            tests.setdefault((check.suite, check.name), []).append(check.status.value)
    rows = [
        (suite, name, ", ".join(f"{statuses.count(each)} {each}" for each in dict.fromkeys(statuses)))
        for (suite, name), statuses in tests.items()
    ]
    if rows:
        yield Summary(reading.source, f"{reading.tool.value}: how each test ended", ("suite", "test", "results"), tuple(rows))
    burned = [
        (f"GPU {burn.index}", burn.verdict or "none", "?" if burn.work is None else str(burn.work), burn.errors or "?")
        for burn in reading.burns
    ]
    if burned:
        yield Summary(reading.source, "gpu-burn", ("GPU", "verdict", "work done", "errors"), tuple(burned))
    nodes = [(node.node, node.category or "nothing found", str(len(node.metrics))) for node in reading.nodes]
    if nodes:
        yield Summary(reading.source, reading.tool.value, ("node", "verdict", "metrics"), tuple(nodes))
    shown = [
        (node.node, name, number(value)) for node in reading.nodes for name, value in node.metrics.items() if _SHOWN.search(name)
    ]
    if shown:
        yield Summary(
            reading.source, "its figures that the stages know, not judged", ("node", "metric", "value"), tuple(shown[:_MOST])
        )
    if reading.monitor is not None and reading.monitor.temperatures:
        hot = tuple((f"GPU {gpu}", f"{degrees} C") for gpu, degrees in sorted(reading.monitor.temperatures.items()))
        yield Summary(reading.source, f"highest of {reading.monitor.samples} samples", ("GPU", "temperature"), hot)
