"""The generations differ as the real ones do, and the harness goes by what each offers."""

from __future__ import annotations

import json

import pytest

from harness.clock import VirtualClock
from harness.errors import UsageMistake
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.generations import generation
from harness.lab.idrac.profile import OLD, PROFILES, find_profile
from harness.lab.model import parts
from harness.lab.model.machine import Machine


@pytest.fixture
def ask():
    """Ask a fresh machine of a profile; the answer is status, headers and body."""

    def of(profile):
        application = IdracApplication(Machine(VirtualClock(), profile=profile))
        login = json.dumps({"UserName": parts.BMC_USER, "Password": parts.BMC_PASSWORD}).encode()
        token = application.handle("POST", profile.sessions, {}, login)[1]["X-Auth-Token"]

        def send(method, path, body=None, **headers):
            sent = {"X-Auth-Token": token, **{name.replace("_", "-"): value for name, value in headers.items()}}
            status, answered, payload = application.handle(method, path, sent, json.dumps(body).encode() if body else b"")
            return status, answered, json.loads(payload) if payload else None

        return send

    return of


def by_name(name):
    return find_profile(name)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_each_says_who_it_is_and_what_it_offers(ask, profile):
    send = ask(profile)
    system, bios = send("GET", names.SYSTEM)[2], send("GET", names.BIOS)[2]
    assert send("GET", names.MANAGER)[2]["FirmwareVersion"] == profile.firmware
    assert system["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] == list(profile.resets)
    assert bios["@Redfish.Settings"].get("SupportedApplyTimes", []) == list(profile.apply_times)
    assert ("BootProgress" in system) is profile.has_boot_progress
    assert (send("GET", names.DMTF_JOBS)[0] == 200) is profile.has_job_service
    assert system["BiosVersion"] == bios["Attributes"]["SystemBiosVersion"] == profile.bios


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_messages_carry_the_registry_version_of_the_firmware(ask, profile):
    _, _, body = ask(profile)("GET", f"{names.ROOT}/Nowhere")
    assert body["error"]["@Message.ExtendedInfo"][0]["MessageId"] == f"{profile.messages}.SYS403"
    assert body["error"]["code"] == f"{profile.base}.GeneralError"


def test_the_first_idrac9_knows_two_steps_only(ask):
    send = ask(OLD)
    wanted = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": {"MemTest": "Enabled"}}
    status, headers, _ = send("PATCH", names.SETTINGS, wanted)
    assert (status, "Location" in headers) == (200, False)
    status, headers, _ = send("POST", names.OLD_JOBS, {"TargetSettingsURI": names.SETTINGS})
    assert headers["Location"].startswith(f"{names.OLD_JOBS}/JID_")


def test_idrac10_points_to_a_task_monitor_that_says_nothing_and_refuses_if_match_on_actions(ask):
    send = ask(by_name("idrac10"))
    wanted = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": {"MemTest": "Enabled"}}
    _, headers, _ = send("PATCH", names.SETTINGS, wanted)
    assert headers["Location"].startswith(f"{names.TASK_MONITORS}/JID_")
    assert send("GET", headers["Location"])[::2] == (204, None)
    reset = f"{names.SYSTEM}/Actions/ComputerSystem.Reset"
    assert send("POST", reset, {"ResetType": "ForceRestart"}, If_Match='W/"gen-31"')[0] == 412
    assert send("POST", reset, {"ResetType": "ForceRestart"})[0] == 204
    window = {"@Redfish.SettingsApplyTime": {"ApplyTime": "AtMaintenanceWindowStart"}, "Attributes": {"MemTest": "Disabled"}}
    assert send("PATCH", names.SETTINGS, window)[0] == 400


@pytest.mark.parametrize("name", ["14G early", "14G", "15G", "17G"])
def test_what_a_generation_is_delivered_with_is_allowed_and_consistent(name):
    known = generation(name)
    delivered = known.as_delivered()
    assert known.settled(delivered) == delivered
    assert [each.name for each in known.attributes if each.reject(each.initial)] == []
    assert {each.target for each in known.dependencies} <= set(known.by_name)


def test_the_newest_generation_lacks_what_public_clients_no_longer_find():
    older, newer = set(generation("15G").by_name), generation("17G").by_name
    assert older - set(newer) >= {"RedirAfterBoot", "AcPwrRcvry", "AcPwrRcvryDelay", "IoatEngine"}
    assert newer["BootMode"].read_only
    assert "Proc0NumCores" in newer


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(UsageMistake, match="idrac10"):
        find_profile("idrac11")
