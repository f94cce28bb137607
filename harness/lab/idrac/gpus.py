"""GPUs in the inventory of a simulated iDRAC, where the machine under it has it list any.

    Chassis/.../PCIeDevices/59-0                     no serial number, as a public capture of an R750 with an H100 shows it
    Systems/.../Processors/Video.Slot.1-1            the serial number, and a link to the device (NVIDIA/libredfish, iDRAC9 6.00)

No capture shows GPUs behind an external chassis, so by default there are none here.
"""

from __future__ import annotations

from harness.lab.idrac import names
from harness.lab.idrac.controller import Controller, ListedGpu, Server
from harness.lab.idrac.web import Json, Reply, Request, Route, collection, link, not_found, ok

PROCESSORS = f"{names.SYSTEM}/Processors"


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module; without GPUs the collection of processors is not there."""
    controller = server.controller

    def processors(request: Request) -> Reply:
        listed = _told(controller)
        if not listed:
            return not_found(request.path)
        members = [link(f"{PROCESSORS}/{gpu.fqdd}") for gpu in listed]
        return ok(collection(PROCESSORS, "ProcessorCollection", "ProcessorsCollection", members))

    def processor(request: Request) -> Reply:
        gpu = next((gpu for gpu in _told(controller) if gpu.fqdd == request.names["id"]), None)
        return not_found(request.path) if gpu is None else ok(_processor(request.path, gpu))

    return (Route("GET", PROCESSORS, processors), Route("GET", f"{PROCESSORS}/{{id}}", processor))


def links(controller: Controller) -> dict[str, Json]:
    """What the system's page says of processors."""
    return {"Processors": link(PROCESSORS)} if _told(controller) else {}


def device(path: str, gpu: ListedGpu) -> dict[str, Json]:
    """The page of a GPU as a PCIe device: who made it, and no more."""
    return {
        "@odata.id": path,
        "@odata.type": "#PCIeDevice.v1_11_0.PCIeDevice",
        "DeviceType": "SingleFunction",
        "Id": gpu.key,
        "Manufacturer": "NVIDIA Corporation",
        "Model": None,
        "Name": "NVIDIA Corporation",
        "PartNumber": None,
        "SerialNumber": None,
    }


def _told(controller: Controller) -> list[ListedGpu]:
    return [gpu for gpu in controller.gpus() if gpu.serial]


def _processor(path: str, gpu: ListedGpu) -> dict[str, Json]:
    return {
        "@odata.id": path,
        "@odata.type": "#Processor.v1_14_0.Processor",
        "Id": gpu.fqdd,
        "Links": {"Chassis": link(names.CHASSIS), "PCIeDevice": link(f"{names.CHASSIS}/PCIeDevices/{gpu.key}")},
        "Manufacturer": "NVIDIA Corporation",
        "Model": "Quadro RTX 8000",
        "Name": "GPU",
        "ProcessorType": "GPU",
        "SerialNumber": gpu.serial,
        "Status": {"Health": "OK", "State": "Enabled"},
    }
