"""Pages of the Lifecycle Controller: readiness, screenshot, log, and iDRAC's own attributes."""

from __future__ import annotations

import base64
import re
import struct
import zlib

from harness.lab.idrac import messages, mishaps, names
from harness.lab.idrac.controller import Controller, Server
from harness.lab.idrac.log import LogEntry, stamp
from harness.lab.idrac.sessions import FAILURES, MOST, PENALTY, WINDOW
from harness.lab.idrac.web import Complaint, Json, Reply, Request, Route, collection, done, link, not_found, ok, refuse

PAGE = 50
"""Log entries on one page when nothing else is asked."""

VIDEO = f"{names.ROOT}/Dell/bootvideo.zip"
"""Where the film of the last start would be fetched; a model has none to give."""

_FILTER = re.compile(r"\s*(?P<key>MessageId|Severity|Created|Id)\s+(?P<test>eq|ne|gt|ge|lt|le)\s+'(?P<value>[^']*)'\s*")


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller
    home = controller.profile.lc_service

    def lc_service(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": home,
                "@odata.type": "#DellLCService.v1_7_0.DellLCService",
                "Actions": {
                    f"#DellLCService.{action}": {"target": f"{home}/Actions/DellLCService.{action}"}
                    for action in ("GetRemoteServicesAPIStatus", "ExportServerScreenShot", "ExportVideoLog")
                },
                "Id": "DellLCService",
                "Name": "DellLCService",
            }
        )

    def status(_: Request) -> Reply:
        return ok(_status(server))

    def screenshot(request: Request) -> Reply:
        kind = request.body.get("FileType") if isinstance(request.body, dict) else None
        if kind != "ServerScreenShot":
            return refuse(400, Complaint("SYS426", (str(kind), "FileType")))
        controller.log.add("LC080", category="Audit")
        return ok({"@Message.ExtendedInfo": [], "ServerScreenShotFile": base64.b64encode(_screen(server)).decode()})

    def video(request: Request) -> Reply:
        asked = request.body if isinstance(request.body, dict) else {}
        for name, allowed in (("ShareType", ("Local",)), ("FileType", ("BootCaptureVideo", "CrashCaptureVideo"))):
            if asked.get(name) not in allowed:
                return refuse(400, Complaint("SYS426", (str(asked.get(name)), name)))
        return done("SYS413", headers={"Location": VIDEO}, status=202)

    def services(_: Request) -> Reply:
        path = f"{names.MANAGER}/LogServices"
        return ok(collection(path, "LogServiceCollection", "Log Service Collection", [link(names.LOG)]))

    def log(_: Request) -> Reply:
        now = stamp(controller.timeline.now)
        return ok(
            {
                "@odata.id": names.LOG,
                "@odata.type": "#LogService.v1_3_0.LogService",
                "DateTime": now,
                "DateTimeLocalOffset": now[-6:],
                "Entries": link(f"{names.LOG}/Entries"),
                "Id": "Lclog",
                "LogEntryType": "OEM",
                "MaxNumberOfRecords": 500000,
                "Name": "LifeCycle Controller Log Service",
                "OverWritePolicy": "WrapsWhenFull",
                "ServiceEnabled": True,
            }
        )

    def entries(request: Request) -> Reply:
        return _entries(controller, request)

    def entry(request: Request) -> Reply:
        found = next((entry for entry in controller.log.entries if str(entry.number) == request.names["id"]), None)
        return not_found(request.path) if found is None else ok(_entry(found))

    def attributes(request: Request) -> Reply:
        values = _ATTRIBUTES.get(request.names["id"])
        if values is None:
            return not_found(request.path)
        if request.names["id"] == "iDRAC.Embedded.1":
            values = values | mishaps.access_settings(controller)
        if request.names["id"] == "LifecycleController.Embedded.1":
            values = values | mishaps.lifecycle_settings(controller)
        return ok(
            {
                "@odata.id": request.path,
                "@odata.type": "#DellAttributes.v1_0_0.DellAttributes",
                "AttributeRegistry": "ManagerAttributeRegistry.v1_0_0",
                "Attributes": values,
                "Id": request.names["id"],
                "Name": "OEMAttributeRegistry",
            }
        )

    return (
        Route("GET", home, lc_service),
        Route("POST", f"{home}/Actions/DellLCService.GetRemoteServicesAPIStatus", status),
        Route("POST", f"{home}/Actions/DellLCService.ExportServerScreenShot", screenshot),
        Route("POST", f"{home}/Actions/DellLCService.ExportVideoLog", video),
        Route("GET", f"{names.MANAGER}/LogServices", services),
        Route("GET", names.LOG, log),
        Route("GET", f"{names.LOG}/Entries", entries),
        Route("GET", f"{names.LOG}/Entries/{{id}}", entry),
        Route("GET", controller.profile.attributes_at, attributes),
    )


