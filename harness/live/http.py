"""Questions to a live Redfish service, on the DMTF's python-redfish-library.

    no session ──login──> session ──close──> ended
        │  ^                 │
        │  └───── 401 ───────┘   as often as it expires: one login each time; the observe that met the
        │                        401 is asked again, an act is not
        └─401/403─> refused      for good: one wrong password is one attempt; and for good where two
                                 sessions in a row, freshly opened, are not accepted

A session is opened by the first question that needs one (all but the service root's) and is no part of any answer.
What may stay open all the same (a login whose answer never came, a session that names no place to end it) is told by
``loose_end``.
Every request is sent exactly once: no retry, no redirect, no proxy, no login from a netrc file, no word of it in a log.

Why so (measured on redfish 3.4.2): asked for three retries it sent a POST four times when the connection dropped; it follows
307 with the POST and 302 with the token; its debug log prints X-Auth-Token; a password with a quote in it slips through
its masking; PUT is preceded by a GET of its own; importing it silences urllib3's warnings in the whole process.
"""

from __future__ import annotations

import base64
import logging
import re
import ssl
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.clock import Clock
from harness.errors import AuthRefused, BenchError, ConfigError, Unreachable, Untrusted, UsageMistake
from harness.live.answers import SERVICE_ROOT, SESSION_PATHS, in_brackets, message_ids, name_holders, own_path, parse, session_path
from harness.live.failure import explain
from harness.ports import Effect, HttpAnswer, HttpQuestion, Json, OnLine
from harness.secret import MASK, Secret, SecretReference

if TYPE_CHECKING:
    from harness.live.transport import Guard, GuardedAdapter

SESSIONS_EXHAUSTED = "RAC0218"
"""iDRAC8 and iDRAC9: all sessions (8, shared with the web pages) are taken; comes as HTTP 503 (Dell EEMI registry; bb-Ricardo/
check_redfish#198)."""

NOT_READY = "SWC0700"
"""iDRAC7 to iDRAC9: "iDRAC is not ready", a transient that comes as HTTP 400 (quadsproject/badfish#129)."""

SESSION_SECONDS = 30.0
"""Time for opening or ending a session; a login takes seconds on an iDRAC that has just started."""

FRUITLESS_LOGINS = 2
"""How many sessions may be opened one after the other without one question being answered in them."""

LOST_LOGINS = 3
"""How many logins may be lost after they were sent: each may have left a session behind, and there are only 8."""

MOST_HOLDERS = 8
"""Sessions that are asked who holds them: an iDRAC9 has eight (WebServer.1.MaxNumberOfSessions, NVIDIA/libredfish)."""

_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
_BODILESS = ("GET", "HEAD")
_PRIVATE_HEADERS = frozenset({"set-cookie", "x-auth-token", "authorization"})
_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_URL = re.compile(r"https://[^/@\s?#]+/?")


