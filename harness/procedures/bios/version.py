"""Firmware versions: compared part by part, so 2.10.0 is newer than 2.9.4, and zeros at the end say nothing. Pure."""

from __future__ import annotations

import re

from harness.platform import Bios


def objection(version: str, wanted: Bios) -> str:
    """Why this version is not good enough, or nothing."""
    if not version:
        return "the machine does not tell its BIOS version"
    if any(is_same(version, denied) for denied in wanted.deny):
        return f"BIOS {version} is on the platform's deny list ({', '.join(wanted.deny)}); update it"
    if wanted.minimum and is_older(version, wanted.minimum):
        return f"BIOS {version} is older than {wanted.minimum}, the oldest that will do; update it"
    return ""


def suspicion(version: str, wanted: Bios) -> str:
    """What the deny list says of the BIOS of a machine whose start loops or hangs, and what to do about the list."""
    if any(is_same(version, denied) for denied in wanted.deny):
        return f"BIOS {version} is on the platform's deny list ({', '.join(wanted.deny)}): replace it once the host starts bare"
    listed = ", ".join(wanted.deny) or "empty"
    named = version or "of unknown version"
    return f"BIOS {named} is not on the platform's deny list ({listed}); where it is at fault, add it to bios.deny"


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
