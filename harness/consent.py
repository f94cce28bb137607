"""What the person at the keyboard agreed to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Consent:
    """``apply``: settings may be changed and the machine rebooted. ``danger``: classes of change named on the command line."""

    apply: bool = False
    danger: frozenset[str] = frozenset()
