"""The simulated iDRAC over real TLS, for clients outside this process. The only module that imports cheroot.

    socket ─▶ cheroot ─▶ gateway ─(one at a time)─▶ IdracApplication.handle
                            └ Unreachable: the connection is closed without a byte

The whole answer leaves in one write and cheroot sets TCP_NODELAY; headers and body apart would cost 40 ms a request (Nagle's
algorithm against delayed acknowledgements). A client that asks for the end of its connection is told of it.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from harness.errors import Unreachable
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.certificate import make_certificate

IDLE = 90
"""Seconds until an idle connection is hung up on. With cheroot's own ten, whoever asks every ten seconds meets the hang-up."""


@dataclass(frozen=True)
class Served:
    """Where the application is reached, and the pin of its certificate."""

    url: str
    pin: str


@contextmanager
def serve(application: IdracApplication, host: str = "127.0.0.1", port: int = 0) -> Iterator[Served]:
    """Serve ``application`` until the block ends; ``port`` 0 takes a free one. Needs the ``lab`` extra (cheroot).

    The application's machine moves with its own clock: give it a WallClock for a client that waits in real time.
    """
    from cheroot.server import HTTPServer
    from cheroot.ssl.builtin import BuiltinSSLAdapter

    with tempfile.TemporaryDirectory(prefix="bringup-lab-") as folder:
        certificate = make_certificate(Path(folder), host)
        server = HTTPServer((host, port), gateway=_gateway(application), minthreads=4, server_name="model-idrac")
        server.expiration_interval = 0.05  # seconds; stopping takes as long
        server.timeout = IDLE
        server.ssl_adapter = BuiltinSSLAdapter(str(certificate.pem), str(certificate.key))
        server.prepare()
        thread = threading.Thread(target=server.serve, name="model-idrac", daemon=True)
        thread.start()
        try:
            yield Served(f"https://{host}:{server.bind_addr[1]}", certificate.pin)
        finally:
            server.stop()
            thread.join()


def _gateway(application: IdracApplication) -> Any:
    """A cheroot gateway that asks ``application``, one request at a time: the model knows no threads."""
    from cheroot.server import Gateway

    turn = threading.Lock()

    class IdracGateway(Gateway):  # type: ignore[misc, unused-ignore]
        def respond(self) -> None:
            request: Any = self.req
            body = request.rfile.read()  # of every method: what stays unread would be taken for the next request
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.inheaders.items()}
            path = request.uri.decode("latin-1")
            client = request.conn.remote_addr or ""
            request.sent_headers = True  # nothing but what is written below goes out
            try:
                with turn:
                    answer = application.handle(request.method.decode("ascii"), path, headers, body, client=client)
            except Unreachable:
                request.close_connection = True
                return
            status, sent, payload = answer
            request.close_connection = request.close_connection or not request.server.can_add_keepalive_connection
            if request.close_connection:  # said, or a client sends its next request into a connection that is gone
                sent = {**sent, "Connection": "close"}
            request.conn.wfile.write(_as_bytes(status, sent, payload, is_head=request.method == b"HEAD"))

    return IdracGateway


def _as_bytes(status: int, headers: dict[str, str], body: bytes, *, is_head: bool) -> bytes:
    """The whole answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    if status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if is_head else body)
