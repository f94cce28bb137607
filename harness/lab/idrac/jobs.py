"""Pages of the jobs: one queue in three renderings, which differ as they do on iDRAC9.

/Managers/iDRAC.Embedded.1/Oem/Dell/Jobs   bare MessageIds, times without zone, JobState CompletedWithErrors
/Managers/iDRAC.Embedded.1/Jobs            the same, under its old name
/JobService/Jobs                           prefixed ids, times with offset, JobState Exception + JobStatus Critical
/TaskService/Tasks                         prefixed ids; gone seconds after the job has ended
"""

from __future__ import annotations

from harness.lab.idrac import messages, mishaps, names
from harness.lab.idrac.controller import Controller, Server
from harness.lab.idrac.log import bare_stamp, stamp
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.queue import BIOS, Job
from harness.lab.idrac.web import Complaint, Json, Page, Reply, Request, Route, collection, done, link, not_found, ok, refuse

SERVICES_RESTART = 120.0
"""Seconds without data after a forced clearing of the queue on an R640 (redhat-performance/jetlag#778)."""

_DMTF_STATES = {
    "New": "New",
    "Scheduled": "Pending",
    "Running": "Running",
    "Completed": "Completed",
    "CompletedWithErrors": "Exception",
    "Failed": "Exception",
    "RebootFailed": "Exception",
}


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller
    queue = controller.jobs

    def listing(path: str, kind: str) -> Page:
        def page(_: Request) -> Reply:
            listed = [job for job in queue.jobs if path == names.DMTF_JOBS or not mishaps.hides(controller, job)]
            return ok(collection(path, kind, "JobQueue", [link(f"{path}/{job.id}") for job in listed]))

        return page

    def dell(request: Request) -> Reply:
        job = queue.find(request.names["id"])
        return not_found(request.path) if job is None or mishaps.hides(controller, job) else ok(_dell(request.path, job))

    def dmtf(request: Request) -> Reply:
        job = queue.find(request.names["id"])
        return not_found(request.path) if job is None else ok(_dmtf(request.path, job))

    def tasks(_: Request) -> Reply:
        members = [link(f"{names.TASKS}/{job.id}") for job in queue.jobs if _has_task(controller, job)]
        return ok(collection(names.TASKS, "TaskCollection", "Task Collection", members))

    def task(request: Request) -> Reply:
        job = queue.find(request.names["id"])
        if job is None or not _has_task(controller, job):
            return not_found(request.path)
        return ok(_task(request.path, job))

    def create(request: Request) -> Reply:
        body = request.body if isinstance(request.body, dict) else {}
        if "TargetSettingsURI" not in body:
            return refuse(400, Complaint("SYS428", ("TargetSettingsURI",)))
        if body["TargetSettingsURI"] != names.SETTINGS:
            return refuse(400, Complaint("SYS425", (str(body["TargetSettingsURI"]), "TargetSettingsURI")))
        if forbidden := controller.forbids("JCP041", makes_job=True):
            return refuse(400, forbidden)
        if queue.open(BIOS) is not None:
            return refuse(400, "SYS011")
        if not controller.bios.pending or "bios.job-before-reset" in controller.faults:
            return refuse(400, "BIOS008")
        job = controller.schedule_bios_job()
        return done("SYS413", headers={"Location": f"{names.OLD_JOBS}/{job.id}"})

    def delete(request: Request) -> Reply:
        return _delete(controller, request.names["id"], not_found(request.path))

    def delete_queue(request: Request) -> Reply:
        job_id = request.body.get("JobID") if isinstance(request.body, dict) else None
        if not isinstance(job_id, str):
            return refuse(400, Complaint("SYS428", ("JobID",)))
        if not job_id.startswith("JID_CLEARALL"):
            return _delete(controller, job_id, refuse(400, Complaint("JCP022", (job_id,))))
        if controller.is_locked_down:
            return refuse(400, "SYS406")
        is_forced = job_id == "JID_CLEARALL_FORCE"
        if not is_forced and any(job.state == "Running" for job in queue.jobs):
            return refuse(400, "JCP015")
        for job in queue.jobs:
            queue.remove(job.id)
        controller.bios.clear()
        controller.log.add("JCP045", category="Configuration")
        if is_forced:
            controller.restart_services(SERVICES_RESTART)
        return done("SYS413")

    def job_service(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": f"{names.ROOT}/JobService",
                "@odata.type": "#JobService.v1_0_4.JobService",
                "DateTime": stamp(controller.timeline.now),
                "Id": "JobService",
                "Jobs": link(names.DMTF_JOBS),
                "Name": "Job Service",
                "ServiceCapabilities": {"MaxJobs": 256, "MaxSteps": 1, "Scheduling": True},
                "ServiceEnabled": True,
            }
        )

    def task_service(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": f"{names.ROOT}/TaskService",
                "@odata.type": "#TaskService.v1_2_0.TaskService",
                "DateTime": stamp(controller.timeline.now),
                "Id": "TaskService",
                "Name": "Task Service",
                "ServiceEnabled": True,
                "Tasks": link(names.TASKS),
            }
        )

    def dell_service(_: Request) -> Reply:
        target = f"{names.JOB_SERVICE}/Actions/DellJobService.DeleteJobQueue"
        return ok(
            {
                "@odata.id": names.JOB_SERVICE,
                "@odata.type": "#DellJobService.v1_2_0.DellJobService",
                "Actions": {"#DellJobService.DeleteJobQueue": {"target": target}},
                "DeleteOnCompletionTimeoutMinutes": 2880,
                "Id": "DellJobService",
                "MaximumNumberOfJobs": 256,
                "Name": "DellJobService",
            }
        )

    def monitor(request: Request) -> Reply:
        """A task monitor says nothing, done or not (dell/terraform-provider-redfish, common/job_management.go)."""
        job = queue.find(request.names["id"])
        return not_found(request.path) if job is None else Reply(204)

    return (
        *_views(controller.profile, dmtf, listing(names.DMTF_JOBS, "JobCollection"), job_service, monitor),
        Route("GET", names.DELL_JOBS, listing(names.DELL_JOBS, "DellJobCollection")),
        Route("GET", names.OLD_JOBS, listing(names.OLD_JOBS, "DellJobCollection")),
        Route("GET", f"{names.DELL_JOBS}/{{id}}", dell),
        Route("GET", f"{names.OLD_JOBS}/{{id}}", dell),
        Route("GET", names.TASKS, tasks),
        Route("GET", f"{names.TASKS}/{{id}}", task),
        Route("POST", names.OLD_JOBS, create),
        Route("POST", names.DELL_JOBS, create),
        Route("DELETE", f"{names.OLD_JOBS}/{{id}}", delete),
        Route("DELETE", f"{names.DELL_JOBS}/{{id}}", delete),
        Route("POST", f"{names.JOB_SERVICE}/Actions/DellJobService.DeleteJobQueue", delete_queue),
        Route("GET", names.JOB_SERVICE, dell_service),
        Route("GET", f"{names.ROOT}/TaskService", task_service),
    )


