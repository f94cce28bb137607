"""TOML that a person or a machine gives us, read without letting it end the process."""

from __future__ import annotations

import tomllib
from typing import Any

_DOTS = 100
"""Dots in a line; a key with so many parts is nested deeper than anything that is read here."""


def parse_toml(text: str) -> dict[str, Any]:
    """The table in ``text``. Raises ValueError with one line for what is no TOML, or is too deep to be meant.

    Python's reader needs memory by the square of a key's parts: 100,000 of them, 200 kB, end the process.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} has more than {_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables and lists are nested too deep") from None
