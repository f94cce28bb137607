"""The simulated iDRAC as one function from request to reply: no sockets, no threads, no time of its own.

handle ─▶ is it up? ─▶ route ─▶ credentials ─▶ is it ready? ─▶ page ─▶ $expand, $select ─▶ bytes
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from harness.errors import Unreachable
from harness.lab.idrac import bios, disturbances, gpus, inventory, jobs, lifecycle, messages, names, protocol, service, system
from harness.lab.idrac.controller import Server
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.web import Json, Page, Reply, Request, Route, not_found, refuse, refuse_precondition

_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT"})


class IdracApplication:
    """All pages of one iDRAC."""

    def __init__(self, server: Server) -> None:
        self.server = server
        routes: list[Route] = [*protocol.routes()]
        for module in (service, system, bios, jobs, lifecycle, inventory, gpus):
            routes.extend(module.routes(server))
        self._plain = {(route.method, route.pattern): route for route in routes if "{" not in route.pattern}
        self._patterns = [(route, route.compiled()) for route in routes if "{" in route.pattern]
        self._hiccups = 1 if "benign.session-slow" in server.controller.faults else 0

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, client: str = "local"
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer one request. ``path`` may carry a query; header names may have any case.

        Raises Unreachable where a client would get no answer: iDRAC is restarting, it has blocked the client's address, or a fault
        loses the answer.
        """
        self.server.status()
        controller = self.server.controller
        if not controller.is_up:
            raise Unreachable("iDRAC is restarting: connection refused")
        if controller.sessions.is_blocked(client):
            raise Unreachable("iDRAC has blocked this address after refused log-ins")
        lower = {name.lower(): value for name, value in headers.items()}
        reply = self._answer(method, path, lower, body, client)
        body = _versioned(disturbances.distort(controller, reply).body, controller.profile)
        payload = (
            body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        )
        sent = protocol.headers(self._allowed(urlsplit(path).path.rstrip("/")), reply.headers)
        return reply.status, sent, payload

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes, client: str) -> Reply:
        split = urlsplit(path)
        plain = split.path.rstrip("/") or "/"
        route, found = self._find("GET" if method == "HEAD" else method, plain)
        if route is None or not route.is_open:
            refused = (
                self._check(headers, client)
                or self._delay()
                or disturbances.interrupt(self.server.controller, method, plain, headers)
            )
            if refused is not None:
                return refused
        if headers.get("odata-version", "4.0") != "4.0":
            return refuse_precondition()
        if route is None:
            return refuse(405, "SYS446") if self._allowed(plain) or method not in _METHODS else not_found(plain)
        try:
            parsed = json.loads(body) if body.strip() else None
        except ValueError:
            return refuse(400, "SYS405")
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        if any(name.startswith("$") and name not in protocol.SUPPORTED_QUERIES for name in query):
            return refuse(501, "SYS446")
        reply = route.page(Request(method, plain, query, headers, parsed, found, client))
        return self._shape(reply, query) if route.method == "GET" and reply.status == 200 else reply

    def _delay(self) -> Reply | None:
        """Not ready: its services start again, or a fault makes it say so once."""
        if self.server.controller.is_ready and not self._hiccups:
            return None
        self._hiccups = max(0, self._hiccups - 1)
        return refuse(400, "SWC0700")

    def _find(self, method: str, path: str) -> tuple[Route | None, dict[str, str]]:
        route = self._plain.get((method, path))
        if route is not None:
            return route, {}
        for candidate, pattern in self._patterns:
            if candidate.method == method and (match := pattern.fullmatch(path)):
                return candidate, match.groupdict()
        return None, {}

    def _allowed(self, path: str) -> set[str]:
        """The methods that a path knows; none where there is no such resource."""
        return {method for method in ("GET", "POST", "PATCH", "DELETE") if self._find(method, path)[0] is not None}

    def _check(self, headers: Mapping[str, str], client: str) -> Reply | None:
        """Credentials: a token or, as iDRAC wants it, pre-emptive Basic; never both."""
        sessions = self.server.controller.sessions
        token, basic = headers.get("x-auth-token"), headers.get("authorization")
        if token is not None and basic is not None:
            return refuse(400, "SYS468")
        if token is not None:
            return None if sessions.use(token) else refuse(401, "SYS415")
        if basic is None:
            return refuse(401, "SYS416")
        user, _, password = _decode_basic(basic).partition(":")
        return None if sessions.accepts(user, password, client) else refuse(401, "SYS415")

    def _shape(self, reply: Reply, query: Mapping[str, str]) -> Reply:
        """``$expand`` one level of a collection's members, then ``$select`` top-level properties."""
        body = reply.body
        if "$expand" in query and isinstance(body, dict) and "Members" in body:
            body = body | {"Members": [self._expand(member) for member in body["Members"]]}
        if "$select" in query and isinstance(body, dict):
            wanted = {name.strip() for name in query["$select"].split(",")}
            body = {key: value for key, value in body.items() if key.startswith("@") or key in wanted}
        return Reply(reply.status, body, reply.headers)

    def _expand(self, member: Json) -> Json:
        if not isinstance(member, dict) or set(member) != {"@odata.id"}:
            return member
        route, found = self._find("GET", member["@odata.id"])
        if route is None:
            return member
        page: Page = route.page
        reply = page(Request("GET", member["@odata.id"], names=found))
        return reply.body if reply.status == 200 else member


def _versioned(body: Json, profile: Profile) -> Json:
    """The body with every message id and error code under the registry versions of the profile."""
    if isinstance(body, list):
        return [_versioned(entry, profile) for entry in body]
    if not isinstance(body, dict):
        return body
    versions = {messages.REGISTRY: profile.messages, messages.BASE: profile.base}
    done = {key: _versioned(value, profile) for key, value in body.items()}
    for key in ("MessageId", "code"):
        registry, dot, name = str(done.get(key, "")).partition(".")
        if dot and registry in versions:
            done[key] = f"{versions[registry]}.{name}"
    return done


def _decode_basic(header: str) -> str:
    if not re.match(r"basic ", header, re.IGNORECASE):
        return ""
    try:
        return base64.b64decode(header[6:], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


ROOT = names.ROOT
"""The path that answers without credentials."""
