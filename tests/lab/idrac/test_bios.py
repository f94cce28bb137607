from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Unreachable
from harness.lab.idrac import names, registry
from harness.lab.idrac.generations import generation

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


def pending(client: Any) -> Any:
    return client.get(names.SETTINGS)["Attributes"]


def jobs(client: Any) -> Any:
    return client.get(names.DELL_JOBS)["Members"]


def test_the_machine_comes_as_delivered(client: Any) -> None:
    body = client.get(names.BIOS)
    values = body["Attributes"]
    assert (values["MmioAbove4Gb"], values["OsWatchdogTimer"]) == ("Disabled", "Enabled")
    assert (values["AcPwrRcvry"], values["EmbVideo"], values["BootMode"]) == ("Last", "Enabled", "Uefi")
    assert body["@Redfish.Settings"]["SettingsObject"] == {"@odata.id": names.SETTINGS}
    assert "OnReset" in body["@Redfish.Settings"]["SupportedApplyTimes"]
    assert pending(client) == {}


def test_a_patch_with_an_apply_time_stages_and_makes_the_job(client: Any) -> None:
    client.patch(WANTED)
    assert client.status == 202
    assert client.headers["Location"].startswith(names.TASKS)
    job = client.get(f"{names.DELL_JOBS}/{client.job_id()}")
    assert (job["JobState"], job["MessageId"], job["JobType"]) == ("Scheduled", "JCP001", "BIOSConfiguration")
    assert pending(client) == WANTED
    assert client.get(names.BIOS)["Attributes"]["MmioAbove4Gb"] == "Disabled"


def test_values_in_effect_already_make_no_job(client: Any) -> None:
    client.patch({"EmbVideo": "Enabled"})
    assert client.status == 200
    assert "Location" not in client.headers
    assert jobs(client) == []


def test_the_two_steps_of_old_firmware(client: Any) -> None:
    client.patch(WANTED, apply_time=None)
    assert (client.status, jobs(client)) == (200, [])
    client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})
    assert client.status == 200
    assert client.headers["Location"].startswith(names.OLD_JOBS)
    assert len(jobs(client)) == 1


def test_no_job_is_made_from_nothing(client: Any) -> None:
    assert client.ids(client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})) == ["BIOS008"]


def test_a_second_write_is_refused_while_a_job_waits(client: Any) -> None:
    client.patch(WANTED)
    body = client.patch({"MemTest": "Enabled"})
    assert (client.status, client.ids(body)) == (400, ["SYS011"])
    assert body["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"] == ["#/Attributes/MemTest"]
    assert client.ids(client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})) == ["SYS011"]
    assert pending(client) == WANTED


def test_pending_values_are_cleared_only_without_a_job(client: Any) -> None:
    assert client.ids(client.ask("POST", names.CLEAR_PENDING, {})) == ["BIOS012"]
    client.patch(WANTED)
    job = client.job_id()
    assert client.ids(client.ask("POST", names.CLEAR_PENDING, {})) == ["BIOS011"]
    client.ask("DELETE", f"{names.DELL_JOBS}/{job}")
    assert pending(client) == WANTED
    client.ask("POST", names.CLEAR_PENDING, {})
    assert (client.status, pending(client)) == (200, {})


@pytest.mark.parametrize(
    ("attributes", "message_id"),
    [
        ({"NoSuchThing": "Enabled"}, "SYS429"),
        ({"PcieBusCustomization": "PcieBusUniform"}, "SYS429"),
        ({"SystemModelName": "Other"}, "SYS427"),
        ({"MmioAbove4Gb": True}, "SYS424"),
        ({"AcPwrRcvryUserDelay": "90"}, "SYS424"),
        ({"MmioAbove4Gb": "Yes"}, "SYS426"),
        ({"AcPwrRcvryUserDelay": 20, "AcPwrRcvryDelay": "User"}, "SYS425"),
        ({"AssetTag": "x" * 64}, "SYS425"),
        ({"PcieAspmL1": "Disabled"}, "SYS410"),
        ({"Slot1Bif": "x8"}, "SYS410"),
    ],
)
def test_a_bad_value_is_refused_and_nothing_is_taken(client: Any, attributes: dict[str, Any], message_id: str) -> None:
    body = client.patch({**WANTED, **attributes})
    assert (client.status, client.ids(body)) == (400, [message_id])
    assert pending(client) == {}


def test_read_only_is_judged_as_it_is_after_the_same_request(client: Any) -> None:
    client.patch({"SysProfile": "Custom", "PcieAspmL1": "Disabled"})
    assert client.status == 202


def test_a_profile_forces_what_depends_on_it(client: Any) -> None:
    client.patch({"SysProfile": "PerfOptimized"})
    client.reset()
    client.wait(3000)
    client.log_in()
    values = client.get(names.BIOS)["Attributes"]
    assert (values["PcieAspmL1"], values["ProcPwrPerf"]) == ("Disabled", "MaxPerf")


def test_a_request_reads_back_at_rest(client: Any) -> None:
    client.patch({"WorkloadProfile": "HpcProfile"})
    client.reset()
    client.wait(3000)
    client.log_in()
    assert client.get(names.BIOS)["Attributes"]["WorkloadProfile"] == "NotAvailable"


@pytest.mark.parametrize(
    ("apply", "message_id"),
    [
        ({"ApplyTime": "Immediate"}, "SYS426"),
        ({"ApplyTime": "AtMaintenanceWindowStart"}, "SYS428"),
        (
            {"ApplyTime": "AtMaintenanceWindowStart", "MaintenanceWindowStartTime": "x", "MaintenanceWindowDurationInSeconds": 60},
            "SYS448",
        ),
    ],
)
def test_an_apply_time_that_is_not_offered_is_refused(client: Any, apply: Any, message_id: str) -> None:
    body = client.ask("PATCH", names.SETTINGS, {"@Redfish.SettingsApplyTime": apply, "Attributes": WANTED})
    assert client.ids(body) == [message_id]


