"""The operating system of the machine under test: commands, and the agent that runs there."""

from __future__ import annotations

import json
import shlex
from typing import Any

from harness.clock import Clock
from harness.devices.payload import NOT_STARTED, bootstrap, build_payload
from harness.errors import BenchError, CommandFailed, DeviceError
from harness.ports import CommandAnswer, CommandAsks, CommandQuestion, OnLine

BARE_WORKERS = frozenset({"pci"})
"""Workers that run on the host itself, never in the wrapper: a container shows 64 bytes of configuration space."""

_NOT_LOADED = 3
"""Exit status of the agent where a worker cannot be loaded (harness.agent.__main__)."""

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_TAIL = 300


class Host:
    """Asks one host. ``python`` and ``wrapper`` (such as ``docker exec -i torch``) are for the GPU workers.

    ``is_on_console`` is True where the serial console is the way to it: a console that is dead says nothing about the host then.
    Every call asks anew: nothing is remembered.
    """

    def __init__(
        self, asks: CommandAsks, clock: Clock, *, python: str = "python3", wrapper: str = "", is_on_console: bool = False
    ) -> None:
        self.clock = clock
        self.is_on_console = is_on_console
        self._asks = asks
        self._python = python
        self._wrapper = wrapper

    def observe(self, *argv: str, name: str = "", timeout: float = 60.0) -> str:
        """What a command that only reads prints; a tape calls it ``name``. Raises CommandFailed where its exit status is not 0."""
        question = CommandQuestion.observe(*argv, name=name, timeout=timeout)
        answer = self._asks.ask(question)
        if answer.status != 0:
            raise CommandFailed(question.key, answer.status, _tail(answer))
        return answer.stdout

    def agent(
        self, worker: str, *arguments: str, timeout: float = 60.0, on_line: OnLine | None = None
    ) -> tuple[dict[str, Any], ...]:
        """The objects that one of the agent's workers prints, error objects included, without the end line.

        Raises BenchError where Python or the worker is missing or the agent did not arrive, CommandFailed where the worker broke,
        DeviceError where its output ends early.
        """
        name = shlex.join(("agent", worker, *arguments))
        payload = build_payload()
        start = self._interpreter(worker)
        question = CommandQuestion.observe(
            *start, "-c", bootstrap(payload), worker, *arguments, stdin=payload, name=name, timeout=timeout
        )
        answer = self._asks.ask(question, on_line)
        if answer.status in (_NOT_EXECUTABLE, _NOT_FOUND):
            raise BenchError(_missing_python(name, start, answer))
        if answer.status in (NOT_STARTED, _NOT_LOADED):
            raise BenchError(f"{name}: {_tail(answer)}")
        if answer.status != 0:
            raise CommandFailed(name, answer.status, _tail(answer))
        return _objects(name, answer.stdout)

    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return self.observe("cat", "/proc/sys/kernel/random/boot_id").strip()

    def command_line(self) -> str:
        """The kernel's command line."""
        return self.observe("cat", "/proc/cmdline").strip()

    def kernel(self) -> str:
        """The kernel's release, as in ``6.1.0-28-amd64``."""
        return self.observe("uname", "-r").strip()

    def kernel_log(self) -> tuple[str, ...]:
        """The lines of the kernel's ring buffer. Raises CommandFailed where only root may read it."""
        return tuple(self.observe("dmesg").splitlines())

    def _interpreter(self, worker: str) -> tuple[str, ...]:
        """A wrapper brings its own Python along, so ``python`` names one on the host only without it."""
        if not self._wrapper:
            return (self._python,)
        if worker in BARE_WORKERS:
            return ("python3",)
        return (*shlex.split(self._wrapper), self._python)


def _objects(name: str, output: str) -> tuple[dict[str, Any], ...]:
    """The JSON objects among the lines; libraries may print other lines between them."""
    objects: list[dict[str, Any]] = []
    for line in output.splitlines():
        if not line.startswith("{") or '"kind"' not in line:
            continue
        try:
            objects.append(json.loads(line))
        except ValueError:
            raise DeviceError(f"{name}: its output has a broken line after {len(objects)} objects: {line[:80]!r}") from None
    if not objects or objects[-1].get("kind") != "end":
        raise DeviceError(f"{name}: its output breaks off after {len(objects)} objects, the end line is missing")
    end = objects.pop()
    if end.get("lines") != len(objects):
        raise DeviceError(f"{name}: {len(objects)} objects arrived of the {end.get('lines')} that its end line counts")
    return tuple(objects)


def _missing_python(name: str, start: tuple[str, ...], answer: CommandAnswer) -> str:
    shown = shlex.join(start)
    tail = _tail(answer)
    return (
        f"{name}: {shown!r} cannot be started on the host (exit status {answer.status}{f': {tail}' if tail else ''}); "
        "install Python 3.6 or later there (package python3), or name it with host.python in the bench file"
    )


def _tail(answer: CommandAnswer) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in (answer.stderr or answer.stdout).splitlines() if line.strip()]
    return lines[-1][:_TAIL] if lines else ""
