"""Judging the shifts: every GPU copies to the k-th next at once, first writing, then reading.

Writes that are far slower than reads in such a crowd, and only there, are posted writes that block each other in a switch or root
port; it takes several that leave one switch at once (voipmonitor/rtx6kpro).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.p2p import Report, Shift
from harness.limits import Limit, Outcome
from harness.measurement import Measurement
from harness.procedures.finding import taken
from harness.procedures.places import Place


def judge_shifts(
    report: Report, places: Mapping[int, Place], uplink: str, limit: Limit
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The worst shift over an uplink, and the picture of all of them where it fails. Nothing where the worker tried none."""
    own = [shift for shift in report.shifts if _uplink_of(shift, report, places) == uplink]
    crowded = [shift for shift in own if shift.copies > 1]
    if not crowded:
        return (), ()
    known = [(shift.ratio, shift) for shift in crowded if shift.ratio is not None]
    if len(known) < len(crowded):
        missing = ", ".join(f"+{shift.by}" for shift in crowded if shift.ratio is None)
        return (taken("p2p.contention.shift", None, uplink, limit, note=f"no figures of {missing}"),), ()
    ratio, worst = min(known, key=lambda entry: entry[0])
    note = f"writes over reads, worst at +{worst.by}: {worst.write:g} and {worst.read:g} GB/s for {worst.copies} GPUs at once"
    measured = taken("p2p.contention.shift", ratio, uplink, limit, note=note)
    if measured.outcome is not Outcome.FAIL:
        return (measured,), ()
    picture = ", ".join(f"+{shift.by} {shift.write:g}/{shift.read:g}" for shift in own)
    return (measured,), (f"{uplink}: every GPU to the k-th next at once, written/read GB/s over the uplink: {picture}",)


def _uplink_of(shift: Shift, report: Report, places: Mapping[int, Place]) -> str:
    """The uplink above a switch: that of its GPUs."""
    return next((places[gpu.index].uplink for gpu in report.gpus if gpu.group == shift.group and gpu.index in places), "")
