"""What the person at the keyboard agreed to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Consent:
    """``apply``: settings may be changed and the machine rebooted. ``danger``: classes of change named on the command line.

    ``assume_free``: go on where the operating system is up and cannot be asked who uses it; it never overrules an answer.
    ``force_p2p``: copy between GPUs although an IOMMU translates, which can overwrite the memory of other devices.
    """

    apply: bool = False
    danger: frozenset[str] = frozenset()
    assume_free: bool = False
    force_p2p: bool = False
