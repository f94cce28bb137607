"""The seven stages, what each needs, and the gates between them.

    bmc -> bios
    bmc -> boot -> pcie -> gpu -> p2p
                             └──> resnet50

A gate is open, degraded (some parts are missing: what follows runs on the others, for information) or closed (nothing that
depends on the stage makes sense). A closed gate closes everything behind it, with the original reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.bench import Bench
from harness.platform import Platform

STAGES = ("bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50")

NEEDS: Mapping[str, tuple[str, ...]] = {
    "bmc": (),
    "bios": ("bmc",),
    "boot": ("bmc",),
    "pcie": ("boot",),
    "gpu": ("pcie",),
    "p2p": ("gpu",),
    "resnet50": ("gpu",),
    "own": ("bmc",),
}
"""What each stage needs. Checks of one's own (``own``) need the right machine, as everything does."""


class Gate(StrEnum):
    """Permission of what depends on a stage to run."""

    OPEN = "open"
    DEGRADED = "degraded"
    CLOSED = "closed"


@dataclass
class Gates:
    """The gates of one run, moved by failing cases only."""

    closed: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    _lost_in: dict[str, list[str]] = field(default_factory=dict)

    def close(self, stage: str, reason: str) -> None:
        """Close a stage's gate; the first reason stays."""
        self.closed.setdefault(stage, reason)

    def lose(self, stage: str, slots: Collection[str], reason: str) -> None:
        """Take parts as missing from here on; the first reason of each stays."""
        for slot in slots:
            if slot not in self.lost:
                self.lost[slot] = reason
                self._lost_in.setdefault(stage, []).append(slot)

    def block(self, stage: str, slot: str | None) -> str | None:
        """Why a case may not run, or None. A closed gate blocks the rest of its own stage too."""
        for needed in (stage, *upstream(stage)):
            if needed in self.closed:
                return self.closed[needed]
        return None if slot is None else self.lost.get(slot)

    def is_degraded(self, stage: str) -> bool:
        """True where parts went missing in a stage that this one needs."""
        return any(self._lost_in.get(needed) for needed in upstream(stage))

    def state(self, stage: str) -> Gate:
        """The gate that ``stage`` leaves behind."""
        if stage in self.closed:
            return Gate.CLOSED
        return Gate.DEGRADED if self._lost_in.get(stage) else Gate.OPEN

    def lost_in(self, stage: str) -> tuple[str, ...]:
        """The slots lost in ``stage``."""
        return tuple(self._lost_in.get(stage, ()))


def upstream(stage: str) -> tuple[str, ...]:
    """Everything ``stage`` depends on, nearest first."""
    found: list[str] = []
    for needed in NEEDS.get(stage, ()):
        for name in (needed, *upstream(needed)):
            if name not in found:
                found.append(name)
    return tuple(found)


def not_run(bench: Bench, platform: Platform) -> dict[str, str]:
    """The stages that this bench and platform cannot have, each with the reason."""
    reasons: dict[str, str] = {}
    if bench.lab is None and bench.bmc is None:
        reasons |= dict.fromkeys(("bmc", "bios", "boot"), "the bench has no [bmc]")
    if bench.lab is None and bench.host is None:
        reasons |= dict.fromkeys(("pcie", "gpu", "p2p", "resnet50"), "the bench has no [host]")
    if platform.gpu is None:
        reasons |= dict.fromkeys(("gpu", "p2p", "resnet50"), "the platform has no [gpu]")
    return reasons
