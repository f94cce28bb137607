"""Bring the BIOS up: survey, plan, apply, read back.

survey ──▶ plan ──▶ preflight ──▶ PATCH (one) ──▶ job Scheduled ──▶ reset ──▶ job done ──▶ read back
   │         │          │            │                │                          │             │
   │      nothing    not free     lost: look,      never: take              failed: take    differs
   │      differs                 never again      away ours                away ours
   └─────────┴──────────┴────────────┴────────────────┴──────────────────────────┴─────────────┴──▶ BiosStory
"""

from harness.procedures.bios.bring import bring_bios
from harness.procedures.bios.story import BiosStory

__all__ = ["BiosStory", "bring_bios"]