class RedfishHttp:
    """The live lane of a Redfish service.

    ``pin`` is ``sha256:`` and 64 hex digits of the service's certificate (DER), ``ca`` a PEM file. With a pin alone the certificate
    must be that one; with a CA alone its chain and host name must hold; with both, the pin and the chain.

    Raises Untrusted before anything was sent, Unreachable when there is no answer (saying whether the request was sent),
    AuthRefused for a refused login and, without asking again, ever after; ConfigError for what the bench file got wrong.
    """

    def __init__(self, url: str, user: str, password: SecretReference, clock: Clock, *, pin: str = "", ca: str = "") -> None:
        self._url = url.rstrip("/")
        self._user = user
        self._password = password
        self._clock = clock
        self._pin = pin
        self._ca = ca
        self._line: _Line | None = None
        self._session: _Session | None = None
        self._fruitless = 0
        self._lost_logins = 0
        self._unended = 0
        self._holders: str | None = None
        self._refusal: AuthRefused | None = None
        self._closed = False

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:  # noqa: ARG002 - an answer has no lines
        _check(question)
        if self._closed:
            raise Unreachable(f"{self._url}: {question.key}: this lane was closed")
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if question.path.rstrip("/") == SERVICE_ROOT:
            return self._send(question, None)
        answer = self._send(question, self._session or self._log_in())
        if answer.status != 401:
            self._fruitless = 0
            return answer
        self._session = None
        if question.effect is Effect.ACT:
            raise AuthRefused(
                f"{self._url}: {question.key}: HTTP 401{in_brackets(answer.body)}: the session of user {self._user!r} had ended; "
                "the request changes the machine, so it was not sent again"
            )
        answer = self._send(question, self._log_in())
        if answer.status == 401:
            raise self._refuse(f"{question.key}: HTTP 401{in_brackets(answer.body)} in a new session of user {self._user!r}")
        self._fruitless = 0
        return answer

    def close(self) -> None:
        """End the session, whatever happened before. Raises nothing; a second Ctrl-C cuts it short."""
        session, self._session = self._session, None
        self._closed = True
        try:
            if session is not None:
                self._unended += 1
                with suppress(Exception):
                    self._end(session)
        finally:
            if self._line is not None:
                self._line.adapter.close()

    def loose_end(self) -> str:
        """What this lane may have left on the service, for the hand-over; empty where it knows that nothing is left."""
        count = self._lost_logins + self._unended
        if not count:
            return ""
        sessions = "one session" if count == 1 else f"{count} sessions"
        return (
            f"{sessions} of user {self._user!r} may stay open on {self._url} until the service's own timeout "
            "(an iDRAC's is 30 minutes): it could not be seen to end"
        )

    def _end(self, session: _Session) -> None:
        """End the session and note that it ended: one that is not known any more has ended too."""
        path = session.path or self._find(session)
        if path:
            status = self._exchange("DELETE", path, None, SESSION_SECONDS, session).answer.status
            self._unended -= 200 <= status < 300 or status in {401, 404}

    def _find(self, session: _Session) -> str:
        """Where a session is ended whose login named no place: the user's only one in the list. "" where several could be it."""
        listed = self._exchange("GET", session.login, None, SESSION_SECONDS, session).answer.body
        members = listed.get("Members") if isinstance(listed, Mapping) else None
        places = [own_path(member.get("@odata.id")) for member in members or () if isinstance(member, Mapping)]
        ours = []
        for place in filter(None, places):
            body = self._exchange("GET", place, None, SESSION_SECONDS, session).answer.body
            if not isinstance(body, Mapping) or not isinstance(body.get("UserName"), str):
                return ""
            ours += [place] if body["UserName"] == self._user else []
        return ours[0] if len(ours) == 1 else ""

    def _send(self, question: HttpQuestion, session: _Session | None) -> HttpAnswer:
        return self._exchange(question.method, question.path, question.body, question.timeout, session).answer

    def _log_in(self) -> _Session:
        """Open the session. One attempt; where it ended refused, the lane is refused for good."""
        if self._fruitless >= FRUITLESS_LOGINS:
            raise self._refuse(f"{self._fruitless} new sessions of user {self._user!r} in a row were not accepted")
        if self._lost_logins >= LOST_LOGINS:
            raise BenchError(
                f"{self._url}: {LOST_LOGINS} logins were sent and never answered; none will follow, because each may have left a "
                "session open (they end by themselves, on an iDRAC after 30 minutes)"
            )
        credentials = _Credentials(UserName=self._user, Password=self._password.read().reveal())
        for path in SESSION_PATHS:
            reply = self._post_login(path, credentials)
            if reply.answer.status not in {404, 405}:
                break
        answer = reply.answer
        if answer.status in {401, 403}:
            raise self._refuse(
                f"user {self._user!r} with the password from {self._password} was refused: "
                f"HTTP {answer.status}{in_brackets(answer.body)}"
            )
        if not 200 <= answer.status < 300:
            raise self._no_session(answer)
        if not reply.token.reveal():
            self._unended += 1
            raise self._no_session(answer)
        self._fruitless += 1
        self._session = _Session(reply.token, session_path(answer, path), path)
        return self._session

    def _post_login(self, path: str, credentials: _Credentials) -> _Reply:
        try:
            return self._exchange("POST", path, credentials, SESSION_SECONDS, None)
        except BaseException:  # Ctrl-C too: the answer that would name the session may come after it
            if self._line is not None and self._line.guard.spoke:
                self._lost_logins += 1
            raise

    def _refuse(self, why: str) -> AuthRefused:
        self._refusal = AuthRefused(f"{self._url}: {why}; one attempt was made and none will follow")
        return self._refusal

    def _no_session(self, answer: HttpAnswer) -> BenchError:
        said = f"{self._url}: no session was opened: HTTP {answer.status}{in_brackets(answer.body)}"
        ids = {name.rpartition(".")[2] for name in message_ids(answer.body)}
        if SESSIONS_EXHAUSTED in ids:
            if self._holders is None:
                self._holders = self._list_holders()
            held = f", held by {self._holders}" if self._holders else ""
            way = f"have one ended (DELETE {SESSION_PATHS[0]}/ID)" if self._holders else "log out of its web pages"
            return BenchError(f"{said}: its sessions are exhausted{held}; {way}, or wait for old sessions to end")
        if answer.status >= 500 or NOT_READY in ids:
            return Unreachable(f"{said}: the service is not ready, or its sessions are exhausted")
        return BenchError(said)

    def _list_holders(self) -> str:
        """Who holds the sessions, asked without one: by the login of a single request, once a lane. "" where that is not told.

        The login was refused for the sessions and not for the password, so this is no second try of a wrong one; where it is
        refused all the same (HTTP 401, also of a service whose Basic authentication is off), nothing further is asked.
        """
        try:
            with self._single_logins():
                for place in SESSION_PATHS:
                    listed = self._exchange("GET", place, None, SESSION_SECONDS, None).answer
                    if listed.status != 404:
                        break
                members = listed.body.get("Members") if isinstance(listed.body, Mapping) else None
                places = [own_path(member.get("@odata.id")) for member in members or () if isinstance(member, Mapping)]
                known = [place for place in places if place][:MOST_HOLDERS]
                bodies = [self._exchange("GET", each, None, SESSION_SECONDS, None).answer.body for each in known]
        except BenchError:
            return ""
        return name_holders([body for body in bodies if isinstance(body, Mapping)])

    @contextmanager
    def _single_logins(self) -> Iterator[None]:
        """Send the login with each request of the block, as Basic, which an iDRAC wants unasked (redhat-performance/jetlag#848)."""
        line = self._line or self._connect()
        pair = f"{self._user}:{self._password.read().reveal()}"
        line.adapter.login = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            yield
        finally:
            line.adapter.login = ""

    def _exchange(self, method: str, path: str, body: Json | None, seconds: float, session: _Session | None) -> _Reply:
        """One request, sent once, and its answer."""
        line = self._line or self._connect()
        line.guard.arm(seconds)
        started = self._clock.now()
        try:
            response = line.request(method, path, body, seconds, "" if session is None else session.token.reveal())
        except Exception as error:
            raise explain(f"{self._url}: {method} {path}", error, line.guard) from None
        ended = self._clock.now()
        headers = {name.lower(): value for name, value in response.getheaders()}
        token = Secret(headers.get("x-auth-token", ""))
        public = {name: value for name, value in headers.items() if name not in _PRIVATE_HEADERS}
        return _Reply(HttpAnswer(response.status, public, parse(response.read), ended, ended - started), token)

    def _connect(self) -> _Line:
        """Build the client; nothing is sent yet. Raises ConfigError or Untrusted for a bench that names no trust."""
        if not _URL.fullmatch(self._url):
            raise ConfigError("bench", f"{self._url!r} is not https://HOST[:PORT]", key="bmc.url")
        if not self._pin and not self._ca:
            raise Untrusted(f"{self._url}: neither pin nor ca is given, so no certificate can be trusted")
        if self._pin and not _PIN.fullmatch(self._pin):
            raise ConfigError("bench", "a pin is sha256: and 64 lower-case hex digits", key="bmc.pin")
        authority = str(Path(self._ca).expanduser()) if self._ca else None
        if authority is not None:
            _check_ca(authority)
        redfish = _library()
        from harness.live.transport import Guard, GuardedAdapter

        guard = Guard(ssl.PROTOCOL_TLS_CLIENT, self._clock, self._pin)
        adapter = GuardedAdapter(guard)
        client = redfish.redfish_client(
            base_url=self._url,
            cafile=authority,
            max_retry=0,
            check_connectivity=False,
            https_adapter=adapter,
        )
        self._line = _Line(client, adapter, guard)
        return self._line


