"""Pages of the server: identity, power, boot progress, reset."""

from __future__ import annotations

from harness.lab.idrac import gpus, mishaps, names, scp
from harness.lab.idrac.controller import Server
from harness.lab.idrac.log import stamp
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.web import Complaint, Reply, Request, Route, link, ok, refuse

RESET = f"{names.SYSTEM}/Actions/ComputerSystem.Reset"
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
        if kind not in mishaps.resets(controller):
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
                    },
                    "Oem": scp.actions(controller.profile),
                },
                "DateTime": stamp(now),
                "DateTimeLocalOffset": stamp(now)[-6:],
                "FirmwareVersion": controller.identity.firmware,
                "Id": "iDRAC.Embedded.1",
                "Links": {
                    "ManagerForServers": [link(names.SYSTEM)],
                    "Oem": {"Dell": _dell_links(controller.profile)},
                },
                "LogServices": link(f"{names.MANAGER}/LogServices"),
                "ManagerType": "BMC",
                "Model": controller.profile.manager,
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


def _dell_links(profile: Profile) -> dict[str, object]:
    """What Dell links from its manager: the first iDRAC9 levels tell of jobs and attributes only (sailfishdell/sailfish)."""
    parts = ("iDRAC", "System", "LifecycleController")
    found: dict[str, object] = {
        "DellAttributes": [link(profile.attributes_at.format(id=f"{part}.Embedded.1")) for part in parts],
        "Jobs": link(profile.jobs),
    }
    if profile.lc_service == names.LC_SERVICE:
        found |= {"DellJobService": link(names.JOB_SERVICE), "DellLCService": link(names.LC_SERVICE)}
    return found


def _system(server: Server) -> dict[str, object]:
    controller = server.controller
    identity, status = controller.identity, server.status()
    policy = _POLICIES.get(str(controller.bios.current.get("AcPwrRcvry")), "")
    if "boot.power-after-ac" in controller.faults:
        policy = "AlwaysOff"
    body: dict[str, object] = {
        "@odata.context": "/redfish/v1/$metadata#ComputerSystem.ComputerSystem",
        "@odata.id": names.SYSTEM,
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "Actions": {
            "#ComputerSystem.Reset": {"ResetType@Redfish.AllowableValues": list(mishaps.resets(controller)), "target": RESET}
        },
        "AssetTag": controller.bios.current.get("AssetTag", ""),
        "Bios": link(names.BIOS),
        "BiosVersion": identity.bios_version,
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
        "PCIeDevices": mishaps.devices(controller),
        **gpus.links(controller),
        "PowerState": status.power,
        "ProcessorSummary": {"Count": 2, "Model": "Model CPU 20-core", "Status": {"Health": "OK", "State": "Enabled"}},
        "SKU": identity.service_tag,
        "SerialNumber": f"MD{identity.service_tag}0001",
        "Status": {"Health": "OK", "HealthRollup": "OK", "State": "Enabled"},
        "SystemType": "Physical",
        "UUID": "4c4c4544-004d-4f10-8044-b0c04f4d3031",
    }
    if controller.profile.has_boot_progress:
        body["BootProgress"] = {"LastState": status.progress}
    return body | ({"PowerRestorePolicy": policy} if policy else {})
