"""Judging what was seen of a GPU at work: clocks that its hardware held back, and heat."""

from __future__ import annotations

from collections.abc import Iterable

from harness.devices.gpu import Reason
from harness.limits import Outcome, at_most, exactly
from harness.measurement import Measurement
from harness.procedures.finding import taken

_SERIOUS = Reason.HW_THERMAL_SLOWDOWN | Reason.HW_POWER_BRAKE_SLOWDOWN
"""Reasons that a healthy machine never has. The power cap is none of them: at full load it is normal (DCGM, gpud)."""


def judge_slowdown(stage: str, slot: str, seen: Iterable[Reason] | None) -> tuple[Measurement, ...]:
    """Did the hardware hold the clocks back? Nothing is said of a card that tells no reasons."""
    if seen is None:
        return ()
    names = held_back(seen)
    return (taken(f"{stage}.hardware-slowdown", ", ".join(names) or "none", slot, exactly("none")),)


def held_back(seen: Iterable[Reason]) -> tuple[str, ...]:
    """The serious ones among the reasons that were seen, once each."""
    together = Reason(0)
    for reason in seen:
        together |= reason & _SERIOUS
    return together.names


def judge_heat(stage: str, slot: str, temperature: int | None, slowdown: int | None) -> tuple[Measurement, ...]:
    """Did the GPU stay below the temperature from which, as the card says, it slows down? Only recorded where it says none."""
    if temperature is None:
        return ()
    limit = None if slowdown is None else at_most(slowdown - 1, "C")
    note = "" if slowdown is None else f"the card slows down from {slowdown} C on"
    return (taken(f"{stage}.temperature", temperature, slot, limit, unit="C", note=note),)


def describe_restraint(measurements: Iterable[Measurement], temperature: int | None, slowdown: int | None) -> list[str]:
    """What a person should read where one of these measurements fails."""
    lines = []
    for measured in measurements:
        if measured.outcome is not Outcome.FAIL:
            continue
        if measured.name.endswith(".hardware-slowdown"):
            peak = "unknown" if temperature is None else f"{temperature} C"
            lines.append(f"its clocks were held back: {measured.value}; peak {peak}: look at its cooling and its power")
        if measured.name.endswith(".temperature"):
            lines.append(f"it reached {temperature} C and slows down from {slowdown} C on: look at its cooling")
    return lines
