"""Pages of the server: identity, power, boot progress, reset."""

from __future__ import annotations

from harness.lab.idrac import names
from harness.lab.idrac.controller import Server
from harness.lab.idrac.log import stamp
from harness.lab.idrac.web import Complaint, Reply, Request, Route, link, ok, refuse

RESET = f"{names.SYSTEM}/Actions/ComputerSystem.Reset"
RESET_TYPES = (
    "On",
    "ForceOff",
    "ForceRestart",
    "GracefulRestart",
    "GracefulShutdown",
    "PushPowerButton",
    "Nmi",
    "PowerCycle",
)
"""ResetType@Redfish.AllowableValues of public R650 5.10 and R750 6.00 and 7.10 captures."""

_POLICIES = {"Last": "LastState", "On": "AlwaysOn", "Off": "AlwaysOff"}
"""How the BIOS attribute AcPwrRcvry reads as PowerRestorePolicy, which is DMTF's (ComputerSystem.v1_20_1) and in no public capture
of an iDRAC9: a client must do without it too."""


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller

    def show(_: Request) -> Reply:
        return ok(_system(server))

    def reset(request: Request) -> Reply:
        kind = request.body.get("ResetType") if isinstance(request.body, dict) else None
        if kind is None:
            return refuse(400, Complaint("SYS428", ("ResetType",)))
        if kind not in RESET_TYPES:
            return refuse(400, Complaint("SYS426", (str(kind), "ResetType"), ("#/ResetType",)))
        power = server.status().power
        if kind == "On" and power == "On":
            return refuse(409, "PSU501")
        if kind not in ("On", "PushPowerButton") and power == "Off":
            return refuse(409, "PSU502")
        server.reset(kind)
        return Reply(204)

    def manager(_: Request) -> Reply:
        now = controller.timeline.now
        return ok(
            {
                "@odata.id": names.MANAGER,
                "@odata.type": "#Manager.v1_17_0.Manager",
                "Actions": {
                    "#Manager.Reset": {
                        "ResetType@Redfish.AllowableValues": ["GracefulRestart"],
                        "target": f"{names.MANAGER}/Actions/Manager.Reset",
                    }
                },
                "DateTime": stamp(now),
                "DateTimeLocalOffset": stamp(now)[-6:],
                "FirmwareVersion": controller.identity.firmware,
                "Id": "iDRAC.Embedded.1",
                "Links": {
                    "ManagerForServers": [link(names.SYSTEM)],
                    "Oem": {
                        "Dell": {
                            "DellAttributes": [
                                link(f"{names.ATTRIBUTES}/{name}.Embedded.1") for name in ("iDRAC", "System", "LifecycleController")
                            ],
                            "DellJobService": link(names.JOB_SERVICE),
                            "DellLCService": link(names.LC_SERVICE),
                            "Jobs": link(names.DELL_JOBS),
                        }
                    },
                },
                "LogServices": link(f"{names.MANAGER}/LogServices"),
                "ManagerType": "BMC",
                "Model": "14G Monolithic",
                "Name": "Manager",
                "PowerState": "On",
                "Status": {"Health": "OK", "State": "Enabled"},
            }
        )

    def reset_manager(_: Request) -> Reply:
        controller.restart("user initiated")
        return Reply(204)

    return (
        Route("GET", names.SYSTEM, show),
        Route("POST", RESET, reset),
        Route("GET", names.MANAGER, manager),
        Route("POST", f"{names.MANAGER}/Actions/Manager.Reset", reset_manager),
    )


def _system(server: Server) -> dict[str, object]:
    controller = server.controller
    identity, status = controller.identity, server.status()
    policy = _POLICIES[str(controller.bios.current["AcPwrRcvry"])]
    if "boot.power-after-ac" in controller.faults:
        policy = "AlwaysOff"
    return {
        "@odata.context": "/redfish/v1/$metadata#ComputerSystem.ComputerSystem",
        "@odata.id": names.SYSTEM,
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "Actions": {"#ComputerSystem.Reset": {"ResetType@Redfish.AllowableValues": list(RESET_TYPES), "target": RESET}},
        "AssetTag": controller.bios.current["AssetTag"],
        "Bios": link(names.BIOS),
        "BiosVersion": identity.bios_version,
        "BootProgress": {"LastState": status.progress},
        "HostName": "",
        "Id": "System.Embedded.1",
        "Links": {"Chassis": [link(names.CHASSIS)], "ManagedBy": [link(names.MANAGER)]},
        "Manufacturer": "Dell Inc.",
        "MemorySummary": {"Status": {"Health": "OK", "State": "Enabled"}, "TotalSystemMemoryGiB": 384},
        "Model": identity.model,
        "Name": "System",
        "Oem": {
            "Dell": {
                "DellSystem": {
                    "CurrentRollupStatus": "OK",
                    "LastSystemInventoryTime": stamp(controller.inventory_at),
                    "MaxCPUSockets": 2,
                    "MaxPCIeSlots": 3,
                    "PopulatedPCIeSlots": 2,
                }
            }
        },
        "PCIeDevices": [],
        "PowerRestorePolicy": policy,
        "PowerState": status.power,
        "ProcessorSummary": {"Count": 2, "Model": "Model CPU 20-core", "Status": {"Health": "OK", "State": "Enabled"}},
        "SKU": identity.service_tag,
        "SerialNumber": f"MD{identity.service_tag}0001",
        "Status": {"Health": "OK", "HealthRollup": "OK", "State": "Enabled"},
        "SystemType": "Physical",
        "UUID": "4c4c4544-004d-4f10-8044-b0c04f4d3031",
    }
