"""The virtual AC cycle: the input power of the server goes away and comes back, and the iDRAC with it.

    host off ─▶ POST ExtendedReset ─▶ iDRAC away (RESTART s) ─▶ iDRAC back ─▶ host Off, or turned on
    host on  ─▶ POST ExtendedReset ─▶ refused

What hangs on other power supplies, an expansion chassis or a fabric switch, does not notice. Which message a real iDRAC refuses
with is not public, so the one given here stands for any.
"""

from __future__ import annotations

from harness.lab.idrac import names
from harness.lab.idrac.controller import RESTART, Server
from harness.lab.idrac.web import Complaint, Reply, Request, Route, refuse

TARGET = f"{names.CHASSIS}/Actions/Oem/DellOemChassis.ExtendedReset"
_KINDS, _FINAL = ("PowerCycle",), ("On", "Off")


def actions() -> dict[str, object]:
    """The actions of the chassis, as an R750 with iDRAC9 7.10.30 lists Dell's own (NVIDIA/libredfish tests/mockups)."""
    return {
        "Oem": {
            "#DellOemChassis.ExtendedReset": {
                "FinalPowerState@Redfish.AllowableValues": list(_FINAL),
                "ResetType@Redfish.AllowableValues": list(_KINDS),
                "target": TARGET,
            }
        }
    }


def routes(server: Server) -> tuple[Route, ...]:
    """The page of this module."""
    controller = server.controller

    def cycle(request: Request) -> Reply:
        body = request.body if isinstance(request.body, dict) else {}
        for name, allowed in (("ResetType", _KINDS), ("FinalPowerState", _FINAL)):
            if name not in body:
                return refuse(400, Complaint("SYS428", (name,)))
            if body[name] not in allowed:
                return refuse(400, Complaint("SYS426", (str(body[name]), name), (f"#/{name}",)))
        if server.status().power != "Off":
            return refuse(409, "PSU501")
        controller.restart("input power was lost")
        if body["FinalPowerState"] == "On":
            controller.timeline.after(RESTART, lambda: server.reset("On"))
        return Reply(204)

    return (Route("POST", TARGET, cycle),)
