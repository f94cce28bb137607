"""Each rule that keeps a lab safe is attacked here, end to end: the ``bringup`` command on the modelled machine, in this process,
and against its iDRAC served over TLS, from another one. Whatever is tried, every request is looked at.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.clock import Clock, VirtualClock, WallClock
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.host import ModelHost
from harness.lab.model.machine import Machine
from harness.ports import CommandAnswer

MODEL = "model-lqd8360"
READING = ("GetRemoteServicesAPIStatus", "ExportServerScreenShot", "ExportVideoLog")
BENCH = """
schema = 1
name = "served"
platform = "lqd8360"
service_tag = "{tag}"
[bmc]
url = "{url}"
user = "{user}"
password = {{ env = "SERVED_PASSWORD" }}
pin = "{pin}"
"""


@dataclass(frozen=True)
class Sent:
    """One request as the iDRAC got it."""

    method: str
    path: str
    body: str

    @property
    def writes(self) -> bool:
        """True where it may change the machine: session traffic and reads that are POSTs do not."""
        return self.method not in ("GET", "HEAD") and "/Sessions" not in self.path and not self.path.endswith(READING)

    @property
    def is_reset(self) -> bool:
        return "ComputerSystem.Reset" in self.path

    @property
    def is_login(self) -> bool:
        return self.method == "POST" and self.path.endswith("/Sessions")

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.body}".rstrip()


@dataclass
class Wire:
    """All requests to every simulated iDRAC of a test, and a hand that reaches into its machine before or after one."""

    sent: list[Sent] = field(default_factory=list)
    before: Callable[[Sent, Machine], None] = lambda *_: None
    after: Callable[[Sent, Machine], None] = lambda *_: None
    machines: list[Machine] = field(default_factory=list)

    @property
    def writes(self) -> list[Sent]:
        return [each for each in self.sent if each.writes]

    @property
    def logins(self) -> list[Sent]:
        return [each for each in self.sent if each.is_login]

    @property
    def clearings(self) -> list[Sent]:
        """The requests that would take away the jobs of everybody."""
        return [each for each in self.sent if "CLEARALL" in str(each) or "DeleteJobQueue" in each.path]

    @property
    def machine(self) -> Machine:
        """The only one there was."""
        (machine,) = self.machines
        return machine

    def once(self, matches: Callable[[Sent, Machine], bool], act: Callable[[Machine], Any]) -> list[Any]:
        """Act right after the first request that matches; the list holds what it gave."""
        done: list[Any] = []

        def after(sent: Sent, machine: Machine) -> None:
            if not done and matches(sent, machine):
                done.append(act(machine))

        self.after = after
        return done


@pytest.fixture(autouse=True)
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Every request to a simulated iDRAC in this process. None of them may clear a whole queue, whatever the test is about."""
    noted = Wire()
    handle = IdracApplication.handle

    def noting(app: IdracApplication, method: str, path: str, headers: Any, body: bytes, **more: Any) -> Any:
        machine = app.server
        if machine not in noted.machines:
            noted.machines.append(machine)  # type: ignore[arg-type]
        sent = Sent(method, path.partition("?")[0], body.decode())
        noted.sent.append(sent)
        noted.before(sent, machine)  # type: ignore[arg-type]
        answer = handle(app, method, path, headers, body, **more)
        noted.after(sent, machine)  # type: ignore[arg-type]
        return answer

    monkeypatch.setattr(IdracApplication, "handle", noting)
    yield noted
    assert noted.clearings == []


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams, every run of blanks as one."""
        return " ".join(f"{self.out} {self.err}".split())

    @property
    def handovers(self) -> list[str]:
        return [line.partition("hand-over: ")[2] for line in f"{self.out}\n{self.err}".splitlines() if "hand-over: " in line]


@pytest.fixture
def bringup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """``bringup`` in this process, in an empty folder; it ends as a program would."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["bringup", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err, said.err
        return Done(int(ended.value.code or 0), said.out, said.err)

    return run


