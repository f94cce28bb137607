"""What an iDRAC's firmware ids mean."""

from __future__ import annotations

import json

import pytest

from harness.devices.firmware import Firmware, parse_firmware
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.lanes import ModelBmc
from harness.lab.model.machine import Machine

BASE = "/redfish/v1/UpdateService/FirmwareInventory/"


@pytest.mark.parametrize(
    ("own", "firmware"),
    [
        ("Installed-159-1.8.2__BIOS.Setup.1-1", Firmware("Installed", "159", "1.8.2", "BIOS.Setup.1-1")),
        ("Current-159-1.8.2__BIOS.Setup.1-1", Firmware("Current", "159", "1.8.2", "BIOS.Setup.1-1")),
        ("Previous-25227-4.40.29.00__iDRAC.Embedded.1-1", Firmware("Previous", "25227", "4.40.29.00", "iDRAC.Embedded.1-1")),
        ("Installed-0-        __NIC.Slot.1-1", Firmware("Installed", "0", "", "NIC.Slot.1-1")),
        (
            "Installed-0-2.1.3__Disk.Bay.1:Enclosure.Internal.0-1",
            Firmware("Installed", "0", "2.1.3", "Disk.Bay.1:Enclosure.Internal.0-1"),
        ),
        ("Installed-159-0.4.1", Firmware("Installed", "159", "0.4.1")),
    ],
)
def test_an_id_alone_tells_state_component_version_and_place(own, firmware):
    assert parse_firmware({"@odata.id": BASE + own}) == firmware
    assert parse_firmware({"Id": own}) == firmware


def test_the_version_property_comes_before_the_one_in_the_id():
    assert parse_firmware({"Id": "Installed-159-1__BIOS.Setup.1-1", "Version": "1.8.2"}).version == "1.8.2"


@pytest.mark.parametrize("body", [{}, {"Id": "BIOS"}, {"@odata.id": BASE}, None])
def test_an_id_of_another_shape_is_left_out(body):
    assert parse_firmware(body) is None


def test_what_a_rollback_would_bring_back_does_not_run(clock):
    machine = Machine(clock)
    idrac = Idrac(Redfish(ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD), clock))
    found = [each for each in idrac.firmware() if each.component == "25227"]
    assert {each.version: each.is_running for each in found} == {"7.00.00.182": True, "7.00.00.00": False}


@pytest.mark.parametrize("capture", ["R750_idrac9_6.00.30.00_bios_1.8.2_H100", "R750_idrac9_7.10.30.00_bios_1.13.2_lockdown"])
def test_every_recorded_id_is_read(field_data, capture):
    folder = field_data / "idrac/NVIDIA__libredfish" / capture / "redfish/v1/UpdateService/FirmwareInventory"
    members = json.loads((folder / "index.json").read_text())["Members"]
    found = [parse_firmware(member) for member in members]
    assert found
    assert None not in found
    assert {each.component for each in found if each.place == "BIOS.Setup.1-1"} == {"159"}
