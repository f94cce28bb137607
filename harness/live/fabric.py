"""Questions to a live fabric controller, over HTTP or HTTPS, that only read.

    http://HOST:8080                 no login is ever sent
    https://HOST:8443  pin or CA     a login only here (HTTP Basic), after the certificate held

Ports, paths and the three ways of login (none, Basic, a session) as public clients of Liqid's REST API use them (Liqid's SDKs,
moophat/nvidia_cnc_exporter); a session is not spoken here. Every question is sent once: no retry, no redirect, no proxy, no netrc.
What changes the fabric is refused before anything is sent: a reprogramming takes down live hosts.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from harness.clock import Clock, Deadline
from harness.errors import AuthRefused, BenchError, ConfigError, Unreachable, Untrusted, UsageMistake
from harness.live.answers import parse
from harness.ports import Effect, HttpAnswer, HttpQuestion, OnLine
from harness.secret import SecretReference

LARGEST = 32 << 20
"""Bytes of an answer: a fabric of hundreds of parts needs less than one MiB."""

_CHUNK = 65536
_PRIVATE_HEADERS = frozenset({"set-cookie", "x-api-key", "authorization"})


class FabricHttp:
    """The live lane of a fabric's controller. ``pin`` is ``sha256:`` and 64 hex digits, ``ca`` a PEM file; HTTPS needs one of them.

    Raises Untrusted before anything was sent, Unreachable when there is no answer, AuthRefused for a refused login and, without
    asking again, ever after; UsageMistake for a question that would change something.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        user: str = "",
        password: SecretReference | None = None,
        pin: str = "",
        ca: str = "",
    ) -> None:
        self._url = url.rstrip("/")
        self._clock = clock
        self._user = user
        self._password = password
        self._pin = pin
        self._ca = ca
        self._refusal: AuthRefused | None = None
        self._closed = False

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:  # noqa: ARG002 - an answer has no lines
        asked = f"{self._url}: {question.key}"
        if question.effect is not Effect.OBSERVE or question.method != "GET" or question.body is not None:
            raise UsageMistake(f"{asked}: a real fabric is only read by this version; nothing was sent")
        if self._closed:
            raise Unreachable(f"{asked}: this lane was closed")
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        started = self._clock.now()
        connection = self._connection(question.timeout)
        try:
            status, headers, content = self._exchange(connection, question)
        except BenchError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{asked}: {_reason(error)}") from None
        finally:
            connection.close()
        ended = self._clock.now()
        answer = HttpAnswer(status, headers, parse(content), ended, ended - started)
        if status in {401, 403}:
            who = f"user {self._user!r} with the password from {self._password}" if self._user else "a question without a login"
            self._refusal = AuthRefused(f"{self._url}: {who} was refused: HTTP {status}; one attempt was made and none will follow")
            raise self._refusal
        return answer

    def close(self) -> None:
        """Nothing is held open; later questions are refused."""
        self._closed = True

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port or 8080, timeout=seconds)
        return http.client.HTTPSConnection(host, port or 8443, timeout=seconds, context=self._context())

    def _context(self) -> ssl.SSLContext:
        """Trust by CA with the usual checks, or none here: a pinned certificate is looked at before anything is sent."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self._ca and not self._pin:
            raise Untrusted(f"{self._url}: neither pin nor ca is given, so no certificate can be trusted")
        if self._ca:
            try:
                context.load_verify_locations(cafile=Path(self._ca).expanduser())
            except (ssl.SSLError, OSError):
                raise ConfigError("bench", f"{self._ca} holds no PEM certificate that can be read", key="fabric.ca") from None
        if self._pin:
            context.check_hostname = False
        if not self._ca:
            context.verify_mode = ssl.CERT_NONE
        return context

    def _exchange(self, connection: http.client.HTTPConnection, question: HttpQuestion) -> tuple[int, dict[str, str], bytes]:
        deadline = Deadline.after(self._clock, question.timeout)
        self._connect(connection)
        connection.request("GET", question.path, headers={"Accept": "application/json", **self._login()})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        content = b""
        while chunk := response.read1(_CHUNK):
            content += chunk
            if len(content) > LARGEST:
                raise Unreachable(f"{self._url}: {question.key}: the answer is larger than {LARGEST >> 20} MiB")
            if deadline.left(self._clock) <= 0:
                raise TimeoutError
        return response.status, {name: value for name, value in headers.items() if name not in _PRIVATE_HEADERS}, content

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        """Connect, and look at the certificate before a byte of the question leaves."""
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(f"{self._url}: the certificate does not hold: {error.verify_message}; nothing was sent") from None
        if self._pin and isinstance(connection.sock, ssl.SSLSocket):
            seen = f"sha256:{hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b'').hexdigest()}"
            if seen != self._pin:
                raise Untrusted(f"{self._url}: the certificate is {seen}, the bench pins {self._pin}; nothing was sent")

    def _login(self) -> dict[str, str]:
        """HTTP Basic, over TLS only: the bench file's rules see to it, and so does this."""
        if self._password is None or not self._user or not self._url.startswith("https://"):
            return {}
        word = f"{self._user}:{self._password.read().reveal()}".encode()
        return {"Authorization": f"Basic {base64.b64encode(word).decode()}"}


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, http.client.HTTPException):
        return "the answer is not HTTP, or was cut off"
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or "the connection was lost"
