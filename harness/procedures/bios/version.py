"""BIOS versions: compared number by number, so 2.10.0 is newer than 2.9.4. Pure."""

from __future__ import annotations

import re

from harness.platform import Bios


def objection(version: str, wanted: Bios) -> str:
    """Why this version is not good enough, or nothing."""
    if not version:
        return "the machine does not tell its BIOS version"
    if any(_numbers(version) == _numbers(denied) for denied in wanted.deny):
        return f"BIOS {version} is on the platform's deny list ({', '.join(wanted.deny)}); update it"
    if wanted.minimum and _numbers(version) < _numbers(wanted.minimum):
        return f"BIOS {version} is older than {wanted.minimum}, the oldest that will do; update it"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
