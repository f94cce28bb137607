"""JSON among other lines: tools print warnings, with braces of their own, before and between it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def objects(text: str, *names: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects whose first key is one of ``names``. What is cut off or damaged is left out."""
    keys = "|".join(re.escape(name) for name in names)
    end = 0
    for start in re.finditer(rf'\{{\s*"(?:{keys})"\s*:', text):
        if start.start() < end:
            continue
        try:
            found, end = json.JSONDecoder().raw_decode(text, start.start())
        except ValueError:
            continue
        except RecursionError:  # nothing that a tool prints is so deep, and each start below would try it again
            return
        if isinstance(found, dict):
            yield found


def lines_of_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The lines that are one JSON object each."""
    for line in text.splitlines():
        if line.startswith("{") and line.rstrip().endswith("}"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def mapping(value: object) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """The objects in the value where it is a list, else none."""
    return tuple(entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()


def is_number(value: object) -> bool:
    """True for a finite number that is no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