def _status(server: Server) -> dict[str, str]:
    """All fields that the DellLCService schema of 7.10 requires."""
    state = mishaps.server_status(server.controller, server.status().server)
    is_used = state in ("LCUSC", "AutomatedTaskExecution")
    lifecycle = "InUse" if is_used else "Ready"
    status = {"LCStatus": lifecycle, "RTStatus": "Ready", "ServerStatus": state, "Status": lifecycle}
    newer = {"SEKMServiceStatus": "Ready", "TelemetryServiceStatus": "Ready"}
    return status if server.controller.profile.lc_service == names.OLD_LC_SERVICE else status | newer


def _entries(controller: Controller, request: Request) -> Reply:
    """The newest first, as iDRAC lists them; $filter, $top and $skip as iDRAC9 understands them."""
    found = list(reversed(controller.log.entries))
    for clause in re.split(r"\s+and\s+", request.query["$filter"]) if "$filter" in request.query else ():
        match = _FILTER.fullmatch(clause)
        if match is None:
            return refuse(400, Complaint("SYS407", (clause, "$filter")))
        found = [entry for entry in found if _passes(entry, match["key"], match["test"], match["value"])]
    try:
        skip, top = int(request.query.get("$skip", "0")), int(request.query.get("$top", str(PAGE)))
    except ValueError:
        return refuse(400, Complaint("SYS407", ("", "$top")))
    path = f"{names.LOG}/Entries"
    body = collection(path, "LogEntryCollection", "Log Entry Collection", [_entry(entry) for entry in found[skip : skip + top]])
    body["Members@odata.count"] = len(found)
    if "$top" not in request.query and skip + top < len(found):
        more = f"&$filter={request.query['$filter']}" if "$filter" in request.query else ""
        body["Members@odata.nextLink"] = f"{path}?$skip={skip + top}{more}"
    return ok(body)


def _passes(entry: LogEntry, key: str, test: str, wanted: str) -> bool:
    match key:
        case "Id":
            return wanted.isdigit() and _holds(test, entry.number - int(wanted))
        case "MessageId":
            value, wanted = entry.message_id, messages.bare(wanted)
        case "Severity":
            value = entry.severity
        case _:
            value = stamp(entry.at)
    return _holds(test, (value > wanted) - (value < wanted))


def _holds(test: str, order: int) -> bool:
    """Whether an OData comparison holds of two values of which the first is greater (positive), less or the same."""
    return {"eq": order == 0, "ne": order != 0, "gt": order > 0, "ge": order >= 0, "lt": order < 0, "le": order <= 0}[test]


def _entry(entry: LogEntry) -> dict[str, Json]:
    return {
        "@odata.id": f"{names.LOG}/Entries/{entry.number}",
        "@odata.type": "#LogEntry.v1_13_0.LogEntry",
        "Created": stamp(entry.at),
        "EntryType": "Oem",
        "Id": str(entry.number),
        "Links": {},
        "Message": messages.text(entry.message_id),
        "MessageArgs": list(entry.arguments),
        "MessageArgs@odata.count": len(entry.arguments),
        "MessageId": messages.full(entry.message_id),
        "Name": f"Log Entry {entry.number}",
        "Oem": {
            "Dell": {"@odata.type": "#DellLCLogEntry.v1_1_0.DellLCLogEntry", "Category": entry.category, "Comment": None},
        },
        "OemRecordFormat": "Dell",
        "Severity": entry.severity,
    }


def _screen(server: Server) -> bytes:
    """A tiny grey PNG whose shade tells a running system (light) from one in POST (dark): an image, not a drawing."""
    shade = 0xD0 if server.status().server == "OutOfPOST" else 0x20
    rows = bytes([0, *[shade] * 16]) * 9
    header = struct.pack(">IIBBBBB", 16, 9, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


_ATTRIBUTES: dict[str, dict[str, Json]] = {
    "iDRAC.Embedded.1": {
        "IPBlocking.1.BlockEnable": "Enabled",
        "IPBlocking.1.FailCount": FAILURES,
        "IPBlocking.1.FailWindow": int(WINDOW),
        "IPBlocking.1.PenaltyTime": int(PENALTY),
        "IPMISOL.1.BaudRate": "115200",
        "IPMISOL.1.Enable": "Enabled",
        "Lockdown.1.SystemLockdown": "Disabled",
        "Redfish.1.Enable": "Enabled",
        "SerialRedirection.1.Enable": "Enabled",
        "WebServer.1.MaxNumberOfSessions": MOST,
        "WebServer.1.Timeout": 1800,
    },
    "LifecycleController.Embedded.1": {
        "LCAttributes.1.CollectSystemInventoryOnRestart": "Enabled",
        "LCAttributes.1.LifecycleControllerState": "Enabled",
    },
    "System.Embedded.1": {"ServerPwr.1.PSRapidOn": "Disabled"},
}
