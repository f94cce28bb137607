from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

import pytest

from harness.clock import Clock, WallClock
from harness.live.http import RedfishHttp
from harness.secret import SecretReference

PASSWORD = 'correct "horse" battery'
"""A password with quotes in it: the Redfish library's own masking stops at the first one."""


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate on disk and its pin."""

    pem: Path
    key: Path
    pin: str

    @classmethod
    def make(cls, folder: Path, *names: str) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
        alternatives = [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names or ("127.0.0.1",)
        ]
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        folder.mkdir(parents=True, exist_ok=True)
        pem, secret = folder / "certificate.pem", folder / "key.pem"
        pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        der = certificate.public_bytes(serialization.Encoding.DER)
        return cls(pem, secret, f"sha256:{hashlib.sha256(der).hexdigest()}")


@dataclass(frozen=True)
class Request:
    """What reached the service; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


Reply = Any
"""(status, headers, body): body a JSON value, bytes or None. Or None: drop the connection without a word. Or an iterator of
bytes: send them as they come and close."""


class LoopbackService:
    """A TLS service on 127.0.0.1 whose answers are a function of the request; it keeps every request it saw."""

    def __init__(self, answer: Callable[[Request], Reply], certificate: Certificate) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.pem, certificate.key)
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]

    def serve_with(self, certificate: Certificate) -> None:
        """Show another certificate from the next connection on, and drop the present ones."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.pem, certificate.key)
        self.drop_connections()

    def drop_connections(self) -> None:
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def start(self) -> LoopbackService:
        self._thread.start()
        return self

    def stop(self) -> None:
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.drop_connections()

    def accept(self, plain: socket.socket) -> socket.socket:
        self.connections += 1
        # The handshake happens with the first read, in the connection's own thread: a client that hangs up there hurts nobody.
        wrapped = self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._open.append(wrapped)
        return wrapped


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, service: LoopbackService) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.service.accept(plain), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that break off are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Standard error is for the tests."""

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, json.loads(content) if content else None)
        self.server.service.requests.append(request)
        reply = self.server.service.answer(request)
        if isinstance(reply, tuple):
            self._answer(*reply)
            return
        self.close_connection = True
        for piece in reply or ():
            self.wfile.write(piece)

    def _answer(self, status: int, headers: dict[str, str], body: Any) -> None:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [
            f"HTTP/1.1 {status} Said",
            f"Content-Length: {len(content)}",
            *(f"{name}: {text}" for name, text in headers.items()),
        ]
        self.wfile.write("\r\n".join([*head, "", ""]).encode() + (b"" if self.command == "HEAD" else content))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)


@dataclass
class Sessions:
    """Redfish sessions in front of an answer function: login, logout, and 401 for whoever has no valid token."""

    answer: Callable[[Request], Reply]
    password: str = PASSWORD
    login: list[Reply] = field(default_factory=list)
    """Replies to the first logins, instead of the true ones."""
    tokens: dict[str, str] = field(default_factory=dict)
    opened: int = 0

    def __call__(self, request: Request) -> Reply:
        if request.path.rstrip("/") == "/redfish/v1":
            return 200, {}, {"Name": "Root"}
        if request.line == "POST /redfish/v1/SessionService/Sessions":
            return self._log_in(request)
        if request.headers.get("x-auth-token", "no token") not in self.tokens:
            return 401, {}, error("IDRAC.2.8.SYS415")
        if request.method == "DELETE" and "/Sessions/" in request.path:
            self.tokens = {token: path for token, path in self.tokens.items() if path != request.path}
            return 204, {}, None
        return self.answer(request)

    def end_all(self) -> None:
        self.tokens.clear()

    def _log_in(self, request: Request) -> Reply:
        if self.login:
            return self.login.pop(0)
        if request.body != {"UserName": "root", "Password": self.password}:
            return 401, {}, error("IDRAC.2.8.SYS415")
        self.opened += 1
        path = f"/redfish/v1/SessionService/Sessions/{self.opened}"
        token = f"token-{self.opened}-of-this-session"
        self.tokens[token] = path
        return 201, {"X-Auth-Token": token, "Location": path}, {"@odata.id": path}


def error(*ids: str) -> dict[str, Any]:
    return {"error": {"code": "Base", "@Message.ExtendedInfo": [{"MessageId": name} for name in ids]}}


def everything_is_well(request: Request) -> Reply:
    return 200, {}, {"path": request.path}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Certificate]:
    """Make a certificate for the names given; made once a session for each set of names and each ``nth``."""
    made: dict[tuple[str, ...], Certificate] = {}
    folder = tmp_path_factory.mktemp("certificates")

    def make(*names: str, nth: int = 0) -> Certificate:
        key = (*names, str(nth))
        if key not in made:
            made[key] = Certificate.make(folder / str(len(made)), *names)
        return made[key]

    return make


@pytest.fixture
def certificate(certificates: Callable[..., Certificate]) -> Certificate:
    return certificates("127.0.0.1", "localhost")


@pytest.fixture
def serve(certificate: Certificate) -> Iterator[Callable[..., LoopbackService]]:
    """Start a service with an answer function; with sessions in front of it unless told otherwise."""
    started: list[LoopbackService] = []

    def start(answer: Callable[[Request], Reply] = everything_is_well, *, shown: Certificate | None = None) -> LoopbackService:
        started.append(LoopbackService(answer, shown or certificate).start())
        return started[-1]

    yield start
    for service in started:
        service.stop()


@pytest.fixture
def sessions() -> Callable[..., Sessions]:
    """``sessions(answer)``: that answer behind Redfish sessions."""
    return lambda answer=everything_is_well, **other: Sessions(answer, **other)


@pytest.fixture
def clock() -> Clock:
    return WallClock()


@pytest.fixture
def lane(certificate: Certificate, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RedfishHttp]]:
    """``lane(service)``: a live lane to it, as user root with the right password, trusting the certificate by its pin."""
    monkeypatch.setenv("LOOPBACK_PASSWORD", PASSWORD)
    opened: list[RedfishHttp] = []

    def connect(service: LoopbackService | str, **other: Any) -> RedfishHttp:
        trust = other if other.keys() & {"pin", "ca"} else {**other, "pin": certificate.pin}
        url = service if isinstance(service, str) else service.url
        opened.append(RedfishHttp(url, "root", SecretReference(env="LOOPBACK_PASSWORD"), clock, **trust))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def extended_error() -> Callable[..., dict[str, Any]]:
    return error


@pytest.fixture
def password() -> str:
    return PASSWORD
