"""Bars: how long each stage of the start took, and how full each space of a host bridge is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from harness.record.entries import Record
from harness.report.exhibits import Exhibit, exhibit, number, objects, rows, text
from harness.units import amount, duration

_FULL = 90.0


@dataclass(frozen=True)
class Step:
    """A stage of the start: when it began after the reset, how long it took (None: it was the last seen), its bar in percent."""

    name: str
    began: str
    took: str
    start: float
    share: float
    is_last: bool


@dataclass(frozen=True)
class Space:
    """One space of a host bridge: percent taken, percent that is wanted and has no place, and the same in words."""

    kind: str
    taken: float
    lacking: float
    state: str
    said: str


def show_steps(record: Record) -> list[Step]:
    """The stages of the start as they were seen; the last one may not have ended."""
    data = exhibit(record, "boot") or {}
    sights = [(at, stage) for at, stage in rows(data, "sights", float, str) if at is not None and stage]
    if not sights:
        return []
    reset = number(data, "reset")
    zero = sights[0][0] if reset is None else reset
    end = max(number(data, "reached") or 0.0, number(data, "through") or 0.0, sights[-1][0])
    span = (end - sights[0][0]) or 1.0
    steps = []
    for (at, stage), (until, _) in pairwise([*sights, (end, "")]):
        is_last = (at, stage) == sights[-1]
        took = max(0.0, until - at)
        shown = "" if is_last and not took else duration(took)
        steps.append(
            Step(stage, duration(at - zero), shown, 100 * (at - sights[0][0]) / span, max(0.4, 100 * took / span), is_last)
        )
    return steps


def show_spaces(record: Record) -> list[tuple[str, list[Space]]]:
    """The budget of each host bridge."""
    listed = objects(exhibit(record, "pcie") or {}, "space")
    return [(text(entry, "root"), _spaces(entry)) for entry in listed]


def _spaces(entry: Exhibit) -> list[Space]:
    return [
        _space(kind, given, taken or 0, lacking or 0)
        for kind, given, taken, lacking in rows(entry, "rows", str, int, int, int)
        if kind
    ]


def _space(kind: str, given: int | None, taken: int, lacking: int) -> Space:
    unit = "" if kind == "bus numbers" else "B"
    whole = max(given or 0, taken + lacking, 1)
    share, short = 100 * taken / whole, 100 * lacking / whole
    state = "fail" if lacking else "marginal" if given and 100 * taken / given >= _FULL else "ok"
    there = "of unknown size" if given is None else f"of {_size(given, unit)}"
    missing = (
        f"; {_size(lacking, unit)} more {'is' if unit else 'are'} wanted and {'has' if unit else 'have'} no place"
        if lacking
        else ""
    )
    return Space(kind, share, short, state, f"{_size(taken, unit)} {there} taken{missing}")


def _size(value: int, unit: str) -> str:
    (figure,), shown = amount(value, unit=unit)
    return f"{figure} {shown}".rstrip()
