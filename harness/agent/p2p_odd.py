"""Which copies look odd, and so are made again with nothing else running: pure, from figures alone.

corrupt     wrong bytes
low         below nine tenths of the median of its like: same kind of link, below one switch or across
too fast    more than the slower of the two links can carry: it did not happen as timed
staged      no faster than through the host, and as late as only the host's memory explains
short       both ways at once clearly less than twice as fast as one
"""

import statistics
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .p2p_schedule import Copy

_LOW, _STAGED_RATIO, _STAGED_LATENCY = 0.9, 1.05, 9.0
_TWICE = 1.8
_LANE = {1: 2.5 * 0.8, 2: 5.0 * 0.8, 3: 8.0 * 128 / 130, 4: 16.0 * 128 / 130, 5: 32.0 * 128 / 130}
"""Gbit/s of one lane by generation, after line coding (PCI Express Base Specification)."""

Uplinks = Mapping[int, Optional[Sequence[str]]]


def odd_copies(
    pairs: Mapping[Copy, Dict[str, Any]], uplinks: Uplinks, best: Mapping[int, Tuple[int, int]], nvlink: Set[Copy]
) -> List[Copy]:
    """The odd ones among ``pairs``. ``best`` is the best generation and width of each GPU's link."""
    rates: Dict[Tuple[bool, bool], List[float]] = {}
    for copy, line in pairs.items():
        if line.get("enabled"):
            rates.setdefault(kind_of(copy, uplinks, nvlink), []).append(line["enabled"])
    middle = {kind: statistics.median(found) for kind, found in rates.items()}
    odd = []
    for copy, line in sorted(pairs.items()):
        rate = line.get("enabled")
        if rate is None:
            continue
        low = min(rate, line.get("pulled") or rate) < _LOW * middle.get(kind_of(copy, uplinks, nvlink), 0.0)
        too_fast = copy not in nvlink and rate > ceiling(copy, best)
        if line["bad"] or low or too_fast or _is_staged(line):
            odd.append(copy)
    return odd


def ceiling(copy: Copy, best: Mapping[int, Tuple[int, int]]) -> float:
    """GB/s that the slower of the two links can carry at best; infinite where NVML does not tell."""
    ends = [best[gpu] for gpu in copy if gpu in best and best[gpu][0] in _LANE]
    return min([_LANE[generation] * width / 8 for generation, width in ends] or [float("inf")])


def _is_staged(line: Mapping[str, Any]) -> bool:
    through_host = line.get("disabled")
    if through_host is None or line.get("write_us") is None:
        return False
    return bool(line["enabled"] <= _STAGED_RATIO * through_host and line["write_us"] >= _STAGED_LATENCY)


def is_short(pair: Copy, both: float, pairs: Mapping[Copy, Dict[str, Any]]) -> bool:
    """Do both ways at once give clearly less than twice the slower one, so that company may have lowered them?"""
    lines = [pairs.get(copy, {}) for copy in (pair, (pair[1], pair[0]))]
    rates = [line.get("alone", line).get("enabled") for line in lines]
    known = [rate for rate in rates if rate]
    return bool(known) and both < _TWICE * min(known)


def kind_of(copy: Copy, uplinks: Uplinks, nvlink: Set[Copy]) -> Tuple[bool, bool]:
    """What is alike in two copies whose rates are compared: the kind of link, and whether both ends are below one switch."""
    one, other = uplinks[copy[0]], uplinks[copy[1]]
    return copy in nvlink, bool(one and other and one[0] == other[0])
