import json
import os
from pathlib import Path

import pytest

from harness.clock import VirtualClock
from harness.devices.idrac_pcie import BmcDevice, parse_device, parse_processor, read_bmc_inventory
from harness.devices.redfish import Redfish
from harness.ports import HttpAnswer

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
CHASSIS = "/redfish/v1/Chassis/System.Embedded.1"
DEVICES = f"{CHASSIS}/PCIeDevices"
PROCESSORS = f"{SYSTEM}/Processors"
NOT_SUPPORTED = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS446", "Message": "not supported"}]}}


class Pages:
    """Answers from a table of pages; counts what was asked."""

    def __init__(self, pages):
        self.pages = pages
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question.path)
        page = self.pages.get(question.path)
        return HttpAnswer(404 if page is None else 200, {}, NOT_SUPPORTED if page is None else page, 0.0, 0.0)

    def close(self):
        pass


def link(path):
    return {"@odata.id": path}


def device(key, serial=None, maker="NVIDIA Corporation"):
    return {"@odata.id": f"{DEVICES}/{key}", "Id": key, "Manufacturer": maker, "SerialNumber": serial}


def gpu(key, serial):
    return {
        "@odata.id": f"{PROCESSORS}/Video.Slot.{key}",
        "ProcessorType": "GPU",
        "SerialNumber": serial,
        "Links": {"PCIeDevice": link(f"{SYSTEM}/PCIeDevices/{key}")},
    }


def system(**more):
    return {"Id": "System.Embedded.1", **more}


def read(pages):
    asks = Pages(pages)
    return read_bmc_inventory(Redfish(asks, VirtualClock()), SYSTEM), asks


def test_the_serial_number_of_a_gpu_comes_from_its_processor():
    pages = {
        SYSTEM: system(Links={"Chassis": [link(CHASSIS)]}, Processors=link(PROCESSORS)),
        CHASSIS: {"Id": "1", "PCIeDevices": link(DEVICES)},
        f"{DEVICES}?$expand=*($levels=1)": {"Members": [device("23-0"), device("216-0", maker="Model Fabric")]},
        f"{PROCESSORS}?$expand=*($levels=1)": {"Members": [gpu("23-0", "9990000000001"), {"ProcessorType": "CPU"}]},
    }
    inventory, asks = read(pages)
    assert inventory.devices == (
        BmcDevice("0000:17:00", "9990000000001", "NVIDIA Corporation"),
        BmcDevice("0000:d8:00", "", "Model Fabric"),
    )
    assert len(asks.asked) == 4
    assert inventory.at("0000:17:00.0") == inventory.devices[0]
    assert inventory.at("0000:18:00.0") is None


def test_one_link_for_each_function_is_one_device():
    pages = {SYSTEM: system(PCIeDevices=[link(f"{DEVICES}/202-0")] * 3), f"{DEVICES}/202-0": device("202-0")}
    inventory, asks = read(pages)
    assert [found.address for found in inventory.devices] == ["0000:ca:00"]
    assert asks.asked == [SYSTEM, f"{DEVICES}/202-0"]


def test_members_are_asked_for_one_by_one_where_a_collection_does_not_expand():
    pages = {
        SYSTEM: system(Links={"Chassis": [link(CHASSIS)]}),
        CHASSIS: {"Id": "1", "PCIeDevices": link(DEVICES)},
        DEVICES: {"Members": [link(f"{DEVICES}/59-0"), link(f"{DEVICES}/59-0"), link(f"{DEVICES}/60-0")]},
        f"{DEVICES}/59-0": device("59-0", "9990000000002"),
        f"{DEVICES}/60-0": device("60-0"),
    }
    inventory, asks = read(pages)
    assert [(found.address, found.serial) for found in inventory.devices] == [("0000:3b:00", "9990000000002"), ("0000:3c:00", "")]
    assert asks.asked.count(f"{DEVICES}/59-0") == 1


def test_a_system_that_links_to_no_devices_lists_none():
    inventory, asks = read({SYSTEM: system()})
    assert inventory.devices == ()
    assert inventory.unread == ""
    assert asks.asked == [SYSTEM]


def test_the_time_of_the_inventory_is_told():
    told = {"Dell": {"DellSystem": {"LastSystemInventoryTime": "2026-01-05T08:30:55-06:00"}}}
    assert read({SYSTEM: system(Oem=told)})[0].collected == "2026-01-05T08:30:55-06:00"


@pytest.mark.parametrize("key", ["", "NIC.Slot.1", "999-0", "1-2-3", "59", "-1-0"])
def test_an_id_that_names_no_bus_is_no_device(key):
    assert parse_device({"Id": key, "@odata.id": f"{DEVICES}/{key}"}) is None
    assert parse_processor(gpu(key, "1")) is None


def test_recorded_idracs_list_their_devices_once_and_the_gpu_with_its_serial_number():
    root = os.environ.get("BRINGUP_FIELD_DATA")
    if not root:
        pytest.skip("BRINGUP_FIELD_DATA is not set")
    for recorded in sorted(Path(root, "idrac/NVIDIA__libredfish").glob("R750*")):
        pages = {f"/{file.parent.relative_to(recorded)}": json.loads(file.read_text()) for file in recorded.rglob("index.json")}
        devices = {path: page for path, page in pages.items() if path.startswith(f"{DEVICES}/") and path.count("/") == 6}
        inventory, _ = read(pages)
        assert len(inventory.devices) == len(devices)
        nvidia = [found for found in inventory.devices if found.maker.startswith("NVIDIA")]
        assert [bool(found.serial) for found in nvidia] == [True] * ("H100" in recorded.name)
