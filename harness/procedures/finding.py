"""What a judging function found: values with their limits, and what a person should read beside the table of violated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from harness.errors import BenchError, NotMeasured
from harness.limits import Limit, Outcome, Value
from harness.measurement import Measurement
from harness.part import Part


class Records(Protocol):
    """What the ``measure`` fixture of a suite does."""

    def __call__(
        self, name: str, value: Value | None, *, limit: Limit | None = None, unit: str = "", part: str | None = None, note: str = ""
    ) -> object:
        """Record one value."""


@dataclass(frozen=True)
class Finding:
    """The judgement of one case.

    ``explanation`` is empty unless the product is at fault, ``bench`` unless the set-up is; ``unmeasured`` says what could not
    be judged at all.
    """

    measurements: tuple[Measurement, ...] = ()
    explanation: str = ""
    bench: str = ""
    unmeasured: str = ""

    def record(self, measure: Records) -> None:
        """Record every measurement, then say what is wrong.

        Raises AssertionError with the explanation, BenchError, or NotMeasured, in this order; nothing where all is well, or
        where a violated limit says it.
        """
        for taken in self.measurements:
            part = None if taken.part is None else taken.part.slot
            measure(taken.name, taken.value, limit=taken.limit, unit=taken.unit, part=part, note=taken.note)
        if self.explanation:
            raise AssertionError(self.explanation)
        if any(taken.outcome is Outcome.FAIL for taken in self.measurements):
            return
        if self.bench:
            raise BenchError(self.bench)
        if self.unmeasured:
            raise NotMeasured(self.unmeasured)


def taken(name: str, value: Value | None, part: str, limit: Limit | None = None, *, unit: str = "", note: str = "") -> Measurement:
    """One measurement of a part named by its slot; the unit is the limit's unless given."""
    about = Part(part) if part else None
    return Measurement(name, value, unit or (limit.unit if limit is not None else ""), limit, about, note=note)