NOTING = """
import json, sys
from harness.cli import main
from harness.lab.idrac.application import IdracApplication

handle = IdracApplication.handle

def noting(app, method, path, headers, body, **more):
    with open("requests.jsonl", "a") as file:
        file.write(json.dumps([method, path.partition("?")[0], body.decode()]) + "\\n")
    return handle(app, method, path, headers, body, **more)

IdracApplication.handle = noting
sys.argv[0] = "bringup"
main()
"""


@pytest.fixture
def run_on_the_model(tmp_path: Path, wire: Wire) -> Callable[..., Done]:
    """``bringup run`` on the modelled machine, as a process of its own, for it is a test run itself. The wire gets its requests."""

    def run(*words: str, bench: str = MODEL) -> Done:
        ended = subprocess.run(
            [sys.executable, "-c", NOTING, "run", "--bench", bench, "--live", *words],
            cwd=tmp_path,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        noted = tmp_path / "requests.jsonl"  # not there where no stage asks the iDRAC
        wire.sent += [Sent(*json.loads(line)) for line in noted.read_text().splitlines()] if noted.exists() else []
        assert "Traceback" not in ended.stdout + ended.stderr, ended.stderr
        return Done(ended.returncode, ended.stdout, ended.stderr)

    return run


def plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BRINGUP"))}


@pytest.fixture
def cases(tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """The cases of the only run there was, by id."""

    def read() -> dict[str, Any]:
        (record,) = [file for file in (tmp_path / "reports").glob("*/results.jsonl") if not file.parent.is_symlink()]
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return {line["case"]: line for line in lines if line["kind"] == "case"}

    return read


@pytest.fixture
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the modelled host print something for a command, named by its first word."""

    def prints(**printed: str) -> None:
        ask = ModelHost.ask

        def answer(host: ModelHost, question: Any, on_line: Any = None) -> CommandAnswer:
            known = printed.get(question.argv[0].replace("-", "_")) if host._machine.os_is_up else None
            return ask(host, question, on_line) if known is None else CommandAnswer(0, known, "", host._clock.now(), 0.1)

        monkeypatch.setattr(ModelHost, "ask", answer)

    return prints


class FastClock(WallClock):
    """Wall time, two hundred times as fast: a restart of ten minutes takes three seconds."""

    def now(self) -> float:
        return super().now() * 200


@dataclass
class Service:
    """A machine whose iDRAC is served over TLS, and the command as a process of its own."""

    folder: Path
    url: str
    pin: str
    machine: Machine
    clock: Clock

    def start(self, *words: str, tag: str = parts.SERVICE_TAG, password: str = parts.BMC_PASSWORD) -> subprocess.Popen[str]:
        """Start ``bringup`` with the words; ``BENCH`` among them is the bench file."""
        file = self.folder / "served.toml"
        file.write_text(BENCH.format(tag=tag, url=self.url, user=parts.BMC_USER, pin=self.pin))
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *(str(file) if word == "BENCH" else word for word in words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=plain_environment() | {"SERVED_PASSWORD": password, "TMPDIR": str(self.folder)},
            preexec_fn=_heed_signals,
        )

    def bringup(self, *words: str, **more: str) -> Done:
        with self.start(*words, **more) as process:
            try:
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        assert "Traceback" not in out + err, err
        return Done(process.returncode, out, err)

    @property
    def sessions(self) -> int:
        return len(self.machine.controller.sessions.open)


def _heed_signals() -> None:
    """A shell starts background jobs with SIGINT ignored, and the tests may be such a job."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def served(tmp_path: Path, wire: Wire) -> Iterator[Callable[..., Service]]:
    """Serve a modelled machine until the test ends."""
    from contextlib import ExitStack

    pytest.importorskip("cheroot", reason="pip install 'bringup-harness[test]'")
    pytest.importorskip("cryptography", reason="pip install 'bringup-harness[test]'")
    from harness.lab.idrac.serve import serve

    with ExitStack() as held:

        def start(*faults: str, fast: bool = False) -> Service:
            clock = FastClock() if fast else VirtualClock()
            machine = Machine(clock, frozenset(faults))
            reached = held.enter_context(serve(IdracApplication(machine)))
            return Service(tmp_path, reached.url, reached.pin, machine, clock)

        yield start
