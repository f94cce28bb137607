"""A serial console by pyserial's URL: a device, ``socket://HOST:PORT`` or ``rfc2217://HOST:PORT``.

closed ── first read or write ──> open ── the far end is gone ──> gone (read out first, then Unreachable)
                                   └── close() ──> closed for good

pyserial opens and configures; where there is a file descriptor the bytes are moved here. Measured on pyserial 3.5:
``socket://`` loses what it had read when the peer closes within a ``read(n)``, its ``in_waiting`` is 0 or 1, and a full
socket makes its ``write`` spin; ``rfc2217://`` refuses a write timeout.
"""

from __future__ import annotations

import errno
import os
import warnings
from typing import Any

from harness.clock import Clock, Deadline
from harness.errors import OwnershipError, Unreachable
from harness.live.intake import TURN_SECONDS, Intake, fetch_from, paced, write_all
from harness.ports import Chunk


class SerialStream:
    """One console as Streams. ``baud`` is for devices and rfc2217; ``pace`` limits what is written, in bytes a second.

    Opened at the first use. Raises Unreachable where it cannot be opened or the far end is gone, OwnershipError where somebody
    else has the device open, Timeout where it takes nothing.
    """

    def __init__(self, url: str, clock: Clock, *, baud: int = 115200, pace: float = 0.0) -> None:
        self._url = url
        self._clock = clock
        self._baud = baud
        self._pace = pace
        self._port: Any = None
        self._intake: Intake | None = None
        self._is_closed = False

    def read(self, deadline: Deadline) -> Chunk:
        return self._opened().take(deadline)

    def write(self, data: bytes) -> None:
        self._opened().insist()
        paced(data, self._pace, self._write, self._clock)

    def close(self) -> None:
        """End the thread and let go of the port. Closing twice is harmless."""
        self._is_closed = True
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.stop()
        port, self._port = self._port, None
        if port is not None:
            port.close()

    def _opened(self) -> Intake:
        if self._is_closed:
            raise Unreachable(f"console {self._url}: it was closed")
        if self._intake is None:
            self._port = _open(self._url, self._baud)
            self._intake = Intake(f"console {self._url}", self._clock, self._fetch)
            self._intake.start()
        return self._intake

    def _fetch(self) -> bytes:
        port = self._port
        if (handle := _handle(port)) is not None:
            return fetch_from(handle)
        data: bytes = port.read(1)
        if data and (waiting := port.in_waiting):
            data += port.read(waiting)
        return data

    def _write(self, data: bytes) -> None:
        name, last = f"console {self._url}", self._last_seen
        if (handle := _handle(self._port)) is not None:
            write_all(handle, data, self._clock, name, last)
            return
        try:
            self._port.write(data)
        except OSError as error:
            raise Unreachable(f"{name}: cannot be written to ({error}); last seen: {last()!r}") from None

    def _last_seen(self) -> str:
        return "" if self._intake is None else self._intake.last_seen()


def _open(url: str, baud: int) -> Any:
    """The open port, ours alone where it is a device. Raises Unreachable or OwnershipError with one line."""
    import serial

    port: Any = None
    try:
        port = serial.serial_for_url(url, do_not_open=True, baudrate=baud, timeout=TURN_SECONDS, exclusive=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pyserial 3.5 calls Thread.setDaemon for rfc2217
            port.open()
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in (errno.EAGAIN, errno.EBUSY):
            raise OwnershipError(f"console {url}: somebody else has it open; close that first (`fuser -v` names it)") from None
        reason = os.strerror(number) if isinstance(number, int) else str(error)
        raise Unreachable(f"console {url}: cannot be opened: {reason}") from None
    if (handle := _handle(port)) is not None:
        os.set_blocking(handle, False)
    return port


def _handle(port: Any) -> int | None:
    """The port's file descriptor, None where it has none of its own (rfc2217 speaks Telnet in between)."""
    try:
        handle = port.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is an OSError
        return None
    return handle if isinstance(handle, int) else None
