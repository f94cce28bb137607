"""A measurement: a value with its limit, judged once and never changed."""

from __future__ import annotations

from dataclasses import dataclass

from harness.limits import Limit, Outcome, Value
from harness.part import Part
from harness.units import amount


@dataclass(frozen=True)
class Measurement:
    """One measured value.

    ``value`` is a number in ``unit``, a word, or None where it could not be read. ``limit`` is None for a value that is
    recorded and not judged. ``at`` is the clock's time in seconds. ``note`` says why a value is missing.
    """

    name: str
    value: Value | None
    unit: str = ""
    limit: Limit | None = None
    part: Part | None = None
    at: float = 0.0
    note: str = ""

    @property
    def outcome(self) -> Outcome:
        """How the value stands to its limit."""
        if self.limit is not None:
            return self.limit.judge(self.value)
        return Outcome.NOT_MEASURED if self.value is None else Outcome.RECORDED

    @property
    def margin(self) -> float | None:
        """Distance to the nearest bound of the limit, positive inside."""
        return None if self.limit is None else self.limit.margin(self.value)

    def __str__(self) -> str:
        where = f"{self.part} " if self.part else ""
        if self.value is None:
            shown = f"not measured{f': {self.note}' if self.note else ''}"
        elif isinstance(self.value, str | bool):
            shown = str(self.value)
        else:
            (figure,), unit = amount(self.value, unit=self.unit)
            shown = f"{figure} {unit}".rstrip()
        limit = f"  [{self.limit}]" if self.limit is not None else ""
        return f"{where}{self.name} = {shown}{limit}  {self.outcome.value.upper()}"
