"""Pages of the inventory: firmware, chassis and PCIe devices.

No public capture shows GPUs behind an external PCIe switch on an iDRAC. The model takes the cautious one of the
possibilities: it lists the HBAs in the server's own slots and nothing behind them, so nobody can use it as the only witness.
"""

from __future__ import annotations

from harness.lab.idrac import chassis_power, gpus, names
from harness.lab.idrac.controller import Controller, Server
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.web import Json, Reply, Request, Route, collection, link, not_found, ok

_INTERFACE = {"LanesInUse": 16, "MaxLanes": 16, "MaxPCIeType": "Gen3", "PCIeType": "Gen3"}
"""Only firmware from 7.00 on has it (NVIDIA/libredfish, 6.00 against 7.10)."""

_PREVIOUS = "2.19.1"

_DEVICES = {"59-0": "PCIe Slot 1", "216-0": "PCIe Slot 3"}
"""Id (decimal bus and device, as iDRAC numbers them) and slot of each HBA."""


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller

    def update_service(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": f"{names.ROOT}/UpdateService",
                "@odata.type": "#UpdateService.v1_11_3.UpdateService",
                "FirmwareInventory": link(names.FIRMWARE),
                "Id": "UpdateService",
                "Name": "Update Service",
                "ServiceEnabled": True,
            }
        )

    def firmware(_: Request) -> Reply:
        members = [link(f"{names.FIRMWARE}/{entry}") for entry in _firmware(controller)]
        return ok(collection(names.FIRMWARE, "SoftwareInventoryCollection", "Software Inventory Collection", members))

    def one_firmware(request: Request) -> Reply:
        found = _firmware(controller).get(request.names["id"])
        if found is None:
            return not_found(request.path)
        return ok(
            {
                "@odata.id": request.path,
                "@odata.type": "#SoftwareInventory.v1_9_0.SoftwareInventory",
                "Id": request.names["id"],
                "Name": found[0],
                "SoftwareId": request.names["id"].split("-")[1],
                "Status": {"Health": "OK", "State": "Enabled"},
                "Updateable": True,
                "Version": found[1],
            }
        )

    def chassis(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": names.CHASSIS,
                "@odata.type": "#Chassis.v1_23_0.Chassis",
                "Actions": chassis_power.actions(),
                "ChassisType": "RackMount",
                "Id": "System.Embedded.1",
                "Links": {"ComputerSystems": [link(names.SYSTEM)], "ManagedBy": [link(names.MANAGER)]},
                "Manufacturer": "Dell Inc.",
                "Model": controller.identity.model,
                "Name": "Computer System Chassis",
                "PCIeDevices": link(f"{names.CHASSIS}/PCIeDevices"),
                "PowerState": server.status().power,
                "SKU": controller.identity.service_tag,
            }
        )

    def devices(_: Request) -> Reply:
        path = f"{names.CHASSIS}/PCIeDevices"
        keys = (*_DEVICES, *(gpu.key for gpu in controller.gpus()))
        return ok(collection(path, "PCIeDeviceCollection", "PCIeDeviceCollection", [link(f"{path}/{key}") for key in keys]))

    def device(request: Request) -> Reply:
        for gpu in controller.gpus():
            if gpu.key == request.names["id"]:
                return ok(gpus.device(request.path, gpu))
        slot = _DEVICES.get(request.names["id"])
        if slot is None:
            return not_found(request.path)
        return ok(
            {
                "@odata.id": request.path,
                "@odata.type": "#PCIeDevice.v1_11_0.PCIeDevice",
                "DeviceType": "SingleFunction",
                "Id": request.names["id"],
                "Manufacturer": "Model Fabric",
                "Model": f"Host adapter in {slot}",
                "Name": "Host adapter",
                **({"PCIeInterface": _INTERFACE} if controller.profile.has_device_interface else {}),
                "PartNumber": None,
                "SerialNumber": None,
            }
        )

    return (
        Route("GET", f"{names.ROOT}/UpdateService", update_service),
        Route("GET", names.FIRMWARE, firmware),
        Route("GET", f"{names.FIRMWARE}/{{id}}", one_firmware),
        Route("GET", names.CHASSIS, chassis),
        *chassis_power.routes(server),
        Route("GET", f"{names.CHASSIS}/PCIeDevices", devices),
        Route("GET", f"{names.CHASSIS}/PCIeDevices/{{id}}", device),
    )


def _firmware(controller: Controller) -> dict[str, tuple[str, Json]]:
    """Ids as ``{Installed|Previous}-{ComponentID}-{Version}__{FQDD}``; 159 is the BIOS, 25227 iDRAC (NVIDIA/libredfish)."""
    bios, firmware = controller.identity.bios_version, controller.identity.firmware
    listed = (
        ("Installed", 159, bios, "BIOS.Setup.1-1", "BIOS"),
        ("Previous", 159, _PREVIOUS, "BIOS.Setup.1-1", "BIOS"),
        ("Installed", 25227, firmware, "iDRAC.Embedded.1-1", "Integrated Dell Remote Access Controller"),
        ("Previous", 25227, "7.00.00.00", "iDRAC.Embedded.1-1", "Integrated Dell Remote Access Controller"),
        ("Installed", 27763, "1.0.6", "CPLD.Embedded.1", "System CPLD"),
        ("Installed", 0, "22.31.6", "NIC.Integrated.1-1-1", "Ethernet adapter"),
        ("Installed", 108076, "00.1D.7D", "PSU.Slot.1", "Power Supply.Slot.1"),
        ("Installed", 28897, firmware, "USC.Embedded.1:LC.Embedded.1", "Lifecycle Controller"),
    )
    return {
        firmware_id(controller.profile, state, component, version, place): (name, version)
        for state, component, version, place, name in listed
    }


def firmware_id(profile: Profile, state: str, component: int, version: str, place: str) -> str:
    """The id of an inventory entry; iDRAC9 3.15 does not say which device it is of (sailfishdell/sailfish)."""
    return f"{state}-{component}-{version}" + (f"__{place}" if profile.qualifies_firmware else "")
