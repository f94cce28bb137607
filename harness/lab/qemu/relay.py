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

import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path

from harness.errors import BenchError

_LOOPBACK = "127.0.0.1"
_MOST_WAITING = 4 << 20
"""Bytes kept for a client that does not read; beyond that they are lost, as on a line without flow control."""


class ConsoleRelay:
    """The console of one machine. ``log`` is where everything that it says is appended."""

    def __init__(self, log: Path, port: int = 0) -> None:
        self._log = log
        self._wanted_port = port
        self._lock = threading.Lock()
        self._heard: list[tuple[int, bytes]] = []
        self._guests: list[tuple[int, socket.socket]] = []
        self._coming: list[tuple[int, socket.socket]] = []
        self._count = 0
        self._client: socket.socket | None = None
        self._outgoing = bytearray()
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
        self._listener.setblocking(False)
        self._waker, wake = socket.socketpair()
        self._thread = threading.Thread(target=self._work, args=(self._listener, wake), name="lab-console", daemon=True)
        self._thread.start()

    def attach(self) -> tuple[int, socket.socket]:
        """A new serial line: its number, and the end that is for QEMU. The line before it goes on until QEMU has ended."""
        ours, theirs = _tcp_pair()
        ours.setblocking(False)
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
        with selectors.DefaultSelector() as selector, self._log.open("ab", buffering=0) as log, listener, wake:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while not self._is_closing:
                self._welcome(selector)
                for key, mask in selector.select():
                    if key.fileobj is listener:
                        self._answer(selector, listener)
                    elif key.fileobj is wake:
                        wake.recv(4096)
                    elif key.fileobj is self._client:
                        self._serve_client(selector, mask)
                    else:
                        self._listen_to(selector, key.fileobj, log.write)
            for _, guest in self._guests:
                guest.close()
            if self._client is not None:
                self._client.close()

    def _welcome(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            coming, self._coming = self._coming, []
        for number, guest in coming:
            self._guests.append((number, guest))
            selector.register(guest, selectors.EVENT_READ)

    def _answer(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        with suppress(OSError):
            client, _ = listener.accept()
            if self._client is not None:
                client.close()
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client = client
            self._outgoing.clear()
            selector.register(client, selectors.EVENT_READ)

    def _serve_client(self, selector: selectors.BaseSelector, mask: int) -> None:
        client = self._client
        if client is None:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self._flush(selector, client)
            if mask & selectors.EVENT_READ:
                typed = client.recv(4096)
                if not typed:
                    raise ConnectionResetError
                self._type(typed)
        except BlockingIOError:
            pass
        except OSError:
            selector.unregister(client)
            client.close()
            self._client = None

    def _type(self, typed: bytes) -> None:
        """Send to the newest line. Without one, or where it does not read, the bytes are lost."""
        if self._guests:
            with suppress(OSError):
                self._guests[-1][1].sendall(typed)

    def _listen_to(self, selector: selectors.BaseSelector, guest: object, log: object) -> None:
        number, line = next((number, line) for number, line in self._guests if line is guest)
        try:
            data = line.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            selector.unregister(line)
            line.close()
            self._guests.remove((number, line))
            return
        with self._lock:
            self._heard.append((number, data))
        assert callable(log)
        log(data)
        if self._client is not None and len(self._outgoing) < _MOST_WAITING:
            self._outgoing += data
            self._flush(selector, self._client)

    def _flush(self, selector: selectors.BaseSelector, client: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionError):
            sent = client.send(self._outgoing) if self._outgoing else 0
            del self._outgoing[:sent]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        selector.modify(client, wanted)


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one TCP connection on loopback; a stranger that connects in between is hung up on."""
    with socket.create_server((_LOOPBACK, 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        while True:
            theirs, peer = listener.accept()
            if peer == ours.getsockname():
                return ours, theirs
            theirs.close()
