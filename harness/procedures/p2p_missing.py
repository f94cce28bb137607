"""Copies that were not made, and why: what is missing is not a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.devices.p2p import Pair, Report
from harness.procedures.p2p_patterns import count_of, name_pair
from harness.procedures.places import Place


def missing_from(report: Report, places: Mapping[int, Place], index: int) -> tuple[str, ...]:
    """Where the GPU's copies were not all made and compared in full: what is missing is not a pass.

    A pair with a GPU that hung or fell off the bus is left out: ``judge_watchdog`` judges that one.
    """
    out_of_it = {wedge.source for wedge in report.wedged} | {wedge.target for wedge in report.wedged}
    out_of_it |= {gpu.index for gpu in report.gpus if gpu.error}
    made = {pair.target: pair for pair in report.pairs if pair.source == index}
    missing = []
    for target in sorted(places):
        if target == index or target in out_of_it or index in out_of_it:
            continue
        name, pair = name_pair(index, target, places), made.get(target)
        if pair is None:
            missing.append(f"{name}: the worker says nothing of it")
        elif pair.untried:
            missing.append(f"{name}: {pair.untried}")
        elif not pair.error and 0 < pair.checked < report.size:
            missing.append(f"{name}: only {pair.checked} of {report.size} bytes were compared")
    return tuple(missing)


def untried(pairs: Sequence[Pair], slot: str) -> str:
    """Why there is no copy from the GPU in a slot at all."""
    reasons = sorted({pair.why_missing for pair in pairs})
    return f"{slot}: no copy from it: {'; '.join(reasons) or 'the worker has no pair of it'}"


def why_no_contention(places: Mapping[int, Place], uplink: str) -> str:
    """Why several GPUs cannot use an uplink at once, or nothing: it takes two behind it, and two behind another one."""
    behind = Counter(place.uplink for place in places.values() if place.uplink)
    if behind[uplink] < 2:
        return f"{uplink}: {count_of(behind[uplink], 'GPU')} behind it; it takes two to use it at once"
    if not any(count >= 2 for other, count in behind.items() if other != uplink):
        return f"{uplink}: no other uplink has two GPUs behind it, so several cannot copy across it at once"
    return ""
