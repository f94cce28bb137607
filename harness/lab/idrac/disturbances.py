"""What a misbehaving iDRAC does to any request: on the way in, and to the body on the way out.

request ─▶ interrupt ─▶ page ─▶ distort ─▶ reply        The faults and their sources: harness/lab/faults/idrac.py
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from harness.lab.idrac.controller import Controller
from harness.lab.idrac.mishaps import READ_ONLY_USER
from harness.lab.idrac.web import Json, Reply, refuse, refuse_precondition, refuse_privilege

UNWELL = 45.0
"""Assumption: seconds that an iDRAC answers with an empty 503 and then with LC060, or with SWC0700."""

JUMP = timedelta(hours=10)
"""The clock that a public report shows ran ten hours off within one (dell/iDRAC-Redfish-Scripting#128)."""

_READS = ("GetRemoteServicesAPIStatus", "ExportServerScreenShot", "ExportVideoLog")
"""Actions that only read."""

_DATES = ("StartTime", "EndTime", "CompletionTime", "ActualRunningStartTime", "ActualRunningStopTime")


def interrupt(controller: Controller, method: str, path: str, headers: Mapping[str, str]) -> Reply | None:
    """The reply in place of the page's, or None."""
    has = controller.faults.__contains__
    if "if-match" in headers and method == "POST" and (controller.profile.refuses_match_on_actions or has("idrac.transient-412")):
        return refuse_precondition()
    if has(READ_ONLY_USER) and method != "GET" and not path.endswith(_READS) and "/Sessions" not in path:
        return refuse_privilege()
    if method != "GET" or controller.staged_at is None:
        return None
    passed = controller.timeline.now - controller.staged_at
    if has("idrac.empty-503") and passed < UNWELL:
        return Reply(503) if passed < UNWELL / 2 else refuse(503, "LC060")
    if has("idrac.swc0700-as-400") and passed < UNWELL:
        return refuse(400, "SWC0700")
    return None


def distort(controller: Controller, reply: Reply) -> Reply:
    """The reply as it leaves."""
    if "idrac.error-is-object" in controller.faults and isinstance(reply.body, dict) and "error" in reply.body:
        return Reply(reply.status, {"error": _old_error(reply.body["error"])}, reply.headers)
    if "idrac.clock-jumps" in controller.faults and controller.staged_at is not None:
        return Reply(reply.status, _jumped(reply.body), reply.headers)
    return reply


def _old_error(error: dict[str, Any]) -> dict[str, Json]:
    """The form of iDRAC8: the message is an object, the code a digit (dell/iDRAC-Redfish-Scripting#7)."""
    return error | {"code": "1", "message": {"lang": "en", "value": error["message"]}}


def _jumped(body: Json) -> Json:
    """Dates of jobs ten hours back, and nothing at all where a job says when it ended."""
    if isinstance(body, list):
        return [_jumped(entry) for entry in body]
    if not isinstance(body, dict):
        return body
    jumped = {key: _jumped(value) for key, value in body.items()}
    for key in _DATES:
        if isinstance(jumped.get(key), str):
            jumped[key] = _back(jumped[key])
    return jumped | ({"EndTime": "TIME_NA"} if "EndTime" in body else {})


def _back(date: str) -> str:
    try:
        return (datetime.fromisoformat(date) - JUMP).isoformat()
    except ValueError:
        return date
