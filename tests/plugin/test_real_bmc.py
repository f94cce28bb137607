"""The whole command against an iDRAC over real TLS: the simulated one, served on loopback to another process."""

import signal
import subprocess
import sys
import time

import pytest

from harness.clock import VirtualClock, WallClock
from harness.errors import Unreachable
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.serve import serve
from harness.lab.model import parts
from harness.lab.model.machine import Machine

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
WRITES = ("PATCH", "POST", "DELETE")


class FastClock(WallClock):
    """Wall time, two hundred times as fast: a POST of ten minutes takes three seconds."""

    def now(self) -> float:
        return super().now() * 200


class Service:
    """A served machine that notes every request, and a bench file that leads to it."""

    def __init__(self, folder, served, machine, asked):
        self.folder, self.url, self.pin, self.machine, self.asked = folder, served.url, served.pin, machine, asked

    def bench(self, **changed):
        words = {"url": self.url, "pin": self.pin, "tag": parts.SERVICE_TAG, "user": parts.BMC_USER} | changed
        file = self.folder / "served.toml"
        file.write_text(BENCH.format(**words))
        return str(file)

    @property
    def logins(self):
        return [path for method, path in self.asked if method == "POST" and path.endswith("/Sessions")]

    @property
    def writes(self):
        """Everything that could change the machine, session traffic and reads that are POSTs apart."""
        reads = ("/Sessions", "GetRemoteServicesAPIStatus", "ExportServerScreenShot")
        return [(m, p) for m, p in self.asked if m in WRITES and "/Sessions" not in p and not p.endswith(reads)]

    @property
    def open_sessions(self):
        return len(self.machine.controller.sessions.open)


@pytest.fixture
def service(tmp_path, request):
    clock = getattr(request, "param", VirtualClock)()
    machine = Machine(clock)
    application = IdracApplication(machine)
    asked = []
    handle = application.handle

    def noting(method, path, *rest, **more):
        asked.append((method, path.partition("?")[0]))
        return handle(method, path, *rest, **more)

    application.handle = noting
    with serve(application) as served:
        yield Service(tmp_path, served, machine, asked)


@pytest.fixture
def live(bringup, service, tmp_path):
    def run(*arguments, password=parts.BMC_PASSWORD, **changed):
        done = bringup(
            "run", "--bench", service.bench(**changed), "--live", *arguments, folder=tmp_path, env={"SERVED_PASSWORD": password}
        )
        assert "Traceback" not in done.out + done.err
        assert password not in done.out + done.err
        return done

    return run


def test_first_contact_passes_and_leaves_no_session(live, service):
    done = live("--stage", "bmc")
    assert done.status == 0, done.out + done.err
    assert "LIVE on a simulated machine (model)" in " ".join(done.out.split())
    assert "hardware" not in done.out
    assert service.writes == []
    assert len(service.logins) == 1
    assert service.open_sessions == 0


def test_a_wrong_password_is_one_attempt_and_the_bench_s_failure(live, service):
    done = live("--stage", "bmc", "--stage", "bios", password="not-the-password")
    assert done.status == 3, done.out + done.err
    assert done.failed == ["bmc.auth"]
    assert "SERVED_PASSWORD" in done.cases["bmc.auth"]["message"]
    assert len(service.logins) == 1
    assert {line["outcome"] for line in done.cases.values() if line["stage"] == "bios"} == {"blocked"}


def test_a_wrong_pin_gets_no_request_at_all(live, service):
    done = live("--stage", "bmc", pin="sha256:" + "ab" * 32)
    assert done.status == 3, done.out + done.err
    assert done.failed == ["bmc.tls"]
    assert service.asked == []


def test_another_service_tag_is_not_written_to(live, service):
    done = live("--apply", "--stage", "bmc", "--stage", "bios", tag="OTHER01")
    assert done.status == 3, done.out + done.err
    assert done.failed == ["bmc.identity"]
    assert service.writes == []
    assert service.open_sessions == 0


def test_without_consent_the_plan_is_the_failure_and_nothing_is_written(live, service):
    done = live("--stage", "bios")
    assert done.status == 1, done.out + done.err
    assert done.failed == ["bios.attributes"]
    assert "MmioAbove4Gb" in done.cases["bios.attributes"]["message"]
    assert service.writes == []


def test_a_held_machine_is_refused_before_anything_is_asked(live, service, tmp_path, monkeypatch):
    from harness.live.lock import MachineLock

    with MachineLock(parts.SERVICE_TAG, "somebody@else run"):
        done = live("--stage", "bmc")
    assert done.status == 2
    assert "somebody@else" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert service.asked == []
    assert not list((tmp_path / "reports").glob("*")) if (tmp_path / "reports").exists() else True


@pytest.mark.parametrize(("named", "status"), [("somebody@else", 2), ("somebody@else run", 0)])
def test_a_held_machine_is_stolen_by_its_holders_exact_name_only(live, service, named, status):
    from harness.errors import OwnershipError
    from harness.live.lock import MachineLock

    with MachineLock(parts.SERVICE_TAG, "somebody@else run") as theirs:
        done = live("--stage", "bmc", "--steal-lock", named)
        assert done.status == status, done.out + done.err
        if status:
            theirs.check()
            assert "is not its owner" in done.err
        else:
            with pytest.raises(OwnershipError):
                theirs.check()


def test_a_logout_that_is_not_answered_is_handed_over(live, service):
    def lose(session_id):
        raise Unreachable("cut")

    service.machine.controller.sessions.end = lose
    done = live("--stage", "bmc")
    assert done.status == 0, done.out + done.err
    assert service.open_sessions == 1
    assert "may stay open" in " ".join(done.out.split())


def test_a_simulated_machine_has_no_lock_to_steal(bringup, tmp_path):
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--steal-lock", "somebody", folder=tmp_path)
    assert (done.status, len(done.err.strip().splitlines())) == (2, 1)
    assert "--steal-lock" in done.err


def test_ctrl_c_ends_the_session(service, tmp_path, clean_environment):
    (tmp_path / "test_aaa.py").write_text(
        "import pytest\nfrom pathlib import Path\nfrom harness.clock import WallClock\n"
        '@pytest.mark.check("bios.stuck")\ndef test_stuck(contact):\n    Path("stuck").touch()\n    WallClock().sleep(120)\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "--bench", service.bench(), "--live", "--suite", "test_aaa.py"],
        cwd=tmp_path,
        env=clean_environment | {"SERVED_PASSWORD": parts.BMC_PASSWORD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 120
        while not (tmp_path / "stuck").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        assert service.open_sessions == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, out + err
    assert service.open_sessions == 0
    assert "nothing was left on the machine" in out


@pytest.mark.slow
@pytest.mark.parametrize("service", [FastClock], indirect=True)
def test_settings_are_applied_with_one_patch_one_job_and_one_reset(live, service):
    done = live("--apply", "--stage", "bios")
    assert done.status == 0, done.out + done.err
    assert [method for method, _ in service.writes] == ["PATCH", "POST"]
    assert service.writes[1][1].endswith("ComputerSystem.Reset")
    assert service.machine.controller.bios.current["MmioAbove4Gb"] == "Enabled"
    assert service.open_sessions == 0
    again = len(service.writes)
    assert live("--apply", "--stage", "bios", "--report", "again").status == 0
    assert len(service.writes) == again, "applying what is already so must not write"
