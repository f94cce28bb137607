"""Firmware versions: compared part by part, so 2.10.0 is newer than 2.9.4, and zeros at the end say nothing. Pure.

In TOML a range of them is written like a limit (harness.limits), and always in quotes:

    bios = "2.21.2"                      this one
    bios = "2.21.*"                      every one that begins so
    bios = { at_least = "2.21.2" }       or at_most, between, one_of, matches (a regular expression)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

_Part: TypeAlias = tuple[int, int, str]
_NOUGHT: _Part = (0, 0, "")
_KINDS = ("exactly", "at_least", "at_most", "between", "one_of", "matches")
_SIGNS = {"at_least": ">=", "at_most": "<=", "matches": "matches"}


@dataclass(frozen=True)
class VersionRange:
    """Versions that belong together; ``kind`` and ``bounds`` as a Limit has them, the bounds being versions."""

    kind: str
    bounds: tuple[str, ...]

    def holds(self, version: str) -> bool:
        """True where ``version`` is within. What begins with no number has no place in an order."""
        match self.kind:
            case "exactly":
                return _is(version, self.bounds[0])
            case "one_of":
                return any(_is(version, bound) for bound in self.bounds)
            case "matches":
                return re.fullmatch(self.bounds[0], version) is not None
        low = self.bounds[0] if self.kind != "at_most" else ""
        high = self.bounds[-1] if self.kind != "at_least" else ""
        return _has_order(version) and not (low and is_older(version, low)) and not (high and is_older(high, version))

    def __str__(self) -> str:
        match self.kind:
            case "exactly":
                return self.bounds[0]
            case "between":
                return " .. ".join(self.bounds)
            case "one_of":
                return f"one of {', '.join(self.bounds)}"
        return f"{_SIGNS[self.kind]} {self.bounds[0]}"


def range_from_toml(value: object) -> VersionRange:
    """Read a range of versions as TOML gives it. Raises ValueError with one line that says what is wrong."""
    if isinstance(value, VersionRange):
        return value
    if not isinstance(value, Mapping):
        return VersionRange("exactly", (_version(value, may_end_open=True),))
    for key in value:
        if key not in _KINDS:
            near = get_close_matches(str(key), _KINDS, n=1)
            raise ValueError(f"unknown range {key!r}{f'; did you mean {near[0]!r}?' if near else ''}")
    if len(value) != 1:
        raise ValueError(f"a range of versions names exactly one of {', '.join(_KINDS)}")
    ((kind, given),) = value.items()
    if kind == "matches":
        return VersionRange(kind, (_pattern(given),))
    listed = given if kind in ("between", "one_of") else [given]
    if not isinstance(listed, list) or not listed or (kind == "between" and len(listed) != 2):
        raise ValueError(f"{kind} takes a list{' of two versions' if kind == 'between' else ' of versions'}")
    bounds = tuple(_version(each, may_end_open=kind in ("exactly", "one_of")) for each in listed)
    if kind in ("at_least", "at_most", "between") and not all(_has_order(bound) for bound in bounds):
        raise ValueError(f"{kind} takes versions that begin with a number")
    if kind == "between" and is_older(bounds[1], bounds[0]):
        raise ValueError("between takes the older version first")
    return VersionRange(kind, bounds)


def is_same(version: str, other: str) -> bool:
    """True where both mean the same version."""
    return _parts(version) == _parts(other)


def is_older(version: str, other: str) -> bool:
    """True where ``version`` comes before ``other``; letters as in a PSU's 00.1D.7D come after numbers, in their own order."""
    return _parts(version) < _parts(other)


def _parts(version: str) -> tuple[_Part, ...]:
    parts = _all_parts(version)
    while parts and parts[-1] == _NOUGHT:
        parts.pop()
    return tuple(parts)


def _all_parts(version: str) -> list[_Part]:
    return [_part(word) for word in re.findall(r"[0-9]+|[A-Za-z]+", version)]


def _part(word: str) -> _Part:
    """Numbers stay text, ordered by length and digits: a machine may say one that is too long to be read."""
    if word[0].isalpha():
        return 1, 0, word.upper()
    digits = word.lstrip("0")
    return 0, len(digits), digits


def _is(version: str, wanted: str) -> bool:
    """Equality; ``wanted`` may end in ``.*``."""
    if not wanted.endswith(".*"):
        return is_same(version, wanted)
    begin, parts = _all_parts(wanted[:-2]), _all_parts(version)
    return [*parts, *[_NOUGHT] * len(begin)][: len(begin)] == begin


def _has_order(version: str) -> bool:
    return re.match("[0-9]", version) is not None


def _version(value: object, *, may_end_open: bool) -> str:
    """A version as somebody wrote it. Raises ValueError, also for a number without quotes: 2.10 would be read as 2.1."""
    if not isinstance(value, str):
        raise ValueError('takes a version in quotes such as "2.21.2", or a table such as { at_least = "2.21.2" }')
    if not _all_parts(value.removesuffix(".*")) or "*" in value.removesuffix(".*"):
        raise ValueError('takes a version such as "2.21.2", or "2.21.*" for every one that begins so')
    if value.endswith(".*") and not may_end_open:
        raise ValueError('takes a whole version such as "2.21.2" here, without .*')
    return value


def _pattern(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("matches takes a regular expression in quotes")
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{value!r:.200} is not a regular expression: {error}") from None
    return value
