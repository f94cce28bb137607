"""Limits: data with units that judge a value and print themselves.

In TOML a bare value means exactly that value; otherwise a table:

    width      = 16
    replays    = { at_most = "8 /min" }
    AcPwrRcvry = { one_of = ["Last", "On"] }
    memory     = { exactly = "48601 MiB", within = "1 %" }
    floor      = { at_least = 750, marginal = 780 }      # marginal: passes, in its own colour, short of this
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias

from harness.units import amount, number, parse_quantity

_WIDEST = 100.0
"""Percent by which an exact number may be off at most; with more, nought would do."""

Value: TypeAlias = "bool | int | float | str"
"""What can be measured: a number in the limit's own unit, or a word."""


class Outcome(StrEnum):
    """How a value stands to its limit."""

    PASS = "pass"  # noqa: S105
    MARGINAL = "marginal"
    FAIL = "fail"
    NOT_MEASURED = "not measured"
    RECORDED = "recorded"


@dataclass(frozen=True)
class Limit:
    """What a value must satisfy.

    ``kind`` is exactly, at_least, at_most, between, one_of or matches; ``bounds`` its arguments, numbers being in
    ``unit``. ``within`` widens an exact number by so many percent. ``marginal`` is a bound on the good side (two for
    between): a value that passes but does not reach it is marginal.
    """

    kind: str
    bounds: tuple[Value, ...]
    unit: str = ""
    within: float = 0.0
    marginal: tuple[float, ...] = ()

    def judge(self, value: Value | None) -> Outcome:
        """Say how ``value``, a number in this limit's unit, stands to the limit. None was not measured."""
        if value is None:
            return Outcome.NOT_MEASURED
        if not self._holds(value):
            return Outcome.FAIL
        return Outcome.MARGINAL if self._is_marginal(value) else Outcome.PASS

    def margin(self, value: Value | None) -> float | None:
        """Distance to the nearest numeric bound, positive inside; None where the limit is not a numeric bound."""
        if value is None or isinstance(value, str) or self.kind not in ("at_least", "at_most", "between"):
            return None
        low, high = self._range()
        return min(float(value) - low, high - float(value))

    def __str__(self) -> str:
        shown, unit = self._shown()
        match self.kind:
            case "exactly":
                return f"{shown[0]}{unit}{f' ± {number(self.within)} %' if self.within else ''}"
            case "at_least":
                return f">= {shown[0]}{unit}"
            case "at_most":
                return f"<= {shown[0]}{unit}"
            case "between":
                return f"{shown[0]} .. {shown[1]}{unit}"
            case "one_of":
                return f"one of {', '.join(shown)}{unit}"
            case _:
                return f"matches {shown[0]}"

    def _shown(self) -> tuple[tuple[str, ...], str]:
        """The bounds and the unit behind them, as people read them."""
        numbers = [bound for bound in self.bounds if not isinstance(bound, str | bool)]
        if len(numbers) == len(self.bounds):
            shown, unit = amount(*numbers, unit=self.unit)
        else:
            shown, unit = tuple(_show(bound) for bound in self.bounds), self.unit
        return shown, f" {unit}" if unit else ""

    def _holds(self, value: Value) -> bool:
        match self.kind:
            case "exactly":
                wanted = self.bounds[0]
                if self.within and not isinstance(wanted, str) and not isinstance(value, str):
                    return abs(value - wanted) <= abs(wanted) * self.within / 100.0
                return _same(value, wanted)
            case "one_of":
                return any(_same(value, bound) for bound in self.bounds)
            case "matches":
                return re.fullmatch(str(self.bounds[0]), str(value)) is not None
            case _:
                if isinstance(value, str):
                    return False
                low, high = self._range()
                return low <= float(value) <= high

    def _is_marginal(self, value: Value) -> bool:
        if not self.marginal or isinstance(value, str):
            return False
        match self.kind:
            case "at_least":
                return float(value) < self.marginal[0]
            case "at_most":
                return float(value) > self.marginal[0]
            case "between":
                return not self.marginal[0] <= float(value) <= self.marginal[1]
            case _:
                return False

    def _range(self) -> tuple[float, float]:
        numbers = [float(bound) for bound in self.bounds]
        match self.kind:
            case "at_least":
                return numbers[0], float("inf")
            case "at_most":
                return float("-inf"), numbers[0]
            case _:
                return numbers[0], numbers[1]


def exactly(value: Value, unit: str = "", *, within: float = 0.0) -> Limit:
    """Exactly this value, or a number within so many percent of it."""
    return Limit("exactly", (value,), unit, within)


def at_least(value: float, unit: str = "", *, marginal: float | None = None) -> Limit:
    """This number or more; below ``marginal`` it passes only just."""
    return Limit("at_least", (value,), unit, marginal=() if marginal is None else (marginal,))


def at_most(value: float, unit: str = "", *, marginal: float | None = None) -> Limit:
    """This number or less; above ``marginal`` it passes only just."""
    return Limit("at_most", (value,), unit, marginal=() if marginal is None else (marginal,))