def test_a_stale_etag_is_refused_and_the_current_one_is_taken(client: Any) -> None:
    client.get(names.SETTINGS)
    etag = client.headers["ETag"]
    body = client.ask("PATCH", names.SETTINGS, {"Attributes": WANTED}, If_Match='"old"')
    assert (client.status, client.ids(body)) == (412, ["PreconditionFailed"])
    client.ask("PATCH", names.SETTINGS, {"Attributes": WANTED}, If_Match=etag)
    assert client.status == 200


def test_lockdown_refuses_every_write_and_shows_in_the_registry(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.preflight-lockdown")
    assert client.ids(client.patch(WANTED)) == ["SYS406"]
    assert client.ids(client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})) == ["JCP041"]
    assert client.get(f"{names.ATTRIBUTES}/iDRAC.Embedded.1")["Attributes"]["Lockdown.1.SystemLockdown"] == "Enabled"
    entries = client.get(f"{names.BIOS}/BiosRegistry")["RegistryEntries"]["Attributes"]
    assert all(entry["ReadOnly"] for entry in entries)


def test_without_a_lifecycle_controller_no_job_is_made(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.preflight-lc.disabled")
    assert client.ids(client.patch(WANTED)) == ["BIOS010"]
    assert client.ids(client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})) == ["BIOS010"]
    settings = client.get(f"{names.ATTRIBUTES}/LifecycleController.Embedded.1")["Attributes"]
    assert settings["LCAttributes.1.LifecycleControllerState"] == "Disabled"


def test_an_attribute_that_cannot_be_set_says_so_in_the_registry(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.attributes")
    assert client.ids(client.patch({"EmbVideo": "Enabled"})) == ["SYS427"]
    entries = client.get(f"{names.BIOS}/BiosRegistry")["RegistryEntries"]["Attributes"]
    read_only = {entry["AttributeName"] for entry in entries if entry["ReadOnly"]}
    assert "EmbVideo" in read_only
    assert "MmioAbove4Gb" not in read_only


def test_an_old_bios_says_so_everywhere(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.version")
    assert client.get(names.SYSTEM)["BiosVersion"] == "2.4.7"
    assert client.get(names.BIOS)["Attributes"]["SystemBiosVersion"] == "2.4.7"
    client.get(f"{names.FIRMWARE}/Installed-159-2.4.7__BIOS.Setup.1-1")
    assert client.status == 200


def test_a_lost_answer_is_lost_once_and_was_taken(open_client: Callable[..., Any]) -> None:
    client = open_client("benign.patch-answer-lost")
    with pytest.raises(Unreachable):
        client.patch(WANTED)
    assert pending(client) == WANTED
    assert len(jobs(client)) == 1


def test_a_lost_answer_may_mean_that_nothing_was_taken(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.reconcile")
    with pytest.raises(Unreachable):
        client.patch(WANTED)
    assert pending(client) == {}
    assert jobs(client) == []


def test_a_firmware_that_makes_no_job_makes_none_on_request_either(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.job-before-reset")
    client.patch(WANTED)
    assert (client.status, "Location" in client.headers, pending(client), jobs(client)) == (200, False, WANTED, [])
    assert client.ids(client.ask("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})) == ["BIOS008"]


def test_defaults_are_loaded_and_logged(client: Any) -> None:
    client.ask("POST", f"{names.BIOS}/Actions/Bios.ResetBios", {})
    assert client.status == 200
    assert client.get(f"{names.LOG}/Entries?$filter=MessageId eq 'UEFI0157'")["Members@odata.count"] == 1


def test_the_registry_holds_everything_that_bios_shows_and_more(client: Any) -> None:
    shown = set(client.get(names.BIOS)["Attributes"])
    entries = client.get(f"{names.BIOS}/BiosRegistry")["RegistryEntries"]
    known = [entry["AttributeName"] for entry in entries["Attributes"]]
    assert len(known) == len(set(known))
    assert shown < set(known)
    for dependency in entries["Dependencies"]:
        assert dependency["DependencyFor"] in known
        assert all(source["MapFromAttribute"] in known for source in dependency["Dependency"]["MapFrom"])


def test_what_is_delivered_is_allowed_and_consistent() -> None:
    known = generation("14G")
    delivered = known.as_delivered()
    assert known.settled(delivered) == delivered
    assert [attribute.name for attribute in registry.ATTRIBUTES if attribute.reject(attribute.initial)] == []


def test_names_types_and_menus_are_those_of_a_recorded_14g_machine() -> None:
    root = os.environ.get("BRINGUP_FIELD_DATA")
    if not root:
        pytest.skip("BRINGUP_FIELD_DATA is not set")
    recorded = next(Path(root).glob("idrac/sailfishdell__sailfish/R740*/**/BiosRegistry/index.json"))
    entries = {entry["AttributeName"]: entry for entry in json.loads(recorded.read_text())["RegistryEntries"]["Attributes"]}
    later = {"PcieBusCustomization", "PCIRootDeviceUnhide", "MmioLimit", "InBandManageabilityInterface", "Slot2Bif", "Slot3Bif"}
    mine = [attribute for attribute in registry.ATTRIBUTES if attribute.name not in later]
    assert [attribute.name for attribute in mine if attribute.name not in entries] == []
    for attribute in mine:
        assert attribute.type == entries[attribute.name]["Type"]
        values = {value["ValueName"] for value in entries[attribute.name].get("Value") or ()}
        assert set(attribute.values) <= values | {"x16"} or not attribute.values
