"""``bringup bios`` on a bench of its own: an iDRAC behind real TLS, served to another process as a real one would be."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from harness.clock import VirtualClock, WallClock
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.live.lock import MachineLock, owner_of_run

pytest.importorskip("cheroot", reason="pip install 'bringup-harness[test]'")
pytest.importorskip("cryptography", reason="pip install 'bringup-harness[test]'")
pytestmark = pytest.mark.socket

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


class FastClock(WallClock):
    """Wall time, two hundred times as fast."""

    def now(self) -> float:
        return super().now() * 200


class Service:
    """The served machine, its bench file and every request."""

    def __init__(self, folder, served, machine, asked):
        self.folder, self.served, self.machine, self.asked = folder, served, machine, asked

    def command(self, *words, tag=parts.SERVICE_TAG):
        file = self.folder / "served.toml"
        file.write_text(BENCH.format(tag=tag, url=self.served.url, user=parts.BMC_USER, pin=self.served.pin))
        return [sys.executable, "-m", "harness", words[0], words[1], "--bench", str(file), *words[2:]]

    def bringup(self, *words, **more):
        environment = os.environ | {"SERVED_PASSWORD": parts.BMC_PASSWORD, "TMPDIR": str(self.folder)}
        return subprocess.run(
            self.command(*words, **more), capture_output=True, text=True, env=environment, timeout=120, check=False
        )

    @property
    def writes(self):
        reads = ("/Sessions", "GetRemoteServicesAPIStatus", "ExportServerScreenShot")
        return [path for method, path in self.asked if method != "GET" and "/Sessions" not in path and not path.endswith(reads)]

    @property
    def sessions(self):
        return len(self.machine.controller.sessions.open)


@pytest.fixture
def service(tmp_path, request):
    from harness.lab.idrac.serve import serve

    machine = Machine(getattr(request, "param", VirtualClock)())
    application = IdracApplication(machine)
    asked = []
    handle = application.handle

    def noting(method, path, *rest, **more):
        asked.append((method, path.partition("?")[0]))
        return handle(method, path, *rest, **more)

    application.handle = noting
    with serve(application) as served:
        yield Service(tmp_path, served, machine, asked)


def test_looks_need_no_lock_write_nothing_and_leave_no_session(service):
    with MachineLock(parts.SERVICE_TAG, owner_of_run("somebody"), service.folder / "bringup-locks"):
        shown = service.bringup("bios", "show", "MmioAbove4Gb")
        plan = service.bringup("bios", "plan")
        apply = service.bringup("bios", "apply")
    assert (shown.returncode, plan.returncode) == (0, 1), shown.stderr + plan.stderr
    assert shown.stdout.splitlines()[1] == "MmioAbove4Gb = Disabled  (Enabled | Disabled)"
    assert apply.returncode == 2
    assert f"{parts.SERVICE_TAG} is held by" in apply.stderr
    assert service.writes == []
    assert service.sessions == 0


def test_another_machine_is_not_written_to(service):
    done = service.bringup("bios", "apply", "--no-reboot", tag="OTHER01")
    assert done.returncode == 3
    assert "the bench pins OTHER01" in done.stderr
    assert "hand-over: nothing was left on the machine" in done.stderr
    assert service.writes == []
    assert service.sessions == 0


def test_what_was_scheduled_can_be_taken_back_by_name(service):
    done = service.bringup("bios", "apply", "--no-reboot")
    assert done.returncode == 0, done.stderr
    (job,) = [job.id for job in service.machine.controller.jobs.jobs if not job.is_finished]
    assert f"{job} Scheduled: applies at the next reboot by anyone" in done.stdout
    refused = service.bringup("bios", "clear")
    assert refused.returncode == 2
    assert f"name it with --job {job}" in refused.stderr
    cleared = service.bringup("bios", "clear", "--job", job)
    assert cleared.returncode == 0, cleared.stderr
    assert cleared.stdout.splitlines()[-2:] == ["nothing is pending", "hand-over: nothing was left on the machine"]
    assert dict(service.machine.controller.bios.pending) == {}
    assert service.sessions == 0


@pytest.mark.parametrize("service", [FastClock], indirect=True)
def test_ctrl_c_in_the_middle_says_what_is_left_and_ends_the_session(service):
    environment = os.environ | {"SERVED_PASSWORD": parts.BMC_PASSWORD, "TMPDIR": str(service.folder)}
    process = subprocess.Popen(
        service.command("bios", "apply"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    began = time.monotonic()
    while not any("ComputerSystem.Reset" in path for path in service.writes):
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "hand-over: BIOS values MmioAbove4Gb Disabled -> Enabled" in errors
    assert re.search(r"a restart was asked for that carries JID_\d+ out; let it come to its end; undo: ", errors)
    assert service.sessions == 0