def between(low: float, high: float, unit: str = "") -> Limit:
    """From ``low`` to ``high``, both included."""
    return Limit("between", (low, high), unit)


def one_of(*values: Value, unit: str = "") -> Limit:
    """One of these values."""
    return Limit("one_of", values, unit)


def matches(pattern: str) -> Limit:
    """A word that the whole regular expression matches."""
    return Limit("matches", (pattern,))


_WIDEST_BITS = 64
"""Of a whole number; no register and no count needs more."""


def limit_from_toml(value: object, unit: str = "", *, words: bool = True) -> Limit:
    """Read a limit as TOML gives it; quantities are converted to ``unit`` and a number without quotes is in it.

    Without a unit a string is a word, which only a limit that takes ``words`` may have. Raises ValueError with one line that says
    what is wrong.
    """
    if isinstance(value, Limit):
        return value
    if not isinstance(value, Mapping):
        return exactly(_bound(value, unit, words=words), unit)
    known = {"exactly", "at_least", "at_most", "between", "one_of", "matches", "within", "marginal"}
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            raise ValueError(f"unknown limit {key!r}{f'; did you mean {near[0]!r}?' if near else ''}")
    kinds = [key for key in value if key not in ("within", "marginal")]
    if len(kinds) != 1:
        raise ValueError(f"a limit names exactly one of {', '.join(sorted(known - {'within', 'marginal'}))}")
    kind = kinds[0]
    listed = value[kind] if kind in ("between", "one_of") else [value[kind]]
    if not isinstance(listed, list) or not listed or (kind == "between" and len(listed) != 2):
        raise ValueError(f"{kind} takes a list{' of two' if kind == 'between' else ''}")
    if kind == "matches" and (unit or not words):
        raise ValueError("matches is for words, and this is a number")
    bounds = tuple(_bound(bound, unit, words=words) for bound in listed)
    if kind in ("at_least", "at_most", "between") and any(isinstance(bound, str | bool) for bound in bounds):
        raise ValueError(f"{kind} takes numbers")
    if kind == "between" and float(bounds[0]) > float(bounds[1]):
        raise ValueError("between takes the lower bound first")
    if kind == "matches":
        try:
            re.compile(str(bounds[0]))
        except re.error as error:
            raise ValueError(f"{bounds[0]!r} is not a regular expression: {error}") from None
    limit = Limit(kind, bounds, unit, _percent(value.get("within", 0)), _marginal(kind, value.get("marginal"), unit))
    if any(limit.judge(bound) is Outcome.FAIL for bound in limit.marginal):
        raise ValueError("marginal lies outside the limit, so no value could ever be marginal")
    return limit


def _marginal(kind: str, value: object, unit: str) -> tuple[float, ...]:
    if value is None:
        return ()
    listed = value if isinstance(value, list) else [value]
    if kind not in ("at_least", "at_most", "between") or len(listed) != (2 if kind == "between" else 1):
        raise ValueError(f"marginal does not fit {kind}")
    bounds = [_bound(bound, unit, words=True) for bound in listed]
    if any(isinstance(bound, str | bool) for bound in bounds):
        raise ValueError("marginal takes numbers")
    return tuple(float(bound) for bound in bounds)


def _bound(value: object, unit: str, *, words: bool) -> Value:
    is_number = bool(unit) or not words
    if isinstance(value, bool) and not is_number:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value)
    if not isinstance(value, str):
        raise ValueError(f"takes {'a number' if is_number else 'a word, a number or a limit table'}, not {_kind_of(value)}")
    if not is_number:
        return value
    if not unit:
        raise ValueError(f"takes a number without unit and quotes, such as 0.85, not {value!r}")
    return _finite(parse_quantity(value).in_unit(unit).value)


def _finite(value: float) -> float:
    """``value`` as it is, a whole number too. Raises ValueError for one that no measurement can be compared with."""
    if isinstance(value, int) and value.bit_length() > _WIDEST_BITS:
        raise ValueError(f"takes a number of at most {_WIDEST_BITS} bits")
    if not math.isfinite(value):
        raise ValueError("takes a finite number: nothing would ever fail, or everything would")
    return value


def _kind_of(value: object) -> str:
    """What it is, without saying it: what stands in a configuration may be a secret."""
    kinds: tuple[tuple[type, str], ...] = ((bool, "true or false"), (list, "a list"), (dict, "a table"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "this")


def _percent(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        percent = float(_finite(value))
    else:
        quantity = parse_quantity(str(value))
        if quantity.unit not in ("", "%"):
            raise ValueError(f"within takes percent, not {value!r}")
        percent = quantity.value
    if not 0 <= percent <= _WIDEST:
        raise ValueError(f"within takes a percentage from 0 to {_WIDEST:g}")
    return percent


def _same(value: Value, wanted: Value) -> bool:
    """Equality that keeps words, numbers and truth values apart: ``"1"`` is not ``1`` and ``1`` is not ``True``."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, str) or isinstance(wanted, str):
        return isinstance(value, str) and isinstance(wanted, str) and value == wanted
    return float(value) == float(wanted)


def _show(value: Value) -> str:
    return str(value) if isinstance(value, str | bool) else number(value)