def _views(profile: Profile, one: Page, all_of_them: Page, service: Page, monitor: Page) -> tuple[Route, ...]:
    """The pages that only some generations have."""
    found: list[Route] = []
    if profile.has_job_service:
        found += [
            Route("GET", names.DMTF_JOBS, all_of_them),
            Route("GET", f"{names.DMTF_JOBS}/{{id}}", one),
            Route("GET", f"{names.ROOT}/JobService", service),
        ]
    if profile.location == names.TASK_MONITORS:
        found.append(Route("GET", f"{names.TASK_MONITORS}/{{id}}", monitor))
    return tuple(found)


def _delete(controller: Controller, job_id: str, unknown: Reply) -> Reply:
    """Delete one job; what is pending stays pending (a known surprise)."""
    job = controller.jobs.find(job_id)
    if job is None:
        return unknown
    if job.state == "Running":
        return refuse(400, "JCP015")
    controller.jobs.remove(job_id)
    return done("SUP020")


def _has_task(controller: Controller, job: Job) -> bool:
    if mishaps.hides(controller, job):
        return False
    return job.ended_at is None or controller.timeline.now - job.ended_at < controller.profile.task_life


def _message(job: Job, *, is_full: bool) -> dict[str, Json]:
    message_id = messages.full(job.message_id) if is_full else job.message_id
    return {"Message": messages.text(job.message_id), "MessageArgs": [], "MessageArgs@odata.count": 0, "MessageId": message_id}


def _dell(path: str, job: Job) -> dict[str, Json]:
    ended = None if job.ended_at is None else bare_stamp(job.ended_at)
    return {
        "@odata.context": "/redfish/v1/$metadata#DellJob.DellJob",
        "@odata.id": path,
        "@odata.type": "#DellJob.v1_4_0.DellJob",
        "ActualRunningStartTime": None if job.running_at is None else bare_stamp(job.running_at),
        "ActualRunningStopTime": ended,
        "CompletionTime": ended,
        "Description": "Job Instance",
        "EndTime": "TIME_NA",
        "Id": job.id,
        "JobState": job.state,
        "JobType": job.type,
        **_message(job, is_full=False),
        "Name": job.name,
        "PercentComplete": job.percent,
        "StartTime": "TIME_NOW" if job.running_at is None else bare_stamp(job.scheduled_at),
        "TargetSettingsURI": None,
    }


def _dmtf(path: str, job: Job) -> dict[str, Json]:
    body: dict[str, Json] = {
        "@odata.id": path,
        "@odata.type": "#Job.v1_1_1.Job",
        "Id": job.id,
        "JobState": _DMTF_STATES[job.state],
        "JobStatus": _health(job),
        "Messages": [_message(job, is_full=True)],
        "Messages@odata.count": 1,
        "Name": _plain_name(job),
        "PercentComplete": job.percent,
        "StartTime": stamp(job.scheduled_at),
    }
    return body if job.ended_at is None else body | {"EndTime": stamp(job.ended_at)}


def _task(path: str, job: Job) -> dict[str, Json]:
    """A task says Completed also of a job that did not go well; only its status tells (ironcore-dev/metal-operator#453)."""
    state = {"Running": "Running", "New": "New", "Scheduled": "Starting"}.get(job.state, "Completed")
    dell = {key: value for key, value in _dell(path, job).items() if not key.startswith("@")}
    return {
        "@odata.context": "/redfish/v1/$metadata#Task.Task",
        "@odata.id": path,
        "@odata.type": "#Task.v1_6_1.Task",
        "Id": job.id,
        "Messages": [_message(job, is_full=True)],
        "Messages@odata.count": 1,
        "Name": job.name,
        "Oem": {"Dell": dell | {"@odata.type": "#DellJob.v1_4_0.DellJob", "MessageId": messages.full(job.message_id)}},
        "PercentComplete": job.percent,
        "StartTime": stamp(job.scheduled_at),
        "TaskState": state,
        "TaskStatus": _health(job),
    }


def _health(job: Job) -> str:
    return "Critical" if job.state in ("CompletedWithErrors", "Failed", "RebootFailed") or job.message_id == "JCP052" else "OK"


def _plain_name(job: Job) -> str:
    """The name that JobService gives a job: ConfigBIOS:BIOS.Setup.1-1 for "Configure: BIOS.Setup.1-1"."""
    return job.name.replace("Configure: BIOS", "ConfigBIOS:BIOS")
