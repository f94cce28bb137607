"""What the contract suite is run on: live adapters of each kind, a recorder around each, a player of what was recorded.

A test is a conversation: a function of a lane and a clock that returns what it saw. ``perform`` holds it with the live adapter
(role "live"), with a recorder around it ("recorder"), or with a player of such a recording ("player").
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import shlex
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.clock import Clock, Deadline, VirtualClock, WallClock
from harness.errors import Timeout, Unreachable
from harness.ports import Chunk, CommandQuestion, HttpAnswer, HttpQuestion
from harness.tape.format import TapeInfo
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

INFO = TapeInfo("toy", "toy", "virtual-lab", "2026-01-02T03:04:05+00:00", "0")
TEXT = "plain text: ü, \u2028 and a tab\t"
LARGE = {"Members": [{"n": number} for number in range(500)]}


class ToyService:
    """An HTTP service: a counter, bodies of every kind, an error, a connection that is dropped."""

    def __init__(self) -> None:
        self.count = 0

    def say(self, method: str, path: str, body: Any) -> tuple[int, Any] | None:
        """Status and body; None: drop the connection."""
        if method == "POST" and path == "/redfish/v1/SessionService/Sessions":
            return 201, {}
        if method == "POST" and path == "/redfish/v1/count":
            self.count += body["by"]
            return 204, None
        if method == "POST" and path == "/redfish/v1/echo":
            return 200, body
        if path == "/redfish/v1/lost":
            return None
        bodies = {
            "/redfish/v1/count": {"count": self.count},
            "/redfish/v1/text": TEXT,
            "/redfish/v1/large": LARGE,
            "/redfish/v1/list": [1, None, "x"],
            "/redfish/v1/none": None,
        }
        return (200, bodies[path]) if path in bodies else (404, {"error": {"code": "Base.1.0.GeneralError"}})

    def handle(self, method: str, path: str, headers: dict[str, str], body: bytes, *, client: str = "") -> tuple[int, Any, bytes]:
        """The same over the wire."""
        said = self.say(method, path, json.loads(body) if body else None)
        if said is None:
            raise Unreachable("dropped")
        status, content = said
        kind = "text/plain" if isinstance(content, str) else "application/json"
        extra = {"X-Auth-Token": "toy-token-1", "Location": "/redfish/v1/Sessions/1"} if path.endswith("/Sessions") else {}
        coded = b"" if content is None else content.encode() if isinstance(content, str) else json.dumps(content).encode()
        return status, {"Content-Type": kind, **extra}, coded


class InProcess:
    """The live lane of a service in this process, on a clock that jumps."""

    def __init__(self, service: ToyService, clock: VirtualClock) -> None:
        self.service, self.clock = service, clock

    def ask(self, question: HttpQuestion, on_line: Any = None) -> HttpAnswer:
        began = self.clock.now()
        self.clock.sleep(0.044)
        said = self.service.say(question.method, question.path, question.body)
        if said is None:
            raise Unreachable(f"{question.key}: the connection was dropped")
        return HttpAnswer(said[0], {"content-type": "x"}, said[1], self.clock.now(), self.clock.now() - began)

    def close(self) -> None: ...


class Terminal:
    """The live side of a pseudo-terminal: a reader thread fills a timestamped buffer, as that of a serial console does."""

    def __init__(self, handle: int, clock: Clock) -> None:
        self.handle, self.clock = handle, clock
        self.buffer: list[Chunk] = []
        self.came = threading.Condition()
        self.thread = threading.Thread(target=self._fill, daemon=True)
        self.thread.start()

    def _fill(self) -> None:
        with contextlib.suppress(OSError):  # the other side is gone
            while data := os.read(self.handle, 4096):
                with self.came:
                    self.buffer.append(Chunk(data, self.clock.now()))
                    self.came.notify()

    def read(self, deadline: Deadline) -> Chunk:
        with self.came:
            while not self.buffer and not deadline.passed(self.clock):
                self.came.wait(deadline.left(self.clock))
            return self.buffer.pop(0) if self.buffer else Chunk(b"", self.clock.now())

    def write(self, data: bytes) -> None:
        os.write(self.handle, data)

    def close(self) -> None: ...


def be_a_device(handle: int, stop: threading.Event) -> None:
    """The far end: answers ``ping`` with ``pong``, ``late`` with a pause before, and echoes everything else."""
    while not stop.is_set():
        if not select.select([handle], [], [], 0.02)[0]:
            continue
        heard = os.read(handle, 4096)
        if heard == b"late\r":
            stop.wait(0.08)
        os.write(handle, {b"ping\r": b"pong\r\n", b"late\r": b"here\r\n"}.get(heard, heard))


Opened = tuple[Any, Clock]


@contextmanager
def open_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    clock = VirtualClock()
    yield InProcess(ToyService(), clock), clock


@contextmanager
def open_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    from harness.lab.idrac.serve import serve
    from harness.live.http import RedfishHttp
    from harness.secret import SecretReference

    monkeypatch.setenv("TOY_PASSWORD", "toy-password-1")
    clock = WallClock()
    with serve(ToyService()) as served:  # type: ignore[arg-type]
        lane = RedfishHttp(served.url, "root", SecretReference(env="TOY_PASSWORD"), clock, pin=served.pin)
        yield lane, clock
        lane.close()


@contextmanager
def open_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    from harness.live.local import LocalCommands

    clock = WallClock()
    yield LocalCommands(clock), clock


@contextmanager
def open_ssh(sshd: Any) -> Iterator[Opened]:
    """Over a connection that is there already: what the questions of the contract take is their own time."""
    from harness.live.ssh import SshCommands

    clock = WallClock()
    lane = SshCommands("bench", clock, options=sshd.options)
    try:
        lane.ask(CommandQuestion.observe("true"))
        yield lane, clock
    finally:
        lane.close()


@contextmanager
def open_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    near, far = pty.openpty()
    tty.setraw(far)
    stop, clock = threading.Event(), WallClock()
    device = threading.Thread(target=be_a_device, args=(far, stop), daemon=True)
    device.start()
    terminal = Terminal(near, clock)
    try:
        yield terminal, clock
    finally:
        stop.set()
        device.join()
        os.close(far)
        terminal.thread.join()
        os.close(near)


@contextmanager
def open_serial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    from harness.live.serial import SerialStream

    far, near = pty.openpty()
    tty.setraw(near)
    stop, clock = threading.Event(), WallClock()
    device = threading.Thread(target=be_a_device, args=(far, stop), daemon=True)
    device.start()
    stream = SerialStream(os.ttyname(near), clock)
    try:
        stream.read(Deadline(clock.now()))  # opening throws away what came before
        yield stream, clock
    finally:
        stream.close()
        stop.set()
        device.join()
        os.close(far)
        os.close(near)


DEVICE = """
import os, time
while heard := os.read(0, 4096):
    if heard == b"late\\r":
        time.sleep(0.08)
    os.write(1, {b"ping\\r": b"pong\\r\\n", b"late\\r": b"here\\r\\n"}.get(heard, heard))
