"""Which slot a PCI address is, what hangs on which uplink, and how what was measured of a place turned out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.limits import Outcome
from harness.record.entries import MeasurementRecord, Record
from harness.report.exhibits import exhibit, objects, text

_GRAVITY = (Outcome.RECORDED, Outcome.PASS, Outcome.NOT_MEASURED, Outcome.MARGINAL, Outcome.FAIL)


def slots_by_address(record: Record) -> Mapping[str, str]:
    """Slots by the address of the part in them, by what measurements and the tree tell."""
    tree = exhibit(record, "pcie") or {}
    paths = {text(function, "path"): text(function, "bdf") for function in objects(tree, "tree")}
    found = {paths[path]: text(slot, "slot") for slot in objects(tree, "slots") if (path := text(slot, "path")) in paths}
    for measurement in record.measurements:
        if measurement.part is not None and measurement.part.address:
            found[measurement.part.address] = measurement.part.slot
    return found


def uplinks_by_slot(record: Record) -> Mapping[str, str]:
    """The uplink that a slot is behind; where none is recorded, its chassis."""
    return {text(slot, "slot"): text(slot, "uplink") for slot in objects(exhibit(record, "pcie") or {}, "slots")}


def chassis(slot: str, uplinks: Mapping[str, str]) -> str:
    """What a slot shares its uplink with."""
    return uplinks.get(slot) or slot.rpartition("/")[0]


def short(slot: str) -> str:
    """The slot without its chassis: ``07``."""
    return slot.rpartition("/")[2].removeprefix("slot")


def worst(measurements: Iterable[MeasurementRecord]) -> Outcome | None:
    """The gravest outcome, None where nothing was measured."""
    return max((measurement.outcome for measurement in measurements), key=_GRAVITY.index, default=None)
