"""Quantities with units: the closed set of units the harness knows, how they convert and how they print.

A unit belongs to one dimension; quantities compare only within it. ``GB`` and ``GB/s`` are decimal (1e9), ``MiB`` and the
like binary, as the tools of the field print them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches

_SCALES: dict[str, tuple[str, float]] = {
    "": ("number", 1.0),
    "B": ("bytes", 1.0),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "TiB": ("bytes", 2.0**40),
    "kB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "MB/s": ("bytes per second", 1e6),
    "GB/s": ("bytes per second", 1e9),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "min": ("seconds", 60.0),
    "h": ("seconds", 3600.0),
    "/min": ("rate", 1.0),
    "/h": ("rate", 1.0 / 60.0),
    "GT/s": ("transfers per second", 1.0),
    "lanes": ("lanes", 1.0),
    "generation": ("generation", 1.0),
    "images/s": ("images per second", 1.0),
    "%": ("percent", 1.0),
    "C": ("degrees Celsius", 1.0),
    "W": ("watts", 1.0),
}
_QUANTITY = re.compile(r"\s*(?P<value>[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(?P<unit>[A-Za-z/%]*)\s*\Z")


@dataclass(frozen=True)
class Quantity:
    """A number with a unit; ``unit`` is one of the known ones, "" for a bare number."""

    value: float
    unit: str = ""

    @property
    def dimension(self) -> str:
        """What the unit measures."""
        return _SCALES[self.unit][0]

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit of its dimension. Raises ValueError across dimensions."""
        dimension, scale = _scale(unit)
        if dimension != self.dimension:
            raise ValueError(f"takes {f'{dimension}, as in {unit!r}' if unit else 'a number without a unit'}, not {str(self)!r}")
        return Quantity(self.value * _SCALES[self.unit][1] / scale, unit)

    def in_unit(self, unit: str) -> Quantity:
        """The same quantity in ``unit``, as a quoted one is read: it says its own unit. Raises ValueError where it does not."""
        if not self.unit and unit:
            others = f' or "{number(self.value)} min"' if unit == "s" else ""
            raise ValueError(f'"{number(self.value)}" has no unit: write "{number(self.value)} {unit}"{others}')
        return self.to(unit)

    def __str__(self) -> str:
        return f"{number(self.value)} {self.unit}".rstrip()


def parse_quantity(text: str) -> Quantity:
    """Read ``"16 MiB"`` or ``"0.85"``. Raises ValueError naming the nearest known unit."""
    found = _QUANTITY.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a number with a unit")
    _scale(found["unit"])
    return Quantity(float(found["value"]), found["unit"])


def number(value: float) -> str:
    """A number as people write it: no trailing zeros, six significant digits for fractions."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"


def amount(*values: float, unit: str = "") -> tuple[tuple[str, ...], str]:
    """Numbers of one unit and the unit, as people read them: bytes in the largest binary unit in which all are whole numbers.

    >>> amount(262144, unit="B")
    (('256',), 'KiB')
    """
    if unit == "B" and any(values) and all(math.isfinite(value) for value in values):
        for larger in ("TiB", "GiB", "MiB", "KiB"):
            scaled = [value / _SCALES[larger][1] for value in values]
            if all(value.is_integer() for value in scaled):
                return tuple(number(value) for value in scaled), larger
    return tuple(number(value) for value in values), unit


def duration(seconds: float) -> str:
    """Seconds as people read them, to the second above a minute: ``45 s``, ``15 min``, ``2 min 5 s``, ``1 h 30 min``."""
    if seconds < 60:
        return f"{number(round(seconds, 1))} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _scale(unit: str) -> tuple[str, float]:
    try:
        return _SCALES[unit]
    except KeyError:
        near = get_close_matches(unit, _SCALES, n=1)
        raise ValueError(f"unknown unit {unit!r}{f'; did you mean {near[0]!r}?' if near else ''}") from None
