from __future__ import annotations

from typing import Any

import pytest

from harness.lab.idrac import names
from harness.lab.idrac.controller import ListedGpu

DEVICES = f"{names.CHASSIS}/PCIeDevices"
PROCESSORS = f"{names.SYSTEM}/Processors"


def test_by_default_no_gpu_is_listed_and_no_processors_are_linked(client: Any) -> None:
    client.log_in()
    assert "Processors" not in client.get(names.SYSTEM)
    client.get(PROCESSORS)
    assert client.status == 404
    assert len(client.get(DEVICES)["Members"]) == 2


@pytest.mark.parametrize(("serial", "processors"), [("", 0), ("9990000000001", 1)])
def test_a_listed_gpu_is_a_device_without_a_serial_number_and_a_processor_with_one(
    client: Any, serial: str, processors: int
) -> None:
    client.machine.controller.gpus = lambda: (ListedGpu(0x3F, 0, serial),)
    client.log_in()
    listed = client.get(f"{DEVICES}?$expand=*($levels=1)")["Members"]
    assert [(device["Id"], device["SerialNumber"]) for device in listed][-1] == ("63-0", None)
    told = client.get(f"{PROCESSORS}?$expand=*($levels=1)") if processors else {"Members": []}
    assert [gpu["SerialNumber"] for gpu in told["Members"]] == [serial] * processors
    assert ("Processors" in client.get(names.SYSTEM)) is bool(processors)
