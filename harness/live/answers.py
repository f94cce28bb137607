"""What a Redfish service has answered, read without trust in any of it: bodies, places of sessions, ids of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.ports import HttpAnswer, Json

SERVICE_ROOT = "/redfish/v1"

SESSION_PATHS = ("/redfish/v1/SessionService/Sessions", "/redfish/v1/Sessions")
"""Where a session is opened. The second is for early iDRAC9 and iDRAC8 firmware whose service root links to
``/redfish/v1/Sessions`` (sailfishdell/sailfish, R740 with iDRAC 3.15.15.15); it is tried when the first does not exist."""


def parse(content: bytes | None) -> Json | None:
    """JSON where it is JSON, text where it is not, None where there is none."""
    if not content:
        return None
    text = content.decode("utf-8", "backslashreplace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def session_path(answer: HttpAnswer, login: str) -> str:
    """Where the session is ended: by the Location, by the body's link, else by its id below where it was opened."""
    body = answer.body if isinstance(answer.body, Mapping) else {}
    number = body.get("Id")
    by_id = f"{login}/{number}" if isinstance(number, str) and re.fullmatch(r"[\w.-]+", number) else ""
    return own_path(answer.headers.get("location")) or own_path(body.get("@odata.id")) or by_id


def own_path(place: object) -> str:
    """A place without its host, since the token goes to our own host only; "" for what is no place of the service."""
    if not isinstance(place, str):
        return ""
    try:
        path = urlsplit(place).path.rstrip("/")
    except ValueError:
        return ""
    return path if path.startswith(f"{SERVICE_ROOT}/") and "//" not in path and path not in SESSION_PATHS else ""


def name_holders(bodies: list[Mapping[str, Any]]) -> str:
    """``operator from 192.0.2.7 (ids 1, 2), root (id 5)``: user, address where it is told, and the sessions of each."""
    held: dict[str, list[str]] = {}
    for body in bodies:
        user, origin, number = (body.get(key) for key in ("UserName", "ClientOriginIPAddress", "Id"))
        if isinstance(user, str) and user:
            held.setdefault(f"{user} from {origin}" if isinstance(origin, str) and origin else user, []).append(str(number))
    return ", ".join(f"{who} (id{'s' * (len(ids) > 1)} {', '.join(ids)})" for who, ids in held.items())


def message_ids(body: Json | None) -> tuple[str, ...]:
    """The ids of the extended info of an error body; none where the body is of another shape."""
    error = body.get("error") if isinstance(body, Mapping) else None
    entries = error.get("@Message.ExtendedInfo") if isinstance(error, Mapping) else None
    found = (entry.get("MessageId") for entry in entries if isinstance(entry, Mapping)) if isinstance(entries, list) else ()
    return tuple(name for name in found if isinstance(name, str))


def in_brackets(body: Json | None) -> str:
    """The same in brackets behind a blank, nothing where there are none."""
    ids = message_ids(body)
    return f" ({', '.join(ids)})" if ids else ""
