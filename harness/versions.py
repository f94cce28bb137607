"""Firmware versions: compared part by part, so 2.10.0 is newer than 2.9.4, and zeros at the end say nothing. Pure."""

from __future__ import annotations

import re


def is_same(version: str, other: str) -> bool:
    """True where both mean the same version."""
    return _parts(version) == _parts(other)


def is_older(version: str, other: str) -> bool:
    """True where ``version`` comes before ``other``; letters as in a PSU's 00.1D.7D come after numbers, in their own order."""
    return _parts(version) < _parts(other)


def _parts(version: str) -> tuple[tuple[int, int, str], ...]:
    words = re.findall(r"\d+|[A-Za-z]+", version)
    parts = [(0, int(word), "") if word.isdecimal() else (1, 0, word.upper()) for word in words]
    while parts and parts[-1] == (0, 0, ""):
        parts.pop()
    return tuple(parts)
