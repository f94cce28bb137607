"""The PCIe devices that an iDRAC lists, as one more witness of who sits where.

    System ─┬▶ Links.Chassis[0] ─▶ PCIeDevices ─▶ 23-0: Manufacturer, SerialNumber     one for each device, or function by function
            ├▶ PCIeDevices (a list of links)                                           firmware whose chassis has no collection
            └▶ Processors ─▶ Video.Slot.2-1: ProcessorType GPU, SerialNumber ─▶ Links.PCIeDevice

An id is the bus and the device in decimal, which move as bus numbers do; a PCIeDevice tells no serial number of a GPU, the
processor does. Both by a public capture of an R750 with an H100 and iDRAC9 6.00 (NVIDIA/libredfish tests/mockups). One link for
each function instead of each device: jenningsloy318/redfish_exporter#57. No public capture shows what it lists of GPUs behind an
external chassis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.devices.redfish import Redfish, dig, is_place, link, text
from harness.errors import RedfishError
from harness.ports import Json

_ID = re.compile(r"(?P<bus>\d{1,3})-(?P<device>\d{1,2})")


@dataclass(frozen=True)
class BmcDevice:
    """One device. ``address`` is its bus and device as in ``0000:3b:00``, ``serial`` empty where it is not told."""

    address: str
    serial: str = ""
    maker: str = ""


@dataclass(frozen=True)
class BmcInventory:
    """What the BMC lists; ``unread`` says why there is no list, else it is empty.

    ``collected`` is when the list was made, by the BMC's own clock.
    """

    devices: tuple[BmcDevice, ...] = ()
    collected: str = ""
    unread: str = ""

    def at(self, bdf: str) -> BmcDevice | None:
        """The device that the function ``bdf`` belongs to, None where the list has none there."""
        address = bdf.partition(".")[0]
        return next((device for device in self.devices if device.address == address), None)


def read_bmc_inventory(redfish: Redfish, system_path: str) -> BmcInventory:
    """Follow the links from the system. Raises as ``Redfish.get``; a list that is not linked is empty."""
    system = redfish.get(system_path)
    listed = [parse_device(body) for body in _devices(redfish, system)]
    processors = link(system, "Processors")
    gpus = [parse_processor(body) for body in _members(redfish, processors)] if is_place(processors) else []
    collected = text(system, "Oem", "Dell", "DellSystem", "LastSystemInventoryTime")
    return BmcInventory(_merged([*listed, *gpus]), collected)


def parse_device(body: Json) -> BmcDevice | None:
    """Read a PCIeDevice, or a mere link to one; None for an id that names no bus."""
    address = _address(text(body, "Id") or link(body))
    return BmcDevice(address, text(body, "SerialNumber").strip(), text(body, "Manufacturer")) if address else None


def parse_processor(body: Json) -> BmcDevice | None:
    """Read a processor; None for what is no GPU or does not say which PCIe device it is."""
    address = _address(link(body, "Links", "PCIeDevice"))
    if text(body, "ProcessorType") != "GPU" or not address:
        return None
    return BmcDevice(address, text(body, "SerialNumber").strip(), text(body, "Manufacturer"))


def _devices(redfish: Redfish, system: Json) -> list[Json]:
    chassis = link(system, "Links", "Chassis", 0)
    collection = link(redfish.get(chassis), "PCIeDevices") if is_place(chassis) else ""
    if is_place(collection):
        return _members(redfish, collection)
    links = dig(system, "PCIeDevices")
    paths = dict.fromkeys(link(entry) for entry in links) if isinstance(links, list) else {}
    return [redfish.get(path) for path in paths if is_place(path)]


def _members(redfish: Redfish, collection: str) -> list[Json]:
    """The members of a collection, expanded at one level; where that is refused, each is asked for."""
    try:
        members = list(redfish.members(f"{collection}?$expand=*($levels=1)"))
    except RedfishError:
        members = list(redfish.members(collection))
    whole = {link(member): member for member in members}
    return [redfish.get(path) if set(member) == {"@odata.id"} and is_place(path) else member for path, member in whole.items()]


def _address(place: str) -> str:
    found = _ID.fullmatch(place.rpartition("/")[2])
    return f"0000:{int(found['bus']):02x}:{int(found['device']):02x}" if found and int(found["bus"]) < 256 else ""


def _merged(devices: Iterable[BmcDevice | None]) -> tuple[BmcDevice, ...]:
    """One for each address, each fact from the last that tells it."""
    merged: dict[str, BmcDevice] = {}
    for device in devices:
        if device is not None:
            known = merged.get(device.address, device)
            merged[device.address] = replace(known, serial=device.serial or known.serial, maker=device.maker or known.maker)
    return tuple(merged[address] for address in sorted(merged))
