"""Whether a BIOS is one that the platform wants. Pure."""

from __future__ import annotations

from harness.platform import Bios
from harness.versions import is_older, is_same


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
