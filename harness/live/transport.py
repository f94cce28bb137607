"""The transport under the Redfish library: what a connection must prove before the first byte of a request leaves.

    TCP connect ─ TLS handshake ─ certificate ─ request ─ answer
                                      │
                                      └─ not the pinned one, or not from the CA for this host:
                                         closed on the spot, nothing was sent

The library hands this adapter to its ``requests`` session, so the rules hold whatever the library does above it.
Measured on redfish 3.4.2: without a CA file it accepts any certificate; it follows 307 with the POST again and 302 with the
token; its session takes proxies and netrc logins from the environment.

This module imports requests, so only the first question of a lane imports it.
"""

from __future__ import annotations

import errno
import hashlib
import ssl
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from harness.clock import Clock, Deadline

_FOREIGN_LOGINS = ("Authorization", "Cookie")
"""Headers that only a netrc file or an earlier answer can have put in: a session is carried by X-Auth-Token alone, and a login
of a single request (``login``) is put in here, past everything that the library does with headers."""


MOST = 64 * 1024 * 1024
"""Bytes that an answer may have, unpacked. A registry has half a million, a boot video some millions; a service that pours without
an end, or a small packed answer that swells, would fill this machine's memory long before its time is over."""

_PIECE = 64 * 1024


class GuardedSocket(ssl.SSLSocket):
    """A TLS socket that shows its peer's certificate to the guard before use and keeps the guard's deadline."""

    context: Guard

    def do_handshake(self, block: bool = False) -> None:
        self._hurry()
        super().do_handshake(block)
        self.context.examine(self.getpeercert(binary_form=True) or b"")

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self._hurry()
        return super().recv_into(buffer, nbytes, flags)

    def send(self, data: Any, flags: int = 0) -> int:
        self.context.spoke = True
        return super().send(data, flags)

    def _hurry(self) -> None:
        """A socket's own timeout begins anew with each byte; the question's does not."""
        left = self.context.left()
        if left <= 0:
            raise TimeoutError("the question's time is over")
        self.settimeout(left)


class Guard(ssl.SSLContext):
    """The TLS context of one lane.

    ``pin`` is ``sha256:`` and 64 hex digits of the peer's certificate (DER), or "". Without a pin the context verifies chain and
    host name as usual. ``seen`` is the pin of the last peer that was refused, ``spoke`` whether any byte of the current
    question left this machine.
    """

    sslsocket_class = GuardedSocket

    def __init__(self, protocol: int, clock: Clock, pin: str) -> None:  # noqa: ARG002 - taken by SSLContext.__new__
        super().__init__()
        self.pin = pin
        self.seen = ""
        self.spoke = False
        self._clock = clock
        self._deadline = Deadline.after(clock, 0)
        if pin:
            self.check_hostname = False

    def arm(self, seconds: float) -> None:
        """Begin a question that has ``seconds`` for everything, handshake included."""
        self._deadline = Deadline.after(self._clock, seconds)
        self.seen = ""
        self.spoke = False

    def left(self) -> float:
        """Seconds left of the current question."""
        return self._deadline.left(self._clock)

    def examine(self, certificate: bytes) -> None:
        """Refuse a peer whose certificate is not the pinned one."""
        seen = f"sha256:{hashlib.sha256(certificate).hexdigest()}"
        if self.pin and seen != self.pin:
            self.seen = seen
            raise ssl.SSLCertVerificationError(f"certificate {seen} is not the pinned {self.pin}")


def _read(answer: Response) -> bytes:
    """The body, unpacked. Raises OSError where it is longer than MOST, and what the connection raises."""
    pieces: list[bytes] = []
    size = 0
    for piece in answer.iter_content(_PIECE):
        size += len(piece)
        if size > MOST:
            answer.close()
            raise OSError(errno.EMSGSIZE, f"the answer is longer than {MOST // 1024**2} MiB")
        pieces.append(piece)
    return b"".join(pieces)


class Unfollowed(Response):
    """An answer that is never followed elsewhere: a 3xx is given to the caller as it is."""

    @property
    def is_redirect(self) -> bool:
        return False


class GuardedAdapter(HTTPAdapter):
    """Sends each request once, straight to the host, over connections that passed the guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.login = ""
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool: Any) -> None:
        pin = self._guard.pin.removeprefix("sha256:") or None
        super().init_poolmanager(connections, maxsize, block, ssl_context=self._guard, assert_fingerprint=pin, **pool)

    def send(self, request: PreparedRequest, *positional: Any, **how: Any) -> Response:
        for name in _FOREIGN_LOGINS:
            request.headers.pop(name, None)
        if self.login:
            request.headers["Authorization"] = self.login
        answer = super().send(request, *positional, **{**how, "proxies": None, "stream": True})
        answer._content = _read(answer)  # what ``content`` gives; the library reads it that way
        return answer

    def build_response(self, req: PreparedRequest, resp: Any) -> Response:
        answer = Unfollowed()
        vars(answer).update(vars(super().build_response(req, resp)))
        return answer
