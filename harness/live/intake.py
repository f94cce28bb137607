"""What a far end says, taken in by a thread that does nothing else.

    fetch() ─> thread ─> pieces with times ─> take(deadline)
                  │
                  └─ the far end is gone ─> Unreachable, after what had come was taken

Bytes within a twentieth of a second are one piece: its time is that of its first byte.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

from harness.clock import Clock, Deadline
from harness.errors import Timeout, Unreachable
from harness.ports import Chunk

PIECE = 4096
"""Bytes that are read at once."""

TURN_SECONDS = 0.05
"""How long ``fetch`` waits at most, so how long a close takes; bytes of one such time are one piece."""

WRITE_SECONDS = 30.0
"""A far end that takes nothing for this long is stuck (flow control, a dead line)."""

_LARGEST = 1 << 16
_SHOWN = 200


class Intake:
    """The buffer of one stream. ``fetch`` waits ``TURN_SECONDS`` at most and gives b"" where nothing came; it raises
    Unreachable or OSError where the far end is gone.
    """

    def __init__(self, name: str, clock: Clock, fetch: Callable[[], bytes]) -> None:
        self._name = name
        self._clock = clock
        self._fetch = fetch
        self._pieces: deque[tuple[float, bytearray]] = deque()
        self._last = b""
        self._end = ""
        self._changed = threading.Condition()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, name=f"intake of {name}", daemon=True)

    def start(self) -> None:
        """Begin to take in."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._is_stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def take(self, deadline: Deadline) -> Chunk:
        """What has come, waiting for the first byte until ``deadline``; empty where nothing came.

        Raises Unreachable with the last thing seen once the far end is gone and everything was taken.
        """
        with self._changed:
            while not self._pieces and not self._end and not deadline.passed(self._clock):
                self._changed.wait(deadline.left(self._clock))
            if self._pieces:
                at, data = self._pieces.popleft()
                return Chunk(bytes(data), at)
            if self._end:
                raise self._gone()
            return Chunk(b"", self._clock.now())

    def insist(self) -> None:
        """Raise Unreachable where the far end is gone: before something is written, say."""
        with self._changed:
            if self._end:
                raise self._gone()

    def last_seen(self) -> str:
        """The last line that came, as text."""
        lines = [line for line in self._last.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
        return lines[-1].strip()[-_SHOWN:] if lines else ""

    def _gone(self) -> Unreachable:
        return Unreachable(f"{self._name}: {self._end}; last seen: {self.last_seen()!r}")

    def _fill(self) -> None:
        while not self._is_stopped.is_set():
            try:
                data, end = self._fetch(), ""
            except Unreachable as error:
                data, end = b"", str(error)
            except Exception as error:  # the thread must end with a reason that read() can tell, whatever a library raises
                data, end = b"", f"the connection was lost ({getattr(error, 'strerror', None) or error or type(error).__name__})"
            if data or end:
                with self._changed:
                    self._put(data)
                    self._end = end
                    self._changed.notify_all()
            if end:
                return

    def _put(self, data: bytes) -> None:
        if not data:
            return
        now = self._clock.now()
        if self._pieces and now - self._pieces[-1][0] < TURN_SECONDS and len(self._pieces[-1][1]) < _LARGEST:
            self._pieces[-1][1].extend(data)
        else:
            self._pieces.append((now, bytearray(data)))
        self._last = (self._last + data)[-4 * _SHOWN :]


def fetch_from(handle: int) -> bytes:
    """One turn of reading a file descriptor. Raises Unreachable at its end, OSError where it broke."""
    if not select.select([handle], [], [], TURN_SECONDS)[0]:
        return b""
    data = os.read(handle, PIECE)
    if not data:
        raise Unreachable("the far end closed the connection")
    return data


def write_all(handle: int, data: bytes, clock: Clock, name: str, last: Callable[[], str]) -> None:
    """Write everything to a file descriptor. Raises Timeout where it takes nothing for long, Unreachable where it broke."""
    left = memoryview(data)
    deadline = Deadline.after(clock, WRITE_SECONDS)
    while left:
        if not select.select([], [handle], [], deadline.left(clock))[1]:
            raise Timeout(f"{name}: {len(left)} bytes to be taken", WRITE_SECONDS, last())
        try:
            written = os.write(handle, left[:PIECE])
        except BlockingIOError:
            continue
        except OSError as error:
            raise Unreachable(f"{name}: cannot be written to ({error.strerror}); last seen: {last()!r}") from None
        left = left[written:]
        if written:
            deadline = Deadline.after(clock, WRITE_SECONDS)


def paced(data: bytes, pace: float, write: Callable[[bytes], None], clock: Clock) -> None:
    """Write in small pieces, ``pace`` bytes a second at most; 0 writes as fast as the far end takes it."""
    if pace <= 0:
        write(data)
        return
    piece = max(1, min(64, int(pace / 20)))
    for start in range(0, len(data), piece):
        write(data[start : start + piece])
        clock.sleep(len(data[start : start + piece]) / pace)
