"""A virtual machine for the tests, and the two smallest clients that can use one: of its Redfish service and of its console."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import serial

from harness.clock import WallClock
from harness.devices.payload import bootstrap, build_payload
from harness.errors import BenchError
from harness.lab.idrac import names
from harness.lab.qemu.endpoints import Endpoints, open_qemu
from harness.lab.qemu.image import find_image
from harness.lab.qemu.tools import find_tools
from harness.live.http import RedfishHttp
from harness.ports import HttpQuestion
from harness.secret import SecretReference

_MARK = "LAB-DONE"

_MACHINE_EACH = ("test_run.py", "test_pcie_faults.py", "test_killed_apply.py", "test_first_live_run.py", "test_resumed_run.py")
"""Files whose tests each have a machine of their own, so that any worker may take them; those of another file share one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one machine with one worker (``--dist loadgroup``)."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in _MACHINE_EACH:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


class Terminal:
    """The console as a person uses it. ``heard`` is everything since the start."""

    def __init__(self, url: str, clock: WallClock) -> None:
        self.heard = b""
        self.port = serial.serial_for_url(url, timeout=0.1)
        self._clock = clock
        self._seen = 0

    def expect(self, pattern: bytes, within: float = 60.0) -> bytes:
        """What came up to the end of ``pattern``, after what was expected before."""

        def look() -> re.Match[bytes] | None:
            self.heard += self.port.read(65536)
            return re.compile(pattern, re.MULTILINE).search(self.heard, self._seen)

        found = self._clock.until(look, bool, what=f"{pattern!r} on the console", every=0.0, within=within)
        assert found is not None
        text, self._seen = self.heard[self._seen : found.end()], found.end()
        return text

    def type(self, text: str) -> None:
        self.port.write(text.encode())

    def log_in(self) -> None:
        self.expect(rb"login: $")
        self.type("root\n")
        self.expect(rb"# .*$")
        self.run("stty -echo; export PS1=; dmesg -n 1")

    def run(self, line: str, within: float = 60.0) -> str:
        """The output of a command, which must succeed."""
        self.type(f"{line}; echo {_MARK[:3]}''{_MARK[3:]}=$?\n")
        text = self.expect(rb"%s=\d+\r\n" % _MARK.encode(), within).decode()
        output, _, status = text.rpartition(f"{_MARK}=")
        assert status.strip() == "0", f"{line}: {text}"
        return output.replace("\r\n", "\n")

    def upload(self, data: bytes, path: str) -> None:
        self.type(f"echo SE''ND; base64 -d >{path}; echo STO''RED\n")
        self.expect(rb"SEND\r\n")
        self.type(base64.encodebytes(data).decode() + "\x04")
        self.expect(rb"STORED\r\n")
        assert self.run(f"sha256sum {path}").split()[0] == hashlib.sha256(data).hexdigest()

    def agent(self, worker: str) -> tuple[dict[str, Any], ...]:
        """The objects of one of the agent's workers, sent over this console."""
        payload = build_payload()
        self.upload(payload, "/tmp/agent.zip")
        self.upload(bootstrap(payload).encode(), "/tmp/start.py")
        output = self.run(f'python3 -c "$(cat /tmp/start.py)" {worker} </tmp/agent.zip')
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert lines[-1] == {"kind": "end", "lines": len(lines) - 1}
        return tuple(lines[:-1])

    def close(self) -> None:
        self.port.close()


class Bench:
    """A virtual machine and its clients."""

    def __init__(self, reached: Endpoints, clock: WallClock, password: SecretReference) -> None:
        self.reached = reached
        self.machine = reached.machine
        self.clock = clock
        self.bmc = RedfishHttp(reached.bmc_url, reached.user, password, clock, pin=reached.pin)
        self.terminal = Terminal(reached.console_url, clock)

    def get(self, path: str) -> Any:
        answer = self.bmc.ask(HttpQuestion.observe("GET", path))
        assert answer.status == 200
        return answer.body

    def act(self, method: str, path: str, body: object) -> Any:
        answer = self.bmc.ask(HttpQuestion.act(method, path, body))
        assert answer.status < 300, answer.body
        return answer

    def reset(self, kind: str) -> None:
        self.act("POST", f"{names.SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def stage(self, **attributes: str) -> str:
        """Stage BIOS settings and return the path of the job."""
        body = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": attributes}
        job = self.act("PATCH", names.SETTINGS, body).headers["location"].rpartition("/")[2]
        return f"{names.DMTF_JOBS}/{job}"

    def state(self) -> tuple[str, str]:
        """Power and boot progress."""
        system = self.get(names.SYSTEM)
        return system["PowerState"], system["BootProgress"]["LastState"]

    def follow(self, *wanted: str, within: float = 60.0) -> list[str]:
        """The stages of a start, as the BMC shows them, until one is ``wanted`` (or the machine is Off)."""
        seen: list[str] = []

        def look() -> str:
            power, progress = self.state()
            if not seen or seen[-1] != (progress if power == "On" else power):
                seen.append(progress if power == "On" else power)
            return seen[-1]

        self.clock.until(look, lambda now: now in wanted, what=f"the machine to be {wanted}", every=0.1, within=within)
        return seen

    def close(self) -> None:
        self.terminal.close()
        self.bmc.close()


OpenBench = Callable[..., AbstractContextManager[Bench]]


@pytest.fixture(scope="session")
def needs_the_lab() -> None:
    """Skip, saying what to install, where a virtual machine cannot be booted."""
    pytest.importorskip("cheroot")
    pytest.importorskip("cryptography")
    try:
        find_tools()
        find_image()
    except BenchError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def open_bench(needs_the_lab: None, tmp_path_factory: pytest.TempPathFactory) -> OpenBench:
    secret = tmp_path_factory.mktemp("secret") / "password"

    @contextmanager
    def opened(*faults: str, root: Path | None = None) -> Iterator[Bench]:
        clock = WallClock()
        with open_qemu(clock, frozenset(faults), root=root or tmp_path_factory.mktemp("lab")) as reached:
            secret.write_text(reached.password)
            secret.chmod(0o600)
            bench = Bench(reached, clock, SecretReference(file=str(secret)))
            try:
                yield bench
            finally:
                bench.close()

    return opened
