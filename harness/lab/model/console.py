"""The serial console of the model: what the machine printed since somebody listened, at the times it printed it."""

from __future__ import annotations

from harness.clock import Clock, Deadline
from harness.lab.model.machine import Machine
from harness.lab.model.post import LOGIN_TEXT
from harness.ports import Chunk


class ModelConsole:
    """A stream that moves the clock: reading waits until the next byte comes or the deadline passes."""

    def __init__(self, clock: Clock, machine: Machine) -> None:
        self._clock = clock
        self._machine = machine
        self._read = 0

    def read(self, deadline: Deadline) -> Chunk:
        """Everything that has come and was not read, waiting for the first byte until ``deadline``."""
        while True:
            self._machine.settle()
            waiting = self._machine.console[self._read :]
            if waiting:
                self._read += len(waiting)
                return Chunk(b"".join(emission.data for emission in waiting), waiting[0].at)
            coming = self._machine.controller.timeline.next()
            if coming is None or coming > deadline.at:
                self._clock.sleep(deadline.left(self._clock))
                return Chunk(b"", self._clock.now())
            self._clock.sleep(coming - self._clock.now())

    def write(self, data: bytes) -> None:
        """Type. A running system answers Enter with its login prompt; POST and a halted machine do not answer."""
        if data.strip(b"\r\n") == b"" and data and self._machine.os_is_up:
            self._machine.emit(LOGIN_TEXT)

    def close(self) -> None:
        """Nothing is held open."""
