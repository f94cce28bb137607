"""One run of QEMU, from power-on to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import BenchError, Unreachable
from harness.lab.qemu.monitor import Event, Monitor

_ROOT_PORT = "root"


class Guest:
    """A QEMU process. Its group is its own, so that Ctrl-C in a terminal reaches the owner, who ends it."""

    def __init__(self, process: subprocess.Popen[bytes], monitor: Monitor, errors: Path) -> None:
        self._process = process
        self._monitor = monitor
        self._errors = errors

    @property
    def pid(self) -> int:
        """The process' number."""
        return self._process.pid

    def ask(self, name: str, **arguments: object) -> Any:
        """A command to QEMU's monitor."""
        return self._monitor.ask(name, **arguments)

    def do(self, name: str, arguments: Mapping[str, object]) -> None:
        """A command to QEMU's monitor whose answer nobody needs. Raises BenchError where it is refused."""
        self._monitor.do(name, arguments)

    def events(self) -> tuple[Event, ...]:
        """What has happened since the last call."""
        return self._monitor.events()

    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def has_numbered_buses(self) -> bool:
        """Whether firmware has given the root port a bus number of its own behind it."""
        for bus in self._monitor.ask("query-pci"):
            for device in bus["devices"]:
                if device.get("qdev_id") == _ROOT_PORT:
                    return bool(device["pci_bridge"]["bus"]["secondary"])
        return False

    def complaint(self) -> str:
        """The last line that QEMU wrote on its standard error, without the files of this lab."""
        lines = [line for line in self._errors.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self._process.returncode}"

    def end(self) -> None:
        """Kill and wait. Ending twice is harmless."""
        with suppress(ProcessLookupError, PermissionError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._monitor.close()


def start_guest(line: Sequence[str], ends: Sequence[socket.socket], ours: socket.socket, folder: Path) -> Guest:
    """Start QEMU. ``ends`` are the sockets handed to it, closed here; ``ours`` is our end of its monitor.

    Raises BenchError, quoting QEMU, where it does not come up.
    """
    errors = folder / "qemu.err"
    try:
        with errors.open("wb") as complaints:
            process = subprocess.Popen(  # noqa: S603 - a fixed program with arguments made here
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=[end.fileno() for end in ends],
                start_new_session=True,
                cwd=folder,
            )
    finally:
        for end in ends:
            end.close()
    guest = Guest(process, Monitor(ours), errors)
    try:
        guest._monitor.greet()
    except (Unreachable, BenchError):
        guest.end()
        raise BenchError(f"QEMU does not start: {guest.complaint()}") from None
    return guest
