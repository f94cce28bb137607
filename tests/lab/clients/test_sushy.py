"""OpenStack's client at work on the simulated iDRAC: log in, read, change a setting, restart, log out."""

from __future__ import annotations

import pytest

from harness.clock import WallClock
from harness.lab.idrac.profile import OLD, PROFILES

sushy = pytest.importorskip("sushy")
pytestmark = [pytest.mark.socket, pytest.mark.slow]

NEWER = [pytest.param(profile, id=profile.name) for profile in PROFILES if profile is not OLD]


@pytest.fixture
def connect(serve_idrac, monkeypatch):
    """A served iDRAC and sushy logged in on it, with the certificate verified."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    opened = []

    def build(*arguments):
        bmc = serve_idrac(*arguments)
        client = sushy.Sushy(bmc.served.url, username=bmc.served.user, password=bmc.password, verify=str(bmc.certificate))
        opened.append(client)
        return bmc, client

    yield build
    for client in opened:
        client._conn.close()


def wait_for(look, within=30.0):
    return WallClock().until(look, bool, what="the machine to get on", every=0.2, within=within)


@pytest.mark.parametrize("profile", [pytest.param(profile, id=profile.name) for profile in PROFILES])
def test_it_logs_in_reads_the_machine_and_leaves_no_session(connect, profile):
    bmc, client = connect(profile)
    system = client.get_system()
    assert (system.identity, system.power_state.value) == ("System.Embedded.1", "On")
    assert {kind.value for kind in system.get_allowed_reset_system_values()} == set(profile.resets)
    assert client.get_manager().firmware_version == profile.firmware
    assert len(bmc.machine.controller.sessions.open) == 1
    client._conn._auth.close()
    assert bmc.machine.controller.sessions.open == ()


@pytest.mark.parametrize("profile", [pytest.param(profile, id=profile.name) for profile in PROFILES])
def test_it_reads_attributes_and_their_registry(connect, profile):
    _, client = connect(profile)
    bios = client.get_system().bios
    assert bios.attributes["MmioAbove4Gb"] == "Disabled"
    entries = {entry.name: entry for entry in bios.get_attribute_registry().registry_entries.attributes}
    assert set(bios.attributes) <= set(entries)
    assert entries["MmioAbove4Gb"].attribute_type == "Enumeration"
    assert ("AcPwrRcvry" in bios.attributes) is (profile.name != "idrac10")
    assert bios.pending_attributes == {}
    assert [time.value for time in bios.supported_apply_times or ()] == list(profile.apply_times)


@pytest.mark.parametrize("profile", NEWER)
def test_it_changes_a_setting_with_a_job_and_a_restart(connect, profile):
    bmc, client = connect(profile)
    system = client.get_system()
    system.bios.set_attribute("MmioAbove4Gb", "Enabled", apply_time=sushy.APPLY_TIME_ON_RESET)
    system.bios.refresh()
    assert system.bios.pending_attributes == {"MmioAbove4Gb": "Enabled"}
    tasks = client.get_task_service().tasks.get_members()
    assert [task.task_state for task in tasks] == [sushy.TASK_STATE_STARTING]
    system.reset_system(sushy.RESET_FORCE_RESTART)
    wait_for(lambda: bmc.current["MmioAbove4Gb"] == "Enabled" and not bmc.machine.controller.bios.pending)
    system.bios.refresh()
    assert (system.bios.attributes["MmioAbove4Gb"], system.bios.pending_attributes) == ("Enabled", {})


def test_on_the_first_idrac9_its_setting_stays_pending_because_nobody_makes_the_job(connect):
    bmc, client = connect(OLD)
    system = client.get_system()
    system.bios.set_attribute("MmioAbove4Gb", "Enabled")
    system.reset_system(sushy.RESET_GRACEFUL_RESTART)
    wait_for(lambda: bmc.boots > 1)
    system.bios.refresh()
    assert (system.bios.attributes["MmioAbove4Gb"], system.bios.pending_attributes) == ("Disabled", {"MmioAbove4Gb": "Enabled"})


def test_it_switches_off_and_on(connect):
    bmc, client = connect()
    system = client.get_system()
    system.reset_system(sushy.RESET_FORCE_OFF)
    wait_for(lambda: bmc.machine.status().power == "Off")
    system.refresh()
    assert system.power_state == sushy.PowerState.OFF
    system.reset_system(sushy.RESET_ON)
    wait_for(lambda: bmc.machine.status().power == "On")


def test_a_wrong_password_is_refused(serve_idrac):
    bmc = serve_idrac()
    with pytest.raises(sushy.exceptions.AccessError):
        sushy.Sushy(bmc.served.url, username=bmc.served.user, password="wrong", verify=str(bmc.certificate)).get_system()
