from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.lab.idrac import names

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


def run_job(client: Any, seconds: float = 3000) -> str:
    """Stage, reset, wait; the id of the job."""
    client.patch(WANTED)
    job = str(client.job_id())
    client.reset()
    client.wait(seconds)
    client.log_in()
    return job


def test_a_job_that_went_well_says_so_in_every_rendering(client: Any) -> None:
    job = run_job(client)
    dell = client.get(f"{names.DELL_JOBS}/{job}")
    old = client.get(f"{names.OLD_JOBS}/{job}")
    dmtf = client.get(f"{names.DMTF_JOBS}/{job}")
    assert (dell["JobState"], dell["MessageId"], dell["PercentComplete"]) == ("Completed", "PR19", 100)
    assert (old["JobState"], old["MessageId"]) == ("Completed", "PR19")
    assert (dmtf["JobState"], dmtf["JobStatus"], dmtf["Messages"][0]["MessageId"]) == ("Completed", "OK", "IDRAC.2.8.PR19")
    assert dell["EndTime"] == "TIME_NA"
    assert dell["CompletionTime"] + "-06:00" == dmtf["EndTime"]
    assert client.get(names.SETTINGS)["Attributes"] == {}
    assert client.get(names.BIOS)["Attributes"]["MmioAbove4Gb"] == "Enabled"


def test_a_job_that_ended_badly_is_at_100_percent_all_the_same(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.job-result")
    job = run_job(client)
    dell = client.get(f"{names.DELL_JOBS}/{job}")
    dmtf = client.get(f"{names.DMTF_JOBS}/{job}")
    assert (dell["JobState"], dell["MessageId"], dell["PercentComplete"]) == ("CompletedWithErrors", "PR31", 100)
    assert (dmtf["JobState"], dmtf["JobStatus"], dmtf["PercentComplete"]) == ("Exception", "Critical", 100)
    assert client.get(names.BIOS)["Attributes"]["OsWatchdogTimer"] == "Enabled"


def test_a_job_that_cannot_begin_stays_scheduled_with_pr30(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.job-state")
    client.patch(WANTED)
    job = client.job_id()
    assert client.get(f"{names.DELL_JOBS}/{job}")["MessageId"] == "JCP001"
    client.reset()
    for _ in range(3):
        client.wait(1700)
        client.log_in()
        dell = client.get(f"{names.DELL_JOBS}/{job}")
    assert (dell["JobState"], dell["MessageId"]) == ("Scheduled", "PR30")
    assert client.get(names.BIOS)["Attributes"]["MmioAbove4Gb"] == "Disabled"


def test_a_job_stays_new_while_somebody_sits_in_the_lifecycle_controller(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.preflight-lc")
    client.patch(WANTED)
    dell = client.get(f"{names.DELL_JOBS}/{client.job_id()}")
    assert (dell["JobState"], dell["MessageId"]) == ("New", "JCP024")


def test_a_task_is_gone_seconds_after_its_job(client: Any) -> None:
    client.patch(WANTED)
    job = client.job_id()
    task = client.get(f"{names.TASKS}/{job}")
    assert (task["TaskState"], task["Oem"]["Dell"]["JobState"]) == ("Starting", "Scheduled")
    client.reset()
    ended_at = None
    while ended_at is None:
        client.wait(5)
        ended_at = client.machine.controller.jobs.find(job).ended_at
        client.machine.settle()
    assert client.get(f"{names.TASKS}/{job}")["TaskState"] == "Completed"
    client.wait(15)
    assert client.ids(client.get(f"{names.TASKS}/{job}")) == ["SYS403"]
    assert client.status == 404
    client.get(f"{names.DMTF_JOBS}/{job}")
    assert client.status == 200


def test_a_running_job_is_not_deleted_and_a_waiting_one_is(client: Any) -> None:
    client.patch(WANTED)
    job = client.job_id()
    client.reset()
    client.wait(600)
    assert client.get(f"{names.DELL_JOBS}/{job}")["JobState"] == "Running"
    assert client.ids(client.ask("DELETE", f"{names.DELL_JOBS}/{job}")) == ["JCP015"]
    client.wait(2000)
    client.log_in()
    client.ask("DELETE", f"{names.OLD_JOBS}/{job}")
    assert client.status == 200
    assert client.ids(client.ask("DELETE", f"{names.OLD_JOBS}/{job}")) == ["SYS403"]


@pytest.mark.parametrize(("job_id", "message_id"), [("JID_000000000000", "JCP022"), (None, "SYS428")])
def test_deleting_from_the_queue_names_what_is_wrong(client: Any, job_id: str | None, message_id: str) -> None:
    body = {} if job_id is None else {"JobID": job_id}
    answer = client.ask("POST", f"{names.JOB_SERVICE}/Actions/DellJobService.DeleteJobQueue", body)
    assert client.ids(answer) == [message_id]


def test_clearing_the_queue_takes_the_pending_values_too_and_by_force_the_data_for_a_while(client: Any) -> None:
    client.patch(WANTED)
    client.ask("POST", f"{names.JOB_SERVICE}/Actions/DellJobService.DeleteJobQueue", {"JobID": "JID_CLEARALL_FORCE"})
    assert client.status == 200
    assert client.ids(client.get(names.SYSTEM)) == ["SWC0700"]
    client.wait(121)
    assert client.get(names.SETTINGS)["Attributes"] == {}
    assert client.get(names.DELL_JOBS)["Members"] == []


def test_somebody_elses_job_waits(open_client: Callable[..., Any]) -> None:
    client = open_client("bios.preflight-jobs")
    members = client.get(f"{names.DELL_JOBS}?$expand=*($levels=1)")["Members"]
    assert [(job["JobType"], job["JobState"]) for job in members] == [("RAIDConfiguration", "Scheduled")]
    assert client.get(names.SETTINGS)["Attributes"] == {}
