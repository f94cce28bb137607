"""The serial console: one TCP port that stays while virtual machines come and go behind it.

    client ── 127.0.0.1:PORT ──┐
      (one at a time)          relay ── TCP pair ── QEMU's serial port     (a new one at each power-on)
    the iDRAC ◀── a copy ──────┘                                           and console.log

The iDRAC reads a copy, so it never takes a byte from the client. What comes while no client is connected is in the log alone, as
on a real line. A second client is hung up on: a console has one owner.

QEMU writes a byte at a time. A UNIX socket counts each as a buffer and is full after some 280 bytes, and then QEMU's UART drops
characters (seen with QEMU 7.2), so the pair is TCP, which joins them.
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path

from harness.errors import BenchError

_LOOPBACK = "127.0.0.1"
_MOST_WAITING = 4 << 20
"""Bytes kept for a client that does not read; beyond that they are lost, as on a line without flow control."""

_MOST_TYPED = 1 << 16
"""Bytes kept for a machine that does not read; beyond that the client has to wait."""


class ConsoleRelay:
    """The console of one machine. ``log`` is where everything that it says is appended.

    ``is_cut`` breaks the line between relay and client: the iDRAC and the log go on hearing the machine.
    """

    def __init__(self, log: Path, port: int = 0, *, is_cut: bool = False) -> None:
        self._log = log
        self._is_cut = is_cut
        self._wanted_port = port
        self._lock = threading.Lock()
        self._heard: list[tuple[int, bytes]] = []
        self._lines: list[tuple[int, socket.socket]] = []
        self._coming: list[tuple[int, socket.socket]] = []
        self._count = 0
        self._client: socket.socket | None = None
        self._to_client = bytearray()
        self._to_line = bytearray()
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._waker: socket.socket | None = None

    @property
    def url(self) -> str:
        """The pyserial URL of the console. There is one between ``open()`` and ``close()``."""
        if self._listener is None:
            raise BenchError("the console is not open")
        return f"socket://{_LOOPBACK}:{self._listener.getsockname()[1]}"

    def open(self) -> None:
        """Listen. Raises BenchError where the port is taken."""
        try:
            self._listener = socket.create_server((_LOOPBACK, self._wanted_port))
        except OSError as error:
            raise BenchError(f"the console's port {self._wanted_port}: {error.strerror}") from None
        self._listener.setblocking(False)  # noqa: FBT003 - its only argument
        self._waker, wake = socket.socketpair()
        self._thread = threading.Thread(target=self._work, args=(self._listener, wake), name="lab-console", daemon=True)
        self._thread.start()

    def attach(self) -> tuple[int, socket.socket]:
        """A new serial line: its number, and the end that is for QEMU. The line before it goes on until QEMU has ended."""
        ours, theirs = _tcp_pair()
        ours.setblocking(False)  # noqa: FBT003 - its only argument
        with self._lock:
            self._count += 1
            self._coming.append((self._count, ours))
            number = self._count
        self._wake()
        return number, theirs

    def heard(self, number: int) -> bytes:
        """What line ``number`` has said since the last call. What other lines said is dropped."""
        with self._lock:
            heard, self._heard = self._heard, []
        return b"".join(data for line, data in heard if line == number)

    def close(self) -> None:
        """Hang up on everybody. Closing twice is harmless."""
        self._is_closing = True
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._waker is not None:
            self._waker.close()
            self._waker = None

    def _wake(self) -> None:
        if self._waker is not None:
            with suppress(OSError):
                self._waker.send(b"x")

    # in the thread

    def _work(self, listener: socket.socket, wake: socket.socket) -> None:
        with self._log.open("ab", buffering=0) as log, listener, wake:
            while not self._is_closing:
                self._welcome()
                readable, writable, _ = select.select(self._sources(listener, wake), self._sinks(), [])
                if wake in readable:  # first: what is typed after a line came must not be taken for typed before it
                    wake.recv(4096)
                    self._welcome()
                for ready in readable:
                    if ready is listener:
                        self._answer(listener)
                    elif ready is wake:
                        continue
                    elif ready is self._client:
                        self._listen_to_client()
                    elif (data := self._listen_to_line(ready)) and log.write(data):
                        self._pass_on(data)
                for ready in writable:
                    self._send(ready)
            for _, line in self._lines:
                line.close()
            self._drop_client()

    def _pass_on(self, data: bytes) -> None:
        if self._client is not None and not self._is_cut and len(self._to_client) < _MOST_WAITING:
            self._to_client += data

    def _welcome(self) -> None:
        with self._lock:
            coming, self._coming = self._coming, []
        if coming:
            self._lines += coming
            self._to_line.clear()  # typed for a machine that is off

    def _sources(self, *always: socket.socket) -> list[socket.socket]:
        """A client that types faster than the machine reads is made to wait."""
        lines = [line for _, line in self._lines]
        client = [self._client] if self._client is not None and len(self._to_line) < _MOST_TYPED else []
        return [*always, *lines, *client]

    def _sinks(self) -> list[socket.socket]:
        line = [self._lines[-1][1]] if self._lines and self._to_line else []
        client = [self._client] if self._client is not None and self._to_client else []
        return [*line, *client]

    def _answer(self, listener: socket.socket) -> None:
        with suppress(OSError):
            client, _ = listener.accept()
            if self._client is not None:
                client.close()
                return
            client.setblocking(False)  # noqa: FBT003 - its only argument
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client = client

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._to_client.clear()

    def _listen_to_client(self) -> None:
        try:
            typed = b"" if self._client is None else self._client.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            typed = b""
        if not typed:
            self._drop_client()
        elif self._lines and not self._is_cut:  # while the machine is off nobody hears it
            self._to_line += typed

    def _listen_to_line(self, ready: socket.socket) -> bytes:
        """What a line says; one that has ended is taken away."""
        number = next(number for number, line in self._lines if line is ready)
        try:
            data = ready.recv(65536)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            ready.close()
            self._lines.remove((number, ready))
            return b""
        with self._lock:
            self._heard.append((number, data))
        return data

    def _send(self, ready: socket.socket) -> None:
        waiting = self._to_client if ready is self._client else self._to_line
        if ready.fileno() < 0:
            return
        try:
            sent = ready.send(waiting)
        except BlockingIOError:
            return
        except OSError:
            waiting.clear()
            return
        del waiting[:sent]


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one TCP connection on loopback; a stranger that connects in between is hung up on."""
    with socket.create_server((_LOOPBACK, 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        while True:
            theirs, peer = listener.accept()
            if peer == ours.getsockname():
                return ours, theirs
            theirs.close()
