"""Dell's own ways of power beyond ComputerSystem.Reset: a virtual AC cycle of the chassis, and a restart of the iDRAC itself.

    Systems/... ─Links.Chassis─▶ Chassis/System.Embedded.1 ─Actions.Oem─▶ DellOemChassis.ExtendedReset
    Managers/... ─Actions─▶ Manager.Reset, which offers GracefulRestart and nothing else

Both are found by their links when they are asked for, never before.
"""

from __future__ import annotations

from harness.devices.idrac import Idrac
from harness.devices.idrac_places import SYSTEM_ID
from harness.devices.redfish import dig, link, text
from harness.errors import DeviceError
from harness.ports import HttpAnswer

_EXTENDED = "#DellOemChassis.ExtendedReset"
"""Recorded on an R750 with iDRAC9 7.10.30 (NVIDIA/libredfish tests/mockups): ResetType PowerCycle, FinalPowerState On or Off."""


def cycle_ac(idrac: Idrac, final: str = "Off") -> HttpAnswer:
    """Take the input power from the server and give it back, once; ``final`` is the host's power afterwards, On or Off.

    The iDRAC goes away with it. Raises DeviceError where the firmware has no such action.
    """
    system = idrac.redfish.get(idrac.places.system)
    links = dig(system, "Links", "Chassis")
    paths = [link(entry) for entry in links] if isinstance(links, list) else []
    chassis = next((path for path in paths if path.endswith(f"/{SYSTEM_ID}")), paths[0] if paths else "")
    action = dig(idrac.redfish.get(chassis), "Actions", "Oem", _EXTENDED) if chassis else None
    states = dig(action, "FinalPowerState@Redfish.AllowableValues")
    if not text(action, "target") or not isinstance(states, list) or final not in states:
        raise DeviceError(f"this iDRAC offers no virtual AC cycle that ends {final}; pull the power cords, or update its firmware")
    return idrac.redfish.act("POST", text(action, "target"), {"ResetType": "PowerCycle", "FinalPowerState": final})


def restart_idrac(idrac: Idrac) -> HttpAnswer:
    """Restart the iDRAC, once; the host runs on. Raises DeviceError where the firmware does not offer it."""
    action = dig(idrac.redfish.get(idrac.places.manager), "Actions", "#Manager.Reset")
    kinds = dig(action, "ResetType@Redfish.AllowableValues")
    if not text(action, "target") or not isinstance(kinds, list) or "GracefulRestart" not in kinds:
        raise DeviceError("this iDRAC does not offer to be restarted over Redfish; use its web page or `racadm racreset`")
    return idrac.redfish.act("POST", text(action, "target"), {"ResetType": "GracefulRestart"})
