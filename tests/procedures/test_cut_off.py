"""An apply that is killed, or whose answers are cut, around every one of its writes, and then runs again: it converges, and no
write is sent whose effect a read shows already.

    apply (a process) ──TLS──▶ served model (this process: it survives the kill and counts)
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Unreachable
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.procedures.handover import NOTHING

pytest.importorskip("cheroot", reason="pip install 'bringup-harness[test]'")
pytest.importorskip("cryptography", reason="pip install 'bringup-harness[test]'")
pytestmark = pytest.mark.socket

CLIENT = Path(__file__).with_name("_applying.py")
DIFFERING = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
READS = ("/Sessions", "GetRemoteServicesAPIStatus", "ExportServerScreenShot")
WAYS = ("killed before", "killed after", "answer cut", "request cut")
ONE_STEP, TWO_STEPS = ("PATCH", "Reset"), ("PATCH", "Jobs", "Reset")


@dataclass
class Bench:
    """The served machine, what was written to it, and the point at which the next process is cut off."""

    machine: Machine
    folder: Path
    steps: tuple[str, ...]
    url: str = ""
    pin: str = ""
    point: int = 0
    way: str = ""
    taken: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    count: int = 0
    process: subprocess.Popen[str] | None = None

    def handle(self, real: Any, method: str, path: str, *rest: Any, **more: Any) -> Any:
        if not is_write(method, path):
            return self._show(path, real(method, path, *rest, **more))
        self.count += 1
        name = "PATCH" if method == "PATCH" else method if method == "DELETE" else path.rpartition("/")[2].rpartition(".")[2]
        if self._already_shows(name, path):
            self.repeated.append(name)
        if self.count != self.point:
            self.taken.append(name)
            return real(method, path, *rest, **more)
        if self.way in ("killed after", "answer cut"):
            self.taken.append(name)
            real(method, path, *rest, **more)
        if self.way.startswith("killed"):
            os.kill(self.process.pid, signal.SIGKILL)
        raise Unreachable("cut")

    def run(self, point: int = 0, way: str = "") -> dict[str, Any] | None:
        """One apply; None where it was killed."""
        self.count, self.point, self.way = 0, point, way
        self.process = subprocess.Popen(
            [sys.executable, str(CLIENT), self.url, self.pin, str(self.folder / "clock")],
            env=os.environ | {"MODEL_PASSWORD": parts.BMC_PASSWORD},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = self.process.communicate(timeout=300)
        if self.process.returncode == -signal.SIGKILL:
            return None
        assert self.process.returncode == 0, err
        return json.loads(out)

    @property
    def open_jobs(self) -> list[str]:
        self.machine.settle()
        return [job.id for job in self.machine.controller.jobs.jobs if not job.is_finished]

    def _show(self, path: str, answer: Any) -> Any:
        """Firmware that knows no apply times, where the job is a step of its own."""
        if self.steps is ONE_STEP or not path.endswith("/Bios"):
            return answer
        status, headers, payload = answer
        body = json.loads(payload)
        body.get("@Redfish.Settings", {}).pop("SupportedApplyTimes", None)
        return status, headers, json.dumps(body).encode()

    def _already_shows(self, name: str, path: str) -> bool:
        """Whether a read right now would show what this write is for."""
        controller = self.machine.controller
        current = {attribute: controller.bios.current[attribute] for attribute in DIFFERING}
        match name:
            case "PATCH":
                return DIFFERING in (dict(controller.bios.pending), current)
            case "Jobs":
                return bool(self.open_jobs)
            case "Reset":
                return self.machine.status().server != "OutOfPOST" or current == DIFFERING
            case "DELETE":
                return path.rpartition("/")[2] not in self.open_jobs
            case _:
                return not controller.bios.pending


def is_write(method: str, path: str) -> bool:
    return method in ("PATCH", "POST", "DELETE") and "/Sessions" not in path and not path.endswith(READS)


@pytest.fixture
def bench(tmp_path, request):
    from harness.lab.idrac.serve import serve

    steps, faults = getattr(request, "param", (ONE_STEP, ()))
    clock = runpy.run_path(str(CLIENT))["SharedClock"](tmp_path / "clock")
    machine = Machine(clock, frozenset(faults))
    application = IdracApplication(machine)
    made = Bench(machine, tmp_path, steps)
    real = application.handle
    application.handle = lambda *rest, **more: made.handle(real, *rest, **more)
    with serve(application) as served:
        made.url, made.pin = served.url, served.pin
        yield made


def converge(bench: Bench, point: int, way: str) -> None:
    bench.run(point, way)
    assert bench.count >= point, "the point was never reached"
    for _ in range(2):
        last = bench.run()
        assert last is not None
    assert (last["stopped"], last["handover"]) == ("", NOTHING)
    assert bench.count == 0, "a run that has nothing to do writes nothing"
    assert {name: bench.machine.controller.bios.current[name] for name in DIFFERING} == DIFFERING
    assert (dict(bench.machine.controller.bios.pending), bench.open_jobs) == ({}, [])
    assert bench.repeated == []


def points(steps: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param((steps, ()), point, way, id=f"{'-'.join(steps)}: {way} {steps[point - 1]}")
        for point in range(1, len(steps) + 1)
        for way in WAYS
    ]


@pytest.mark.parametrize(("point", "way"), [(1, "killed after"), (2, "killed after"), (2, "answer cut")])
def test_an_apply_that_is_cut_off_at_a_write_converges_when_it_runs_again(bench, point, way):
    converge(bench, point, way)
    assert bench.taken == list(ONE_STEP)


@pytest.mark.slow
@pytest.mark.parametrize(("bench", "point", "way"), [*points(ONE_STEP), *points(TWO_STEPS)], indirect=["bench"])
def test_an_apply_that_is_cut_off_anywhere_converges_when_it_runs_again(bench, point, way):
    converge(bench, point, way)


@pytest.mark.slow
@pytest.mark.parametrize("bench", [(ONE_STEP, ("bios.job-state",))], indirect=True)
@pytest.mark.parametrize("point", [3, 4])
@pytest.mark.parametrize("way", WAYS)
def test_a_withdrawal_that_is_cut_off_repeats_nothing_and_leaves_nothing_unsaid(bench, point, way):
    """The job says Scheduled for ever, so the apply takes it away: DELETE, then ClearPending."""
    ended = bench.run(point, way) or bench.run()
    assert bench.repeated == []
    left = bench.open_jobs or [*bench.machine.controller.bios.pending]
    assert all(name in ended["handover"] + ended["stopped"] for name in left), ended
    assert left or ended["handover"] == NOTHING, ended
