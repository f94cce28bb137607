"""Requests, replies and routes of the simulated iDRAC, free of any server.

Request ──▶ Route (method, path pattern, page) ──▶ Reply
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.lab.idrac import messages

Json: TypeAlias = Any

APPLY = "@Redfish.SettingsApplyTime"
"""The annotation of a PATCH that says when its values take effect."""


@dataclass(frozen=True)
class Request:
    """One HTTP request, taken apart. ``names`` are what the route's pattern found, ``client`` the caller's address."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    names: Mapping[str, str] = field(default_factory=dict)
    client: str = ""


@dataclass(frozen=True)
class Reply:
    """Status, headers and a JSON body (None: no body)."""

    status: int
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)


Page: TypeAlias = Callable[[Request], Reply]


@dataclass(frozen=True)
class Route:
    """A page under ``method`` and ``pattern``, in which ``{name}`` stands for one path segment."""

    method: str
    pattern: str
    page: Page
    is_open: bool = False
    """True where no credentials are needed."""

    def compiled(self) -> re.Pattern[str]:
        """The pattern as a regular expression for the whole path."""
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.pattern)))


@dataclass(frozen=True)
class Complaint:
    """One message of an error body; ``message_id`` is bare or carries its registry."""

    message_id: str
    arguments: Sequence[str] = ()
    related: Sequence[str] = ()


def ok(body: Json) -> Reply:
    """200 with a resource."""
    return Reply(200, body)


def done(*ids: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Success that says so in extended info, as iDRAC answers a write."""
    info = [_base("Success", "OK"), *(_info(Complaint(message_id)) for message_id in ids or ("SYS413",))]
    return Reply(status, {"@Message.ExtendedInfo": info}, headers or {})


def refuse(status: int, *complaints: Complaint | str) -> Reply:
    """An error body with its extended info."""
    listed = [Complaint(entry) if isinstance(entry, str) else entry for entry in complaints]
    return Reply(
        status,
        {
            "error": {
                "@Message.ExtendedInfo": [_info(complaint) for complaint in listed],
                "code": f"{messages.BASE}.GeneralError",
                "message": "See ExtendedInfo.",
            }
        },
    )


def refuse_precondition() -> Reply:
    """412: If-Match names another version of the resource."""
    return _refuse_with_base(412, "PreconditionFailed")


def refuse_privilege() -> Reply:
    """403: the user may not do this."""
    return _refuse_with_base(403, "InsufficientPrivilege")


def _refuse_with_base(status: int, name: str) -> Reply:
    """An error body with a message of DMTF's base registry."""
    return Reply(
        status,
        {
            "error": {
                "@Message.ExtendedInfo": [_base(name, "Critical")],
                "code": f"{messages.BASE}.GeneralError",
                "message": "See ExtendedInfo.",
            }
        },
    )


def not_found(path: str) -> Reply:
    """404 with SYS403."""
    return refuse(404, Complaint("SYS403", (path,)))


def link(path: str) -> dict[str, str]:
    """A reference to a resource."""
    return {"@odata.id": path}


def collection(path: str, kind: str, name: str, members: Sequence[Json]) -> dict[str, Json]:
    """A collection resource."""
    return {
        "@odata.context": f"/redfish/v1/$metadata#{kind}.{kind}",
        "@odata.id": path,
        "@odata.type": f"#{kind}.{kind}",
        "Description": name,
        "Members": list(members),
        "Members@odata.count": len(members),
        "Name": name,
    }


def _info(complaint: Complaint) -> dict[str, Json]:
    severity = messages.severity(complaint.message_id)
    return {
        "Message": messages.text(complaint.message_id),
        "MessageArgs": list(complaint.arguments),
        "MessageArgs@odata.count": len(complaint.arguments),
        "MessageId": messages.full(complaint.message_id),
        "RelatedProperties": list(complaint.related),
        "RelatedProperties@odata.count": len(complaint.related),
        "Resolution": "",
        "Severity": severity,
    }


def _base(name: str, severity: str) -> dict[str, Json]:
    return {
        "Message": name,
        "MessageArgs": [],
        "MessageArgs@odata.count": 0,
        "MessageId": f"{messages.BASE}.{name}",
        "RelatedProperties": [],
        "RelatedProperties@odata.count": 0,
        "Resolution": "",
        "Severity": severity,
    }
