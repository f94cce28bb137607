"""The last look before a reset: what was free when the run began may not be free any more.

service tag ─▶ power On or Off ─▶ nobody at the host, nothing under way ─▶ no job but ours ─▶ cleared
"""

from __future__ import annotations

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LcStatus
from harness.procedures.host_state import ATTENDED, UNDERWAY, is_at_rest
from harness.procedures.power import obstacle

STEADY = ("On", "Off")
"""The power states from which a reset does what it says; the others of Resource.PowerState (PoweringOn, Paused, ...) pass."""


def hindrance(idrac: Idrac, lc: LcStatus, *, tag: str, own: str = "") -> str:
    """Why the host must not be reset now, or nothing. ``lc`` was read just before, ``own`` is the id of our job.

    Raises BenchError for another machine, and Unreadable where one of the looks tells nothing: that is no clearance.
    """
    if lc.server in ATTENDED:
        return f"somebody left the host in {lc.server}"
    if lc.server in UNDERWAY:
        return f"the host is restarting already ({lc.server})"
    if not is_at_rest(lc):
        return f"the host is in {lc.server}, and what that means is not known"
    if against := obstacle(idrac.jobs(), own=own):
        return against
    power = idrac.insist_on(tag).power_state
    return "" if power in STEADY else f"the power state is {power or 'not told'}"
