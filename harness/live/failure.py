"""Why there was no answer, in one line, out of the nest of exceptions that the Redfish library raises.

redfish wraps requests, which wraps urllib3, which wraps http.client, ssl and the operating system; only the innermost say
what happened, so the kinds are looked for at any depth. Texts are never matched.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.errors import BenchError, Unreachable, Untrusted

if TYPE_CHECKING:
    from harness.live.transport import Guard

_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((socket.gaierror,), "the host name is not known"),
    ((ConnectionRefusedError,), "connection refused"),
    ((TimeoutError,), "no answer in time"),
    ((http.client.IncompleteRead,), "the connection was lost within the answer"),
    ((ConnectionResetError, BrokenPipeError, ConnectionAbortedError), "the connection was lost before the answer"),
    ((http.client.HTTPException,), "the answer is not HTTP"),
    ((ssl.SSLError,), "no TLS connection could be made"),
)


def explain(asked: str, error: Exception, guard: Guard) -> BenchError:
    """What the library's exception means, in one line: Untrusted or Unreachable."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Untrusted(f"{asked}: {_distrust(cause, guard)}; nothing was sent")
    reason = next((reason for kinds, reason in _REASONS if any(isinstance(cause, kinds) for cause in causes)), "")
    if not reason:
        system = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
        reason = system or type(causes[-1]).__name__
    fate = "it had been sent, so whether it took effect is not known" if guard.spoke else "nothing was sent"
    return Unreachable(f"{asked}: {reason}; {fate}")


def _distrust(error: ssl.SSLCertVerificationError, guard: Guard) -> str:
    if guard.seen:
        return f"the certificate is {guard.seen}, the bench pins {guard.pin}: find out whether it was renewed before trusting it"
    return f"the certificate does not hold: {getattr(error, 'verify_message', '') or getattr(error, 'reason', '')}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and every one it was raised from, during or about."""
    seen: set[int] = set()
    left: list[object] = [error]
    while left:
        cause = left.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            left += [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]
