"""Where the host is, as GetRemoteServicesAPIStatus words it: attended, under way, or through.

Words: ServerStatus of DellLCService.v1_7_1 (iDRAC9 7.10).
"""

from __future__ import annotations

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LcStatus
from harness.errors import Timeout

ATTENDED = frozenset({"LCUSC", "EnteredF2Setup", "EnteredF11BootManager"})
"""ServerStatus values of a host at which somebody stands: Lifecycle Controller (F10), setup (F2), boot menu (F11)."""

UNDERWAY = frozenset({"InPOST", "CollectingSystemInventory", "AutomatedTaskExecution"})
"""ServerStatus values that pass by themselves."""


def is_at_rest(status: LcStatus) -> bool:
    """Nothing is under way and nobody stands there: through POST, off, or halted at a prompt. An unknown word is no rest."""
    return status.server in ("OutOfPOST", "PoweredOff") or status.server.startswith("Halted")


def settle(idrac: Idrac, patience: float) -> LcStatus:
    """The status once the host is through with POST, or the last one seen."""
    try:
        return idrac.clock.until(
            idrac.lc_status,
            lambda seen: seen.server not in UNDERWAY,
            what="the host to be through with POST",
            every=15,
            within=patience,
        )
    except Timeout as timeout:
        if isinstance(timeout.last, LcStatus):
            return timeout.last
        raise
