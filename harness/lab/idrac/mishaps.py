"""What a misbehaving iDRAC does to settings, jobs and inventory. The faults and their sources: harness/lab/faults/idrac.py.

    PATCH ─▶ strike ─┬─ nothing wrong ─▶ None: taken as usual
                     └─ a fault ───────▶ the reply, whatever became of the values

Each function is a page's question; without its fault it answers what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.lab.idrac.controller import Controller
from harness.lab.idrac.names import CHASSIS, TASKS
from harness.lab.idrac.queue import BIOS, Job
from harness.lab.idrac.registry import Value
from harness.lab.idrac.web import APPLY, Complaint, Json, Reply, done, link, refuse, refuse_precondition

Take = Callable[[Json], Reply]

EMPTY = 120.0
"""Seconds for which an R640 shows no system after its Lifecycle Controller restarted (redhat-performance/jetlag#778)."""

FORGETFUL = 40.0
"""Assumption: seconds for which an iDRAC that came back does not know its jobs (dell/iDRAC-Redfish-Scripting#383)."""

NOBODYS_JOB = "JID_681204999999"

READ_ONLY_USER = "bios.preflight-lockdown.read-only-user"
"""The fault under which our user may log in and look, and no more."""

_PICKY = "OsWatchdogTimer"


def strike(controller: Controller, take: Take, body: Json) -> Reply | None:
    """The reply to a PATCH of the settings under the fault that is on, or None; ``take`` takes a body as usual."""
    for fault, set_off in _BESIDE.items():
        if fault in controller.faults:
            set_off(controller)
    for fault, answer in _INSTEAD.items():
        if fault in controller.faults:
            return answer(controller, take, body)
    return None


def shown(controller: Controller) -> dict[str, Value]:
    """The values that ``/Bios`` shows."""
    bios = controller.bios
    return bios.current | bios.pending if "idrac.bios-shows-pending" in controller.faults else bios.current


def access_settings(controller: Controller) -> dict[str, Json]:
    """What may be set and by whom: lockdown, and the one user."""
    return {
        "Lockdown.1.SystemLockdown": "Enabled" if controller.is_locked_down else "Disabled",
        "Users.2.Privilege": 0x1 if READ_ONLY_USER in controller.faults else 0x1FF,
        "Users.2.UserName": controller.identity.user,
    }


def lifecycle_settings(controller: Controller) -> dict[str, Json]:
    """What of the Lifecycle Controller is set otherwise than delivered."""
    settings: dict[str, Json] = {}
    if not controller.has_lifecycle_controller:
        settings["LCAttributes.1.LifecycleControllerState"] = "Disabled"
    if "benign.csior-off" in controller.faults:
        settings["LCAttributes.1.CollectSystemInventoryOnRestart"] = "Disabled"
    return settings


def locked(controller: Controller) -> set[str]:
    """The attributes that the registry calls read only besides those that always are."""
    bios = controller.bios
    if "idrac.readonly-is-state" not in controller.faults:
        return bios.fixed
    return bios.fixed | {attribute.name for attribute in bios.generation.attributes if bios.is_locked_now(attribute.name)}


def resets(controller: Controller) -> tuple[str, ...]:
    """The reset types that are offered; any other is refused."""
    offered = controller.profile.resets
    if "idrac.no-force-restart" not in controller.faults:
        return offered
    return tuple(kind for kind in offered if kind != "ForceRestart")


def devices(controller: Controller) -> list[dict[str, str]]:
    """The system's links to PCIe devices: with the fault one for each function."""
    if "idrac.duplicate-devices" not in controller.faults:
        return []
    return [link(f"{CHASSIS}/PCIeDevices/{device}") for device in ("59-0", "59-0", "216-0", "216-0", "216-0")]


def hides_systems(controller: Controller) -> bool:
    """Whether the collection of systems is empty just now."""
    return "idrac.systems-empty" in controller.faults and controller.timeline.now < EMPTY


def hides(controller: Controller, job: Job) -> bool:
    """Whether Dell's views and the tasks do not know a job that DMTF's view still knows."""
    if "idrac.task-gone" in controller.faults:
        return job.ended_at is not None
    if "idrac.restart-mid-job" not in controller.faults or controller.back_at is None:
        return False
    return controller.timeline.now - controller.back_at < FORGETFUL


def server_status(controller: Controller, server: str) -> str:
    """The ServerStatus; somebody who pressed F10 sits in the Lifecycle Controller as soon as a job waits for it."""
    waits = any(job.message_id == "JCP024" for job in controller.jobs.jobs)
    return "LCUSC" if waits and "idrac.job-stays-new" in controller.faults else server


def _queue_raid(controller: Controller) -> None:
    def queue() -> None:
        if controller.jobs.open("RAIDConfiguration") is None and controller.jobs.open(BIOS) is not None:
            controller.jobs.add("RAIDConfiguration", "Configure: RAID.Integrated.1-1")

    controller.timeline.after(0.0, queue)


def _end_sessions(controller: Controller) -> None:
    if controller.strikes("idrac.session-expires"):
        controller.timeline.after(1.0, controller.sessions.drop_all)


_BESIDE: Mapping[str, Callable[[Controller], None]] = {
    "idrac.raid-job-beside": _queue_raid,
    "idrac.session-expires": _end_sessions,
}
"""What a PATCH sets off besides being answered as usual."""


def _refuse_once(controller: Controller, _: Take, __: Json) -> Reply | None:
    return refuse_precondition() if controller.strikes("idrac.transient-412") else None


def _refuse_all_for_one(_: Controller, __: Take, body: Json) -> Reply | None:
    return refuse(400, Complaint("SYS409", (_PICKY,), (_pointer(_PICKY),))) if _PICKY in _attributes(body) else None


def _take_without_job(_: Controller, take: Take, body: Json) -> Reply:
    return take({key: value for key, value in body.items() if key != APPLY})


def _promise_a_job(controller: Controller, take: Take, body: Json) -> Reply:
    taken = _take_without_job(controller, take, body)
    return taken if taken.status >= 400 else done(status=202, headers={"Location": f"{TASKS}/{NOBODYS_JOB}"})


def _taken_but(said: Reply) -> Callable[[Controller, Take, Json], Reply]:
    """What is said of values that were taken; a real refusal stays one."""

    def answer(_: Controller, take: Take, body: Json) -> Reply:
        taken = take(body)
        return said if taken.status < 400 else taken

    return answer


def _attributes(body: Json) -> Mapping[str, Json]:
    found = body.get("Attributes") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def _pointer(attribute: str) -> str:
    return f"#/Attributes/{attribute}"


_COMMITTED = refuse(400, Complaint("SYS011", (_PICKY,), (_pointer(_PICKY),)))
_JOINED = refuse(400, Complaint("SYS011", ("SecureBoot",), (_pointer("SecureBoot"),)))
_REFUSED_AS_200 = Reply(200, refuse(400, Complaint("SYS409", (_PICKY,), (_pointer(_PICKY),))).body)

_INSTEAD: Mapping[str, Callable[[Controller, Take, Json], Reply | None]] = {
    "idrac.sys011-after-applytime": _taken_but(_COMMITTED),
    "idrac.job-never-made": _promise_a_job,
    "idrac.applytime-ignored": _take_without_job,
    "idrac.secureboot-joined": lambda *_: _JOINED,
    "idrac.one-bad-value": _refuse_all_for_one,
    "idrac.transient-412": _refuse_once,
    "idrac.error-in-200": lambda *_: _REFUSED_AS_200,
    "idrac.applied-though-400": _taken_but(refuse(400, "SYS446")),
}
"""What answers a PATCH in place of the page; None: the page answers."""
