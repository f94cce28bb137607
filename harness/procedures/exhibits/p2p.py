"""The copies between all GPUs: three figures for each ordered pair, in the order of the list of GPUs."""

from __future__ import annotations

from typing import Any

from harness.devices.p2p import Pair, Report
from harness.procedures.exhibits.bounds import shortened

_MOST_GPUS = 64


def show_p2p(report: Report) -> dict[str, Any]:
    """``gpus`` are (address, uuid); ``pairs`` (from, to, GB/s with peer access, us of a write, wrong bytes, note) by their places.

    A figure that was not measured is null, and the note says why; ``links`` are (place, generation, width) under load.
    """
    chosen = report.gpus[:_MOST_GPUS]
    place = {gpu.index: number for number, gpu in enumerate(chosen)}
    pairs = [pair for pair in report.pairs if pair.source in place and pair.target in place]
    return {
        "gpus": [[gpu.address, gpu.uuid] for gpu in chosen],
        "pairs": [_pair(pair, place[pair.source], place[pair.target]) for pair in pairs],
        "links": [[place[link.index], link.generation, link.width] for link in report.links if link.index in place],
        "refused": shortened(report.refused),
    }


def _pair(pair: Pair, source: int, target: int) -> list[Any]:
    missing = pair.worst_bad is None or pair.best_enabled is None
    note = shortened(pair.why_missing) if missing else str(pair.wrong.damage) if pair.wrong is not None else ""
    return [source, target, _figure(pair.best_enabled), _figure(pair.write_us), pair.worst_bad, note]


def _figure(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
