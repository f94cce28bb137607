"""The grid of stages and slots: which GPU is broken, at a glance.

             whole machine   jbogA 01 02 03 ...   jbogB 01 02 ...
pcie               ✓               ✓  ✓  ✗               ✓  ✓
gpu                ✓               ✓  ✓  ⊘               ✓  ✓
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from harness.limits import Outcome
from harness.record.entries import CaseRecord, Record
from harness.record.lines import CaseOutcome


class Mark(IntEnum):
    """What stands in a cell: the gravest of what its cases say."""

    NO_CASE = 0
    NOT_APPLICABLE = 1
    PASSED = 2
    MARGINAL = 3
    WAIVED = 4
    NOT_REACHED = 5
    BLOCKED = 6
    NOT_MEASURED = 7
    FAILED = 8

    @property
    def glyph(self) -> str:
        """One character that says it without colour."""
        return " ○✓~w…⊘?✗"[self]

    @property
    def words(self) -> str:
        """What the glyph means."""
        return self.name.lower().replace("_", " ")


_OF_OUTCOME = {
    CaseOutcome.PASSED: Mark.PASSED,
    CaseOutcome.FAILED: Mark.FAILED,
    CaseOutcome.ERROR: Mark.FAILED,
    CaseOutcome.BLOCKED: Mark.BLOCKED,
    CaseOutcome.NOT_MEASURED: Mark.NOT_MEASURED,
    CaseOutcome.NOT_APPLICABLE: Mark.NOT_APPLICABLE,
    CaseOutcome.WAIVED: Mark.WAIVED,
}


@dataclass(frozen=True)
class Cell:
    """One stage in one slot; ``checks`` names the checks that gave it its mark."""

    mark: Mark
    slot: str
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A stage: its cases for the whole machine, then a cell for each slot of the grid."""

    stage: str
    machine: Cell
    cells: tuple[Cell, ...]

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """The machine's cell and the slots'."""
        return (self.machine, *self.cells)


@dataclass(frozen=True)
class Grid:
    """``chassis`` are (name, labels of its slots) in the order of the cells; ``slots`` the full names."""

    chassis: tuple[tuple[str, tuple[str, ...]], ...]
    slots: tuple[str, ...]
    rows: tuple[Row, ...]


def build_grid(record: Record) -> Grid:
    """The grid of a record, its slots in natural order; a record without slots has only the machine's column."""
    marks: dict[tuple[str, str], dict[Mark, list[str]]] = {}
    for case in record.cases:
        marks.setdefault((case.stage, case.slot or ""), {}).setdefault(_mark(record, case), []).append(case.check)
    for plan in record.unreached:
        marks.setdefault((plan.stage, plan.slot or ""), {}).setdefault(Mark.NOT_REACHED, []).append(plan.check)
    named = {slot for _, slot in marks if slot} | {slot for stage in record.stages for slot in stage.lost}
    slots = sorted(named, key=natural)
    chassis = groupby(slots, key=lambda slot: slot.rpartition("/")[0])
    return Grid(
        chassis=tuple((name, tuple(_label(slot) for slot in inside)) for name, inside in chassis),
        slots=tuple(slots),
        rows=tuple(
            Row(stage, _cell(marks.get((stage, ""), {}), ""), tuple(_cell(marks.get((stage, slot), {}), slot) for slot in slots))
            for stage in record.stage_names
        ),
    )


def _mark(record: Record, case: CaseRecord) -> Mark:
    mark = _OF_OUTCOME[case.outcome]
    marginal = any(measurement.outcome == Outcome.MARGINAL for measurement in record.by_case.get(case.id, ()))
    return Mark.MARGINAL if mark is Mark.PASSED and marginal else mark


def _cell(marks: dict[Mark, list[str]], slot: str) -> Cell:
    mark = max(marks, default=Mark.NO_CASE)
    return Cell(mark, slot, tuple(marks.get(mark, ())))


def natural(slot: str) -> list[tuple[bool, int, str]]:
    """The key of an order with slot2 before slot10."""
    return [(piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in re.split(r"(\d+)", slot)]


def _label(slot: str) -> str:
    return slot.rpartition("/")[2].removeprefix("slot")
