"""What the bad pairs of a peer-to-peer matrix have in common, and so which part to look at.

    one pair                      those two GPUs, or the way between them
    a row and a column            that GPU's link
    a row only, a column only     its sending side, its receiving side
    all across one pair of uplinks, or all below one switch
    else                          no part in common

The patterns are those that public reports of slow or corrupt matrices show (nccl#667: only pairs below one switch; nccl#814 and
cuda-samples#390: all pairs; voipmonitor/rtx6kpro: only pairs across an uplink at a lower generation).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from harness.devices.p2p import Pair, Report
from harness.procedures.places import Place

LOW = 0.75
"""A pair is called slow below so much of the median of its like: only to explain, never to fail."""

_MOST = 0.75


def name_pair(source: int, target: int, places: Mapping[int, Place]) -> str:
    """``jbogA/slot04 -> jbogB/slot06``."""
    return f"{_name(source, places)} -> {_name(target, places)}"


def common_ground(pairs: Sequence[Pair], report: Report, places: Mapping[int, Place]) -> str:
    """What ``pairs`` share, in words."""
    if len(pairs) == 1:
        return _way(pairs[0], report, places)
    centre = _centre(pairs)
    return _around(centre, pairs, report, places) if centre is not None else _between(pairs, report, places)


def slow_pairs(report: Report) -> tuple[Pair, ...]:
    """The pairs well below the median of their like: same kind of link, same relation (one switch, or across)."""
    like: dict[tuple[str, bool], list[Pair]] = {}
    for pair in report.pairs:
        if pair.best_enabled is not None:
            like.setdefault((pair.link, _same_group(pair, report)), []).append(pair)
    found = []
    for pairs in like.values():
        middle = median(pair.best_enabled or 0.0 for pair in pairs)
        found += [pair for pair in pairs if (pair.best_enabled or 0.0) < LOW * middle]
    return tuple(found)


def count_of(number: int, noun: str) -> str:
    """``1 pair``, ``2 pairs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(index: int, places: Mapping[int, Place]) -> str:
    return places[index].slot if index in places else f"GPU {index}"


def _chassis(index: int, report: Report, places: Mapping[int, Place]) -> str:
    """The uplink's name, else the shared bridge's address."""
    if index in places and places[index].uplink:
        return places[index].uplink
    gpu = report.gpu(index)
    return gpu.group if gpu is not None and gpu.group else "an unknown switch"


def _same_group(pair: Pair, report: Report) -> bool:
    source, target = report.gpu(pair.source), report.gpu(pair.target)
    return source is not None and target is not None and source.group == target.group


def _way(pair: Pair, report: Report, places: Mapping[int, Place]) -> str:
    near, far = _chassis(pair.source, report, places), _chassis(pair.target, report, places)
    return f"both below one switch, {near}" if near == far else f"the way leads over the uplinks of {near} and {far}"


def _centre(pairs: Collection[Pair]) -> int | None:
    """The one GPU that every pair has at one of its ends."""
    shared = set.intersection(*({pair.source, pair.target} for pair in pairs)) if pairs else set()
    return min(shared) if len(shared) == 1 else None


def _around(centre: int, pairs: Sequence[Pair], report: Report, places: Mapping[int, Place]) -> str:
    """What one GPU's bad pairs are: a row, a column, or both."""
    name = _name(centre, places)
    out, into = sum(pair.source == centre for pair in pairs), sum(pair.target == centre for pair in pairs)
    row = sum(pair.source == centre for pair in report.tried)
    column = sum(pair.target == centre for pair in report.tried)
    if not into:
        return f"all from {name}: its sending side ({out} of {row} targets)"
    if not out:
        return f"all to {name}: its receiving side ({into} of {column} sources)"
    if out >= _MOST * row and into >= _MOST * column:
        return f"all copies from and to {name}: its link"
    return f"all from or to {name}"


def _between(pairs: Sequence[Pair], report: Report, places: Mapping[int, Place]) -> str:
    """What pairs of several GPUs share: a switch, or the way between two."""
    ends = {(_chassis(pair.source, report, places), _chassis(pair.target, report, places)) for pair in pairs}
    sides = sorted({side for end in ends for side in end})
    if len(sides) == 1:
        return f"all below one switch, {sides[0]}"
    if len(sides) == 2 and all(source != target for source, target in ends):
        return f"all across the uplinks of {sides[0]} and {sides[1]}"
    return f"no part in common among {count_of(len(pairs), 'pair')}"
