"""QEMU's machine protocol (QMP): one JSON object a line, answers and events mixed."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import BenchError, Unreachable

_SECONDS = 20.0


@dataclass(frozen=True)
class Event:
    """Something that happened to the virtual machine, such as SHUTDOWN with ``reason`` guest-reset."""

    name: str
    data: dict[str, Any]


class Monitor:
    """Our end of a QMP connection."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._rest = b""
        self._events: list[Event] = []

    def greet(self) -> None:
        """Wait for QEMU and begin. Raises Unreachable where it ended or says nothing."""
        self._line.settimeout(_SECONDS)
        self._next()
        self.ask("qmp_capabilities")

    def ask(self, name: str, **arguments: object) -> Any:
        """The answer to one command. Raises BenchError where QEMU refuses it, Unreachable where it is gone."""
        question = {"execute": name, "arguments": arguments}
        try:
            self._line.sendall(json.dumps(question).encode() + b"\n")
        except OSError:
            raise Unreachable("QEMU has ended") from None
        while True:
            answer = self._next()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise BenchError(f"QEMU refuses {name}: {answer['error'].get('desc', answer['error'])}")
            self._keep(answer)

    def do(self, name: str, arguments: Mapping[str, object]) -> None:
        """One command whose answer nobody needs. The older monitor refuses in words: what it answers must begin with OK.

        Raises BenchError where QEMU refuses it, Unreachable where it is gone.
        """
        answer = self.ask(name, **arguments)
        if isinstance(answer, str) and not answer.startswith("OK"):
            raise BenchError(f"QEMU refuses {arguments.get('command-line', name)}: {answer.strip()}")

    def events(self) -> tuple[Event, ...]:
        """What has happened since the last call, without waiting; the last words of a QEMU that ended are read too."""
        self._line.settimeout(0.0)
        try:
            while data := self._line.recv(65536):
                self._rest += data
        except OSError:
            pass
        finally:
            self._line.settimeout(_SECONDS)
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._keep(json.loads(line))
        happened, self._events = tuple(self._events), []
        return happened

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            try:
                data = self._line.recv(65536)
            except OSError:
                raise Unreachable(f"QEMU's monitor says nothing for {_SECONDS:g} s") from None
            if not data:
                raise Unreachable("QEMU has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _keep(self, answer: dict[str, Any]) -> None:
        if "event" in answer:
            self._events.append(Event(answer["event"], answer.get("data", {})))
