"""Reading the exhibits of a record: what is not as expected is left out, for a record may be damaged or from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.record.entries import Record

Exhibit = Mapping[str, Any]
Row = tuple[Any, ...]


def exhibit(record: Record, name: str) -> Exhibit | None:
    """The exhibit of that name, None where the run has none."""
    return record.exhibits.get(name)


def rows(data: Exhibit, key: str, *kinds: type) -> list[Row]:
    """The rows of a list whose cells are of ``kinds``, or null; ``float`` takes any finite number."""
    listed = data.get(key)
    found = [row for row in listed if isinstance(row, list | tuple)] if isinstance(listed, list | tuple) else []
    return [tuple(row) for row in found if len(row) == len(kinds) and all(map(_is, row, kinds))]


def objects(data: Exhibit, key: str) -> list[Exhibit]:
    """The objects of a list."""
    listed = data.get(key)
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list | tuple) else []


def texts(data: Exhibit, key: str) -> list[str]:
    """The texts of a list."""
    listed = data.get(key)
    return [entry for entry in listed if isinstance(entry, str)] if isinstance(listed, list | tuple) else []


def text(data: Exhibit, key: str) -> str:
    """A text, or ""."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number(data: Exhibit, key: str) -> float | None:
    """A finite number, or None."""
    value = data.get(key)
    return value if value is not None and _is(value, float) else None


def _is(value: object, kind: type) -> bool:
    if value is None:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))