"""


@contextmanager
def open_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    from harness.live.terminal import CommandStream

    (tmp_path / "device.py").write_text(DEVICE)
    clock = WallClock()
    stream = CommandStream(f"{sys.executable} {tmp_path / 'device.py'}", clock)
    try:
        stream.write(b"up?")
        assert stream.read(Deadline.after(clock, 10)).data == b"up?"
        yield stream, clock
    finally:
        stream.close()


@contextmanager
def open_console_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    from harness.live.shell import ConsoleShell
    from harness.live.terminal import CommandStream

    monkeypatch.chdir(tmp_path)
    clock = WallClock()
    stream = CommandStream("bash --norc -i", clock)
    shell = ConsoleShell(stream, clock)
    try:
        yield shell, clock
    finally:
        shell.close()
        with contextlib.suppress(Unreachable):
            stream.write(b"exit\n")
            stream.read(Deadline.after(clock, 0.2))
        stream.close()


OPEN = {
    "in process": open_in_process,
    "tls": open_tls,
    "local": open_local,
    "terminal": open_terminal,
    "serial": open_serial,
    "command": open_command,
    "console shell": open_console_shell,
}
STREAMS = ("terminal", "serial", "command")
COMMANDS = ("local", "console shell")


class Seam:
    """How one kind of lane is asked what the contract speaks of."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.counter = shlex.quote(str(folder / "count"))
        self.is_http = kind in ("in process", "tls")

    def count(self) -> Any:
        """Read the counter."""
        if self.is_http:
            return self._get("/redfish/v1/count")
        return CommandQuestion.observe("sh", "-c", f"cat {self.counter} 2>/dev/null || :")

    def add(self, by: int) -> Any:
        """Change the counter."""
        if self.is_http:
            return HttpQuestion.act("POST", "/redfish/v1/count", {"by": by})
        return CommandQuestion.act("sh", "-c", f"printf {by} >> {self.counter}")

    def wrong(self) -> Any:
        """A question that is answered with an error status."""
        return self._get("/redfish/v1/missing") if self.is_http else CommandQuestion.observe("sh", "-c", "echo no >&2; exit 3")

    def lost(self) -> Any:
        """A question that is never answered."""
        return self._get("/redfish/v1/lost") if self.is_http else CommandQuestion.observe("sleep", "9", timeout=0.15)

    def talk(self) -> Any:
        """A question whose answer has three lines, where the seam has lines."""
        return self._get("/redfish/v1/text") if self.is_http else CommandQuestion.observe("printf", "one\\n\\nthree")

    def large(self) -> Any:
        """A question with an answer of more than 2 kB."""
        return self._get("/redfish/v1/large") if self.is_http else CommandQuestion.observe("seq", "2000")

    @staticmethod
    def _get(path: str) -> HttpQuestion:
        return HttpQuestion.observe("GET", path)

    @property
    def lost_as(self) -> type[Exception]:
        return Unreachable if self.is_http else Timeout


@pytest.fixture(params=["live", "recorder", "player"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def perform(
    role: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[Callable[[Any, Clock], Any]], Any]:
    """Hold a conversation in the role of the test and return what it returned."""
    name = "console" if kind in STREAMS else "lane"
    server = request.getfixturevalue("sshd") if kind == "ssh" else None

    def hold(conversation: Callable[[Any, Clock], Any]) -> Any:
        with open_ssh(server) if kind == "ssh" else OPEN[kind](tmp_path, monkeypatch) as (port, clock):
            if role == "live":
                return conversation(port, clock)
            recorder = Recorder(Tracks(clock), clock, Redactor())
            around = recorder.stream(name, port) if kind in STREAMS else recorder.asks(name, port)
            seen = conversation(around, clock)
            if role == "recorder":
                return seen
            recorder.write(tmp_path / "tape", INFO)
        clock = VirtualClock()
        player = Player(tmp_path / "tape", Tracks(clock), clock)
        played = player.stream if kind in STREAMS else player.commands if kind in (*COMMANDS, "ssh") else player.http
        seen = conversation(played(name), clock)
        assert player.unplayed("session/loose") == []
        return seen

    return hold


@pytest.fixture
def seam(kind: str, tmp_path: Path) -> Seam:
    return Seam(kind, tmp_path)


@pytest.fixture
def bodies() -> dict[str, Any]:
    return {"text": TEXT, "large": LARGE, "list": [1, None, "x"], "none": None}
