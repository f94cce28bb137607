from __future__ import annotations

import pytest

from harness.devices.jobs import Job, Phase, job_id_in, parse_dell_job, parse_dmtf_job


def dell(state, message_id, percent=0, **more):
    body = {"Id": "JID_1", "JobState": state, "JobType": "BIOSConfiguration", "MessageId": message_id}
    return parse_dell_job(body | {"PercentComplete": percent} | more, at=5.0)


@pytest.mark.parametrize(
    ("state", "message_id", "phase"),
    [
        ("New", "PR22", Phase.WAITING),
        ("New", "JCP024", Phase.WAITING),
        ("Scheduled", "JCP001", Phase.SCHEDULED),
        ("Running", "PR20", Phase.RUNNING),
        ("RebootPending", "PR20", Phase.RUNNING),
        ("Completed", "PR19", Phase.SUCCEEDED),
        ("Completed", "IDRAC.2.9.PR19", Phase.SUCCEEDED),
        ("Completed", "JCP007", Phase.SUCCEEDED),
        ("Completed", "SYS431", Phase.FAILED),
        ("Completed", "", Phase.FAILED),
        ("CompletedWithErrors", "PR31", Phase.FAILED),
        ("Completed", "PR31", Phase.FAILED),
        ("Scheduled", "PR30", Phase.FAILED),
        ("Failed", "PR21", Phase.FAILED),
        ("Failed", "PR24", Phase.FAILED),
        ("Scheduled", "JCP009", Phase.CANCELLED),
        ("Paused", "XYZ1", Phase.RUNNING),
        ("Unknown", "", Phase.WAITING),
    ],
)
def test_the_message_id_decides_before_the_state(state, message_id, phase):
    assert dell(state, message_id).phase is phase


def test_a_hundred_percent_is_no_success():
    assert dell("CompletedWithErrors", "PR31", 100).phase is Phase.FAILED


def test_a_stuck_job_is_still_in_the_queue_and_may_be_deleted():
    stuck = dell("Scheduled", "PR30")
    assert stuck.is_active
    assert not stuck.is_running


def test_dates_that_are_no_dates_do_no_harm():
    job = dell("Scheduled", "JCP001", EndTime="TIME_NA", StartTime="TIME_NOW", CompletionTime=None, ActualRunningStartTime=None)
    assert job == Job("JID_1", "Scheduled", "BIOSConfiguration", "JCP001", "", 0, at=5.0)


def test_fields_that_are_missing_or_null_stay_empty():
    assert parse_dell_job({"Id": "JID_1", "MessageId": None, "PercentComplete": None}, 1.0) == Job("JID_1", "", at=1.0)
    assert parse_dmtf_job({"Id": "JID_1"}, 1.0) == Job("JID_1", "", at=1.0)


def test_the_dmtf_view_tells_message_and_state():
    body = {"Id": "JID_1", "JobState": "Exception", "JobStatus": "Critical", "PercentComplete": 100}
    job = parse_dmtf_job(body | {"Messages": [{"MessageId": "IDRAC.2.9.PR31", "Message": "with errors"}]}, 1.0)
    assert (job.message_id, job.dmtf_state, job.dmtf_status) == ("PR31", "Exception", "Critical")
    assert job.phase is Phase.FAILED
    assert not job.is_active


def test_the_dmtf_view_alone_can_say_that_a_job_waits():
    assert parse_dmtf_job({"Id": "JID_1", "JobState": "Pending"}, 1.0).phase is Phase.SCHEDULED
    assert parse_dmtf_job({"Id": "JID_1", "JobState": "Running"}, 1.0).is_running


def test_a_view_that_calls_it_critical_outvotes_a_success():
    assert (
        Job("JID_1", "Completed", "BIOSConfiguration", "PR19", dmtf_state="Completed", dmtf_status="Critical").phase is Phase.FAILED
    )


@pytest.mark.parametrize(
    ("location", "body", "job_id"),
    [
        ("/redfish/v1/TaskService/Tasks/JID_12", None, "JID_12"),
        ("/redfish/v1/TaskService/TaskMonitors/JID_12/", None, "JID_12"),
        ("", {"Id": "JID_13"}, "JID_13"),
        ("", {"@odata.id": "/redfish/v1/TaskService/Tasks/JID_14"}, "JID_14"),
        ("", {"Id": "Settings"}, ""),
        ("/redfish/v1/Systems", None, ""),
        ("", None, ""),
    ],
)
def test_the_job_id_is_the_last_step_of_the_location(location, body, job_id):
    assert job_id_in(location, body) == job_id


def test_recorded_jobs_are_read_alike_in_both_views(field_data):
    import json

    base = field_data / "idrac/NVIDIA__libredfish/R750_idrac9_7.10.30.00_bios_1.13.2_lockdown/redfish/v1"
    dell_body = json.loads((base / "Managers/iDRAC.Embedded.1/Oem/Dell/Jobs/JID_229700026199/index.json").read_text())
    dmtf_body = json.loads((base / "JobService/Jobs/JID_229700026199/index.json").read_text())
    assert parse_dell_job(dell_body, 0.0).phase is Phase.FAILED
    assert parse_dmtf_job(dmtf_body, 0.0).phase is Phase.FAILED
    assert parse_dell_job(dell_body, 0.0).message_id == parse_dmtf_job(dmtf_body, 0.0).message_id == "PR31"
