from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from harness.clock import VirtualClock
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import Access
from harness.devices.idrac_places import Places, find_member
from harness.devices.redfish import Redfish
from harness.errors import BenchError, DeviceError
from harness.lab.model.lanes import open_model
from harness.ports import Effect, HttpAnswer, HttpQuestion, OnLine

P = Places()


class Capture:
    """A recorded tree of resources, read only."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self.folder = folder
        self.clock = clock

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        path = question.path.split("?")[0].strip("/")
        file = self.folder / path / "index.json"
        if question.effect is not Effect.OBSERVE or not file.is_file():
            return HttpAnswer(404, {}, None, self.clock.now(), 0.0)
        return HttpAnswer(200, {}, json.loads(file.read_text()), self.clock.now(), 0.0)

    def close(self) -> None:
        pass


@pytest.fixture
def model(clock):
    return Idrac(Redfish(open_model(clock).bmc, clock))


def entry(number, message_id="SYS1003"):
    return {"Id": str(number), "Created": "2026-01-05T08:00:00-06:00", "MessageId": f"IDRAC.2.8.{message_id}", "Severity": "OK"}


def test_the_places_found_by_links_are_those_of_the_captures(model):
    assert model.located().places == Places()


def test_the_system_is_known_by_its_service_tag(model):
    system = model.system()
    assert (system.service_tag, system.model, system.power_state) == ("MODEL01", "PowerEdge R640", "On")
    assert "ForceRestart" in system.reset_types
    assert system.boot_progress == "OSRunning"


def test_another_machine_is_refused(model):
    assert model.insist_on("MODEL01").service_tag == "MODEL01"
    with pytest.raises(BenchError, match="MODEL01, the bench pins OTHER00: nothing is written"):
        model.insist_on("OTHER00")


def test_the_lc_status_is_a_post_that_reads(script):
    answer = {"Status": "Ready", "LCStatus": "Ready", "RTStatus": "Ready", "ServerStatus": "InPOST"}
    redfish, lane = script({f"POST {P.lc_status}": answer})
    assert Idrac(redfish).lc_status().server == "InPOST"
    assert lane.asked[0].effect is Effect.OBSERVE


def test_firmware_without_lc_status_says_so(script):
    redfish, _ = script({})
    with pytest.raises(DeviceError, match="update its firmware"):
        Idrac(redfish, Places(lc_status="")).lc_status()


def test_staging_carries_the_apply_time_and_returns_the_job(script):
    accepted = {"headers": {"location": "/redfish/v1/TaskService/Tasks/JID_7"}}
    redfish, lane = script({f"PATCH {P.settings}": [(202, accepted)]})
    staged = Idrac(redfish).stage_bios({"MmioAbove4Gb": "Enabled"})
    assert (staged.status, staged.job_id) == (202, "JID_7")
    assert lane.asked[0].body == {
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
        "Attributes": {"MmioAbove4Gb": "Enabled"},
    }
    assert lane.asked[0].effect is Effect.ACT


def test_staging_without_an_apply_time_only_makes_values_pending(script):
    redfish, lane = script({f"PATCH {P.settings}": [(200, None)]})
    assert Idrac(redfish).stage_bios({"A": "B"}, apply_time="").job_id == ""
    assert lane.asked[0].body == {"Attributes": {"A": "B"}}


def test_the_job_for_pending_values_names_what_it_applies(script):
    redfish, lane = script({f"POST {P.jobs}": [(200, {"headers": {"location": f"{P.jobs}/JID_8"}})]})
    assert Idrac(redfish).create_job().job_id == "JID_8"
    assert lane.asked[0].body == {"TargetSettingsURI": P.settings}


def test_pending_values_and_apply_times_are_read_together(model):
    state = model.bios()
    assert state.pending == {}
    assert "OnReset" in state.apply_times
    assert state.attributes["BootMode"] == "Uefi"


def test_firmware_that_advertises_no_apply_times_has_none(script):
    redfish, _ = script({f"GET {P.bios}": {"Attributes": {}}, f"GET {P.settings}": {"Attributes": {}}})
    state = Idrac(redfish).bios()
    assert (state.apply_times, dict(state.pending)) == ((), {})


def test_the_registry_is_found_through_registries(model):
    assert model.registry().attributes["MmioAbove4Gb"].choices == ("Enabled", "Disabled")


def test_jobs_are_read_whole_whether_expanded_or_linked(script):
    body = {"Id": "JID_1", "JobState": "Scheduled", "JobType": "BIOSConfiguration", "MessageId": "JCP001"}
    redfish, _ = script(
        {
            f"GET {P.jobs}?$expand=*($levels=1)": {"Members": [body, {"@odata.id": f"{P.jobs}/JID_2"}]},
            f"GET {P.jobs}/JID_2": body | {"Id": "JID_2"},
        }
    )
    assert [job.id for job in Idrac(redfish).jobs()] == ["JID_1", "JID_2"]


def test_a_job_that_dells_view_lost_is_found_in_dmtfs(script):
    redfish, _ = script({f"GET {P.dmtf_jobs}/JID_1": {"Id": "JID_1", "JobState": "Completed", "JobStatus": "OK"}})
    job = Idrac(redfish).job("JID_1")
    assert job is not None
    assert job.dmtf_state == "Completed"


def test_a_job_that_no_view_knows_is_none(script):
    redfish, _ = script({})
    assert Idrac(redfish).job("JID_1") is None


def test_both_views_of_a_job_are_joined(script):
    redfish, _ = script(
        {
            f"GET {P.jobs}/JID_1": {"Id": "JID_1", "JobState": "Completed", "MessageId": "PR19"},
            f"GET {P.dmtf_jobs}/JID_1": {"Id": "JID_1", "JobState": "Exception", "JobStatus": "Critical"},
        }
    )
    job = Idrac(redfish).job("JID_1", both=True)
    assert job is not None
    assert (job.state, job.message_id, job.dmtf_status) == ("Completed", "PR19", "Critical")


def test_the_log_is_read_back_to_the_mark_and_no_further(script):
    redfish, lane = script(
        {
            f"GET {P.log}": {"Members": [entry(9), entry(8)], "Members@odata.nextLink": f"{P.log}?$skip=2"},
            f"GET {P.log}?$skip=2": {"Members": [entry(7), entry(6)], "Members@odata.nextLink": f"{P.log}?$skip=4"},
        }
    )
    assert [found.number for found in Idrac(redfish).lc_log(6)] == [7, 8, 9]
    assert len(lane.asked) == 2


def test_a_log_that_was_cleared_is_all_new(script):
    redfish, _ = script({f"GET {P.log}": {"Members": [entry(2), entry(1)]}})
    assert [found.number for found in Idrac(redfish).lc_log(500)] == [1, 2]


def test_the_mark_of_the_log_is_its_newest_entry(script):
    redfish, _ = script({f"GET {P.log}": {"Members": [entry(9, "UEFI0134"), entry(8)]}})
    mark = Idrac(redfish).lc_mark()
    assert mark is not None
    assert (mark.number, mark.message_id) == (9, "UEFI0134")


def test_a_screenshot_comes_as_bytes(script):
    answer = {"ServerScreenShotFile": base64.b64encode(b"png").decode()}
    redfish, lane = script({f"POST {P.screenshot}": answer})
    assert Idrac(redfish).screenshot().image == b"png"
    assert lane.asked[0].effect is Effect.OBSERVE


def test_among_several_systems_the_host_is_picked_by_id(script):
    redfish, _ = script({"GET /s": {"Members": [{"@odata.id": "/s/HGX_Baseboard_0"}, {"@odata.id": "/s/System.Embedded.1"}]}})
    assert find_member(redfish, "/s", "System.Embedded.1") == "/s/System.Embedded.1"


def test_an_empty_systems_collection_says_what_to_do(script):
    redfish, _ = script({"GET /s": {"Members": []}})
    with pytest.raises(DeviceError, match="wait and run again"):
        find_member(redfish, "/s", "System.Embedded.1")


@pytest.mark.parametrize(
    ("capture", "service_tag", "job_place", "progress"),
    [
        ("NVIDIA__libredfish/R750_idrac9_6.00.30.00_bios_1.8.2_H100", "F54P1G3", "/Oem/Dell/Jobs", ""),
        ("NVIDIA__libredfish/R750_idrac9_7.10.30.00_bios_1.13.2_lockdown", "CLLV0R3", "/Oem/Dell/Jobs", "OSRunning"),
    ],
)
def test_recorded_idracs_are_found_and_read(field_data, clock, capture, service_tag, job_place, progress):
    idrac = Idrac(Redfish(Capture(field_data / "idrac" / capture, clock), clock)).located()
    assert idrac.places == Places()
    assert idrac.places.jobs.endswith(job_place)
    system = idrac.system()
    assert (system.service_tag, system.boot_progress) == (service_tag, progress)
    assert idrac.bios().pending == {}
    assert [job.is_bios for job in idrac.jobs()] == [True]
    assert idrac.lc_mark() is not None


def test_a_recorded_machine_that_links_to_its_devices_by_function_has_each_once(field_data, clock):
    folder = field_data / "idrac/NVIDIA__libredfish/R750_idrac9_6.00.30.00_bios_1.8.2_H100"
    redfish = Redfish(Capture(folder, clock), clock)
    linked = redfish.get("/redfish/v1/Systems/System.Embedded.1")["PCIeDevices"]
    assert (len(linked), len(Idrac(redfish).located().system().pcie_devices)) == (18, 13)


@pytest.mark.parametrize("links", [None, "x", {}, [], [None, 7, {}, {"@odata.id": 7}, {"@odata.id": ""}]])
def test_links_to_devices_that_are_rubbish_count_for_nothing(script, links):
    redfish, _ = script({"GET /redfish/v1/Systems/System.Embedded.1": {"SKU": "MODEL01", "PCIeDevices": links}})
    assert Idrac(redfish, Places()).system().pcie_devices == ()


def test_an_old_idrac_has_other_places_and_lacks_some(field_data, clock):
    folder = field_data / "idrac/sailfishdell__sailfish/R740_idrac9_3.15.15.15_bios_0.4.1"
    idrac = Idrac(Redfish(Capture(folder, clock), clock)).located()
    assert idrac.places.jobs == "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs"
    assert idrac.places.attributes == "/redfish/v1/Managers/iDRAC.Embedded.1/Attributes"
    assert (idrac.places.dmtf_jobs, idrac.places.lc_status) == ("", "")
    assert idrac.bios().apply_times == ()
    assert idrac.access().lockdown == "Disabled"


def test_what_an_idrac_does_not_have_is_not_asked_for(script):
    redfish, lane = script({})
    idrac = Idrac(redfish, Places(attributes="", screenshot=""))
    assert idrac.access() == Access()
    assert idrac.screenshot().image == b""
    assert lane.asked == []


def test_a_recorded_lockdown_is_seen(field_data, clock):
    folder = field_data / "idrac/NVIDIA__libredfish/R750_idrac9_7.10.30.00_bios_1.13.2_lockdown"
    assert Idrac(Redfish(Capture(folder, clock), clock)).access().lockdown == "Enabled"


def test_systems_that_show_up_late_are_waited_for(script, clock):
    """An R640 shows none for two minutes after its Lifecycle Controller restarts."""
    redfish, lane = script({"GET /s": [*[(200, {"Members": []})] * 9, (200, {"Members": [{"@odata.id": "/s/System.Embedded.1"}]})]})
    assert find_member(redfish, "/s", "System.Embedded.1") == "/s/System.Embedded.1"
    assert len(lane.asked) == 10
    assert clock.now() < 120