@dataclass(frozen=True)
class _Line:
    """The library's client and what guards it."""

    client: Any
    adapter: GuardedAdapter
    guard: Guard

    def request(self, method: str, path: str, body: Json | None, seconds: float, token: str) -> Any:
        """Let the library send one request; it raises whatever it likes."""
        headers = {"X-Auth-Token": token} if token else {}
        content = {} if method in _BODILESS else {"body": body}
        return getattr(self.client, method.lower())(path, headers=headers, timeout=seconds, max_retry=0, **content)


@dataclass(frozen=True)
class _Session:
    """An open session: what proves it, where it is ended ("" where the service did not say), and where it was opened."""

    token: Secret
    path: str
    login: str


@dataclass(frozen=True)
class _Reply:
    """An answer and the token that came with it, if any."""

    answer: HttpAnswer
    token: Secret


class _Credentials(dict[str, str]):
    """The body of a login; masked, because tracebacks show local variables."""

    def __repr__(self) -> str:
        return MASK


def _check(question: HttpQuestion) -> None:
    """Refuse what the library would change on its way. Raises UsageMistake."""
    if question.method not in _METHODS:
        raise UsageMistake(f"{question.key}: the method must be one of {', '.join(_METHODS)}")
    if not question.path.startswith("/") or question.path.startswith("//"):
        raise UsageMistake(f"{question.key}: the path must begin with one slash; the lane knows the host")
    if "//" in question.path:
        raise UsageMistake(f"{question.key}: write %2F for the second of two slashes; the library would drop it")
    if question.body is not None and (question.method in _BODILESS or not isinstance(question.body, dict | list)):
        raise UsageMistake(f"{question.key}: a body is a JSON object or list, and {' and '.join(_BODILESS)} have none")


def _check_ca(path: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        raise ConfigError("bench", f"{path} holds no PEM certificate", key="bmc.ca") from None
    except OSError as error:
        raise ConfigError("bench", f"cannot read {path}: {error.strerror}", key="bmc.ca") from None


def _library() -> Any:
    """Import the library without its side effects: a filter on everybody's warnings, and its log."""
    with warnings.catch_warnings():
        import redfish
        import redfish.rest.v1
    redfish.rest.v1.LOGGER.addFilter(_say_nothing)
    return redfish


def _say_nothing(record: logging.LogRecord) -> bool:  # noqa: ARG001 - the library logs tokens and login bodies at several levels
    return False
