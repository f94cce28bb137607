"""The ``measure`` fixture: record at once, judge once at the end of the test."""

from __future__ import annotations

from collections.abc import Callable

from harness.clock import Clock
from harness.errors import NotMeasured
from harness.limits import Limit, Outcome, Value
from harness.measurement import Measurement
from harness.part import Part
from harness.platform import Slot, Uplink


def spoken(failed: AssertionError) -> str:
    """What an assertion says: its own words where it has any, without the values that pytest explains below them."""
    own, _, _ = str(failed).partition("\nassert ")
    return own


class OutOfLimits(AssertionError):
    """The text is the table of violated limits, followed by the assertion that failed beside them, if any."""


class Measure:
    """Records what one test measures and judges it when the test ends."""

    def __init__(self, clock: Clock, know: Callable[[str], Part], record: Callable[[Measurement], None]) -> None:
        self._clock = clock
        self._know = know
        self._record = record
        self._taken: list[Measurement] = []

    def __call__(
        self,
        name: str,
        value: Value | None,
        *,
        limit: Limit | None = None,
        unit: str = "",
        part: Slot | Uplink | Part | str | None = None,
        note: str = "",
    ) -> Measurement:
        """Record ``value``; without a limit it is recorded and not judged. None was not measured, ``note`` says why."""
        about = part if isinstance(part, Part) or part is None else self._know(str(part))
        chosen = unit or (limit.unit if limit is not None else "")
        if isinstance(value, float):
            value = round(value, 9)  # differences of clock times carry the noise of where the clock stood
        taken = Measurement(name, value, chosen, limit, about, self._clock.now(), note)
        self._taken.append(taken)
        self._record(taken)
        return taken

    def judge(self, failed: AssertionError | None = None) -> None:
        """Raise OutOfLimits for violated limits (and ``failed``), else NotMeasured for missing values."""
        violated = [str(taken) for taken in self._taken if taken.outcome is Outcome.FAIL]
        if violated:
            beside = [spoken(failed)] if failed is not None and str(failed) else []
            raise OutOfLimits("\n".join(violated + beside)) from failed
        if failed is not None:
            raise failed
        missing = [str(taken) for taken in self._taken if taken.outcome is Outcome.NOT_MEASURED]
        if missing:
            raise NotMeasured("; ".join(missing))
