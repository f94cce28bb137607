from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.errors import Unreachable
from harness.lab.idrac import names


def links(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        for key, value in body.items():
            if key == "@odata.id" or (isinstance(value, str) and key.endswith("nextLink")):
                yield value
            else:
                yield from links(value)
    elif isinstance(body, list):
        for value in body:
            yield from links(value)


def test_every_link_leads_somewhere(client: Any) -> None:
    client.patch({"MemTest": "Enabled"})
    waiting, seen = [names.ROOT], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        body = client.get(path)
        assert client.status == 200, path
        waiting.extend(links(body))
    assert len(seen) > 40
    assert {names.BIOS, names.SETTINGS, names.DELL_JOBS, names.TASKS, f"{names.LOG}/Entries"} <= seen


def test_an_unknown_path_is_named_in_a_404(client: Any) -> None:
    body = client.get("/redfish/v1/Systems/Other")
    assert (client.status, client.ids(body)) == (404, ["SYS403"])
    assert body["error"]["@Message.ExtendedInfo"][0]["MessageArgs"] == ["/redfish/v1/Systems/Other"]


def test_a_slash_at_the_end_changes_nothing(client: Any) -> None:
    assert client.get(f"{names.SYSTEM}/") == client.get(names.SYSTEM)


def test_json_that_cannot_be_read_is_refused(client: Any) -> None:
    status, _, body = client.application.handle("PATCH", names.SETTINGS, {"X-Auth-Token": client.token}, b"{")
    assert status == 400
    assert b"SYS405" in body


def test_expand_brings_the_members_and_select_the_chosen_properties(client: Any) -> None:
    expanded = client.get(f"{names.ROOT}/Systems?$expand=*($levels=1)")
    assert expanded["Members"][0]["Model"] == "PowerEdge R640"
    selected = client.get(f"{names.SYSTEM}?$select=PowerState,SKU")
    assert {key for key in selected if not key.startswith("@")} == {"PowerState", "SKU"}


def test_nothing_answers_while_idrac_restarts_and_the_session_is_lost(client: Any) -> None:
    client.ask("POST", f"{names.MANAGER}/Actions/Manager.Reset", {"ResetType": "GracefulRestart"})
    assert client.status == 204
    with pytest.raises(Unreachable, match="restarting"):
        client.get(names.ROOT)
    client.wait(180)
    client.get(names.SYSTEM)
    assert client.status == 401
    client.log_in()
    newest = client.get(f"{names.LOG}/Entries?$filter=MessageId eq 'RAC0182'")
    assert newest["Members@odata.count"] == 1


def test_a_slow_start_is_answered_with_swc0700_once(open_client: Callable[..., Any]) -> None:
    client = open_client("benign.session-slow")
    assert (client.ids(client.get(names.SYSTEM)), client.status) == (["SWC0700"], 400)
    client.get(names.SYSTEM)
    assert client.status == 200


def test_resets_that_are_not_offered_are_refused(client: Any) -> None:
    assert client.ids(client.reset("GracefulDance")) == ["SYS426"]
    assert client.ids(client.reset("On")) == ["PSU501"]
    client.reset("ForceOff")
    assert client.ids(client.reset("ForceOff")) == ["PSU502"]
    client.reset("On")
    assert client.status == 204
    assert client.ids(client.ask("POST", f"{names.SYSTEM}/Actions/ComputerSystem.Reset", {})) == ["SYS428"]


def test_the_power_policy_follows_the_bios_attribute_and_a_fault_contradicts_it(open_client: Callable[..., Any]) -> None:
    assert open_client().get(names.SYSTEM)["PowerRestorePolicy"] == "LastState"
    contradicted = open_client("boot.power-after-ac")
    assert contradicted.get(names.SYSTEM)["PowerRestorePolicy"] == "AlwaysOff"
    assert contradicted.get(names.BIOS)["Attributes"]["AcPwrRcvry"] == "Last"


def test_the_bios_version_is_the_same_wherever_it_stands(client: Any) -> None:
    version = client.get(names.SYSTEM)["BiosVersion"]
    assert client.get(names.BIOS)["Attributes"]["SystemBiosVersion"] == version
    assert client.get(f"{names.FIRMWARE}/Installed-159-{version}__BIOS.Setup.1-1")["Version"] == version
