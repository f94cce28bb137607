"""Pages of the service itself: root, the small collections, and sessions."""

from __future__ import annotations

from harness.lab.idrac import mishaps, names
from harness.lab.idrac.controller import Controller, Server
from harness.lab.idrac.log import stamp
from harness.lab.idrac.sessions import Session
from harness.lab.idrac.web import Complaint, Reply, Request, Route, collection, link, not_found, ok, refuse


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller
    sessions = controller.sessions
    home = controller.profile.sessions

    def root(_: Request) -> Reply:
        return ok(_root(controller))

    def versions(_: Request) -> Reply:
        return ok({"v1": "/redfish/v1/"})

    def systems(_: Request) -> Reply:
        path = f"{names.ROOT}/Systems"
        members = [] if mishaps.hides_systems(controller) else [link(names.SYSTEM)]
        return ok(collection(path, "ComputerSystemCollection", "Systems", members))

    def managers(_: Request) -> Reply:
        path = f"{names.ROOT}/Managers"
        return ok(collection(path, "ManagerCollection", "Managers", [link(names.MANAGER)]))

    def chassis(_: Request) -> Reply:
        path = f"{names.ROOT}/Chassis"
        return ok(collection(path, "ChassisCollection", "Chassis", [link(names.CHASSIS)]))

    def session_service(_: Request) -> Reply:
        return ok(
            {
                "@odata.id": f"{names.ROOT}/SessionService",
                "@odata.type": "#SessionService.v1_1_8.SessionService",
                "Id": "SessionService",
                "Name": "Session Service",
                "ServiceEnabled": True,
                "SessionTimeout": 1800,
                "Sessions": link(home),
            }
        )

    def list_sessions(_: Request) -> Reply:
        members = [link(f"{home}/{session.id}") for session in sessions.open]
        return ok(collection(home, "SessionCollection", "Session Collection", members))

    def log_in(request: Request) -> Reply:
        body = request.body if isinstance(request.body, dict) else {}
        missing = [name for name in ("UserName", "Password") if not isinstance(body.get(name), str)]
        if missing:
            return refuse(400, *(Complaint("SYS428", (name,)) for name in missing))
        if not sessions.accepts(body["UserName"], body["Password"], request.client):
            return refuse(401, "SYS415")
        session = sessions.start(body["UserName"], request.client)
        if session is None:
            return refuse(503, "RAC0218")
        path = f"{home}/{session.id}"
        return Reply(201, _session(path, session), {"X-Auth-Token": session.token, "Location": path})

    def show_session(request: Request) -> Reply:
        session = sessions.find(request.names["id"])
        if session is None:
            return not_found(request.path)
        return ok(_session(request.path, session))

    def log_off(request: Request) -> Reply:
        if sessions.find(request.names["id"]) is None:
            return not_found(request.path)
        sessions.end(request.names["id"])
        return Reply(204)

    return (
        Route("GET", "/redfish", versions, is_open=True),
        Route("GET", names.ROOT, root, is_open=True),
        Route("GET", f"{names.ROOT}/Systems", systems),
        Route("GET", f"{names.ROOT}/Managers", managers),
        Route("GET", f"{names.ROOT}/Chassis", chassis),
        Route("GET", f"{names.ROOT}/SessionService", session_service),
        Route("GET", home, list_sessions),
        Route("POST", home, log_in, is_open=True),
        Route("POST", f"{home}/Members", log_in, is_open=True),
        Route("POST", f"{names.ROOT}/Sessions", log_in, is_open=True),
        *([] if home == names.SESSIONS else [Route("POST", names.SESSIONS, lambda request: not_found(request.path), is_open=True)]),
        Route("GET", f"{home}/{{id}}", show_session),
        Route("DELETE", f"{home}/{{id}}", log_off),
    )


def _root(controller: Controller) -> dict[str, object]:
    identity, profile = controller.identity, controller.profile
    body: dict[str, object] = {
        "@odata.context": "/redfish/v1/$metadata#ServiceRoot.ServiceRoot",
        "@odata.id": names.ROOT,
        "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot",
        "Chassis": link(f"{names.ROOT}/Chassis"),
        "Id": "RootService",
        "Links": {"Sessions": link(profile.sessions)},
        "Managers": link(f"{names.ROOT}/Managers"),
        "Name": "Root Service",
        "Oem": {
            "BringupHarness": {"Simulated": identity.simulated},  # nothing simulated may be taken for hardware, whoever asks
            "Dell": {"@odata.type": "#DellServiceRoot.v1_0_0.DellServiceRoot", "IsBranded": 0, "ServiceTag": identity.service_tag},
        },
        "Product": "Integrated Dell Remote Access Controller",
        "ProtocolFeaturesSupported": {
            "DeepOperations": {"DeepPATCH": False, "DeepPOST": False},
            "ExcerptQuery": False,
            "ExpandQuery": {"ExpandAll": True, "Levels": True, "Links": True, "MaxLevels": 1, "NoLinks": True},
            "FilterQuery": True,
            "OnlyMemberQuery": False,
            "SelectQuery": True,
        },
        "RedfishVersion": profile.redfish,
        "Registries": link(f"{names.ROOT}/Registries"),
        "ServiceIdentification": identity.service_tag,
        "SessionService": link(f"{names.ROOT}/SessionService"),
        "Systems": link(f"{names.ROOT}/Systems"),
        "Tasks": link(f"{names.ROOT}/TaskService"),
        "UpdateService": link(f"{names.ROOT}/UpdateService"),
        "Vendor": "Dell",
    }
    return body | ({"JobService": link(f"{names.ROOT}/JobService")} if profile.has_job_service else {})


def _session(path: str, session: Session) -> dict[str, object]:
    return {
        "@odata.id": path,
        "@odata.type": "#Session.v1_6_0.Session",
        "ClientOriginIPAddress": session.client,
        "CreatedTime": stamp(session.created),
        "Id": session.id,
        "Name": "User Session",
        "Password": None,
        "SessionType": "Redfish",
        "UserName": session.user,
    }
