from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from harness.lab.idrac import names

ENTRIES = f"{names.LOG}/Entries"


def status(client: Any) -> Any:
    return client.ask("POST", f"{names.LC_SERVICE}/Actions/DellLCService.GetRemoteServicesAPIStatus", {})


def test_the_status_follows_the_machine(client: Any) -> None:
    assert status(client)["ServerStatus"] == "OutOfPOST"
    client.reset()
    client.wait(60)
    assert (status(client)["ServerStatus"], status(client)["LCStatus"]) == ("InPOST", "Ready")
    client.reset("ForceOff")
    assert status(client)["ServerStatus"] == "PoweredOff"


def test_the_lifecycle_controller_is_in_use_while_somebody_sits_in_it(open_client: Callable[..., Any]) -> None:
    body = status(open_client("bios.preflight-lc"))
    assert (body["ServerStatus"], body["LCStatus"], body["Status"]) == ("LCUSC", "InUse", "InUse")


def test_a_screenshot_is_a_picture(client: Any) -> None:
    body = client.ask("POST", f"{names.LC_SERVICE}/Actions/DellLCService.ExportServerScreenShot", {"FileType": "ServerScreenShot"})
    assert base64.b64decode(body["ServerScreenShotFile"]).startswith(b"\x89PNG\r\n\x1a\n")
    client.ask("POST", f"{names.LC_SERVICE}/Actions/DellLCService.ExportServerScreenShot", {"FileType": "Film"})
    assert client.status == 400


def test_the_log_is_newest_first_and_its_numbers_only_grow(client: Any) -> None:
    client.reset()
    client.wait(1000)
    entries = client.get(ENTRIES)["Members"]
    numbers = [int(entry["Id"]) for entry in entries]
    dates = [entry["Created"] for entry in entries]
    assert numbers == sorted(numbers, reverse=True)
    assert dates == sorted(dates, reverse=True)
    assert client.get(f"{ENTRIES}/{numbers[0]}") == entries[0]


def test_the_log_is_filtered_by_id_date_and_number(client: Any) -> None:
    client.reset()
    client.wait(1000)

    def found(condition: str) -> list[str]:
        body = client.get(f"{ENTRIES}?$filter={quote(condition)}")
        return [entry["MessageId"].rpartition(".")[2] for entry in body["Members"]]

    assert found("MessageId eq 'SYS1003'") == ["SYS1003"]
    assert found("MessageId eq 'IDRAC.2.8.SYS1003'") == ["SYS1003"]
    newest = client.get(ENTRIES)["Members"]
    assert len(found(f"Id gt '{newest[2]['Id']}'")) == 2
    assert found(f"Created ge '{newest[0]['Created']}' and MessageId eq 'OSE1000'") == ["OSE1000"]
    assert found("MessageId eq 'PR8'") == []


def test_a_filter_that_cannot_be_read_is_refused(client: Any) -> None:
    assert client.ids(client.get(f"{ENTRIES}?$filter={quote('Message like x')}")) == ["SYS407"]
    assert client.ids(client.get(f"{ENTRIES}?$top=many")) == ["SYS407"]


def test_the_log_comes_in_pages(open_client: Callable[..., Any]) -> None:
    client = open_client("benign.pr7-events")
    for _ in range(3):
        client.reset()
        client.wait(1000)
    first = client.get(ENTRIES)
    assert (len(first["Members"]), first["Members@odata.count"] > 50) == (50, True)
    second = client.get(first["Members@odata.nextLink"])
    assert int(second["Members"][0]["Id"]) == int(first["Members"][-1]["Id"]) - 1
    assert len(client.get(f"{ENTRIES}?$top=3&$skip=2")["Members"]) == 3


@pytest.mark.parametrize("name", ["iDRAC.Embedded.1", "LifecycleController.Embedded.1", "System.Embedded.1"])
def test_dell_attributes_are_read(client: Any, name: str) -> None:
    assert client.get(f"{names.ATTRIBUTES}/{name}")["Attributes"]


def test_other_dell_attributes_are_not_found(client: Any) -> None:
    client.get(f"{names.ATTRIBUTES}/Toaster.Embedded.1")
    assert client.status == 404
