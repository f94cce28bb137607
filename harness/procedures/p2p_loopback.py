"""Judging copies of a GPU within its own memory. They are no peer-to-peer copies and prove none; one GPU alone can do no others."""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.p2p import Report
from harness.limits import Limit, Outcome, at_least
from harness.procedures.finding import Finding, taken
from harness.procedures.places import Place

_SOME = at_least(0.001, "GB/s")
"""Any bandwidth at all: nobody has published what a healthy one is."""

_WITHIN = "within the GPU's own memory: no link, no peer"


def judge_loopback(report: Report, places: Mapping[int, Place], index: int, limit: Limit) -> Finding:
    """Does the GPU copy its own memory to the last byte?"""
    slot = places[index].slot
    found = next((entry for entry in report.loopbacks if entry.index == index), None)
    if found is None or found.untried or not found.checked:
        why = found.untried if found is not None and found.untried else "the worker copied nothing within it"
        return Finding(unmeasured=f"{slot}: {why}")
    measurements = (
        taken("p2p.loopback-bad-bytes", found.bad, slot, limit, note=f"{found.checked} bytes {_WITHIN}"),
        taken("p2p.loopback", found.rate, slot, _SOME, note=_WITHIN),
    )
    if measurements[0].outcome is not Outcome.FAIL:
        return Finding(measurements)
    wrong = found.wrong
    where = "" if wrong is None else f", class {wrong.damage.value}, first at offset {wrong.first:#x}, last at {wrong.last:#x}"
    return Finding(
        measurements,
        f"DATA CORRUPTION within {slot}: do not use\n  {found.bad} wrong bytes of {found.checked}{where}\n"
        "  no link and no other GPU took part, so it is this GPU: its memory or its copy engine. See gpu.ecc, then swap the card",
    )
