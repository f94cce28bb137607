"""``bringup bios`` from end to end on every generation of iDRAC: the command in this process, a real TLS connection, the served
simulator. Both sides share one virtual clock, so that a restart of ten minutes takes no time and is told as ten minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.cli import main
from harness.clock import VirtualClock
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.profile import PROFILES, find_profile
from harness.lab.model import parts
from harness.lab.model.machine import Machine

pytest.importorskip("cheroot", reason="pip install 'bringup-harness[test]'")
pytest.importorskip("cryptography", reason="pip install 'bringup-harness[test]'")
pytestmark = pytest.mark.socket

BENCH = """
schema = 1
name = "served"
platform = "{platform}"
service_tag = "{tag}"
[bmc]
url = "{url}"
user = "{user}"
password = {{ env = "SERVED_PASSWORD" }}
pin = "{pin}"
"""
PLATFORM = """
schema = 1
name = "generation"
system = "{system}"
[bios.attributes]
MmioAbove4Gb = "Enabled"
OsWatchdogTimer = "Disabled"
[boot]
no_progress = "15 min"
within = "45 min"
[[slot]]
name = "jbogA/slot01"
path = "pci0000:3a/00.0/04.0"
"""
WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
NOTHING = "hand-over: nothing was left on the machine"


@dataclass
class Bench:
    """A served machine of one generation, the command for it, and the requests that write."""

    machine: Machine
    file: str
    run: Callable[..., tuple[int, str]]
    use: Callable[[str], None] = lambda _: None
    sent: list[tuple[str, str, str]] = field(default_factory=list)

    def bringup(self, verb, *words):
        return self.run("bios", verb, "--bench", self.file, *words)

    @property
    def writes(self):
        reads = ("/Sessions", "GetRemoteServicesAPIStatus", "ExportServerScreenShot")
        return [
            f"{method} {path}"
            for method, path, _ in self.sent
            if method not in ("GET", "HEAD") and "/Sessions/" not in path and not path.endswith(reads)
        ]

    def count(self, method, part):
        return sum(write.startswith(method) and part in write for write in self.writes)

    @property
    def resets(self):
        return self.count("POST", "ComputerSystem.Reset")

    @property
    def current(self):
        return dict(self.machine.controller.bios.current)

    @property
    def open_jobs(self):
        return [job.id for job in self.machine.controller.jobs.jobs if not job.is_finished]

    @property
    def is_clean(self):
        controller = self.machine.controller
        return (dict(controller.bios.pending), self.open_jobs, controller.sessions.open) == ({}, [], ())


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.name)
def profile(request):
    return request.param


@pytest.fixture
def bench(tmp_path, profile, monkeypatch, capsys):
    from harness.lab.idrac.serve import serve

    clock = VirtualClock()
    machine = Machine(clock, profile=profile)
    application = IdracApplication(machine)
    handle = application.handle
    served_bench = Bench(machine, str(tmp_path / "served.toml"), lambda *_: (0, ""))

    def noting(method, path, headers, body, **more):
        served_bench.sent.append((method, path.partition("?")[0], body.decode()))
        return handle(method, path, headers, body, **more)

    application.handle = noting
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVED_PASSWORD", parts.BMC_PASSWORD)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("harness.plugin.reach.WallClock", lambda: clock)
    (tmp_path / "fixtures" / "platforms").mkdir(parents=True)
    (tmp_path / "fixtures" / "platforms" / "generation.toml").write_text(PLATFORM.format(system=profile.system))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["bringup", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err, said.err
        return int(ended.value.code or 0), said.out + said.err

    served_bench.run = run
    with serve(application) as served:

        def write(platform):
            text = BENCH.format(platform=platform, tag=parts.SERVICE_TAG, url=served.url, user=parts.BMC_USER, pin=served.pin)
            (tmp_path / "served.toml").write_text(text)

        write("generation")
        served_bench.use = write
        yield served_bench


def test_a_plan_writes_nothing_an_apply_reads_back_and_a_second_one_sends_no_write(bench, profile):
    status, text = bench.bringup("plan")
    assert (status, bench.writes) == (1, []), text
    status, text = bench.bringup("apply")
    assert status == 0, text
    assert "MmioAbove4Gb: Disabled -> Enabled" in text
    assert "read back as wanted, no BIOS job is left, nothing is pending" in text
    assert {name: bench.current[name] for name in WANTED} == WANTED
    assert (bench.count("PATCH", "Bios/Settings"), bench.resets) == (1, 1)
    assert bench.count("POST", "/Jobs") == (0 if profile.apply_times else 1), "the job is a second request only where it has to be"
    assert bench.is_clean
    before = len(bench.writes)
    status, text = bench.bringup("apply")
    assert (status, len(bench.writes)) == (0, before), text
    assert "all 2 settings are as wanted; no write was sent" in text


def test_what_waits_for_a_restart_is_cleared_by_name_or_gone_on_with(bench):
    status, text = bench.bringup("apply", "--no-reboot")
    assert status == 0, text
    (job,) = bench.open_jobs
    assert f"{job} Scheduled: applies at the next reboot by anyone" in text
    assert (bench.resets, dict(bench.machine.controller.bios.pending)) == (0, WANTED)
    status, text = bench.bringup("clear", "--job", job)
    assert (status, bench.is_clean) == (0, True), text
    assert NOTHING in text
    assert {name: bench.current[name] for name in WANTED} != WANTED
    assert bench.bringup("apply", "--no-reboot")[0] == 0
    status, text = bench.bringup("apply")
    assert status == 0, text
    assert (bench.count("PATCH", "Bios/Settings"), bench.resets) == (2, 1), "one PATCH for each staging, none to go on"
    assert {name: bench.current[name] for name in WANTED} == WANTED
    assert bench.is_clean


@pytest.mark.slow
def test_two_settings_that_lock_each_other_take_two_boots(bench, profile, tmp_path):
    bench.machine.controller.bios.current["NodeInterleave"] = "Enabled"
    clusters = bench.machine.controller.bios.generation.by_name["SubNumaCluster"].values
    on = next(value for value in clusters if value != "Disabled")
    wanted = {"NodeInterleave": "Disabled", "SubNumaCluster": on}
    (tmp_path / "two.json").write_text(json.dumps(wanted))
    status, text = bench.bringup("apply", "--attributes", "two.json")
    assert status == 0, text
    patched = [json.loads(body)["Attributes"] for method, path, body in bench.sent if method == "PATCH"]
    assert patched == [{"NodeInterleave": "Disabled"}, {"SubNumaCluster": on}]
    unheard = "ForceRestart" not in profile.resets  # the operating system is still being loaded and hears no graceful restart
    assert bench.resets == 2 + unheard
    assert {name: bench.current[name] for name in wanted} == wanted
    assert bench.is_clean


@pytest.mark.parametrize("profile", [find_profile("idrac10")], ids=["idrac10"], indirect=True)
def test_a_name_that_a_generation_lacks_is_the_platforms_mistake_and_nothing_is_guessed(bench):
    bench.use("lqd8360")
    status, text = bench.bringup("apply")
    assert status == 3, text
    assert "asks for AcPwrRcvry = one of Last, On: this BIOS has no attribute AcPwrRcvry" in text
    assert "did you mean" not in text
    assert (bench.writes, bench.is_clean) == ([], True)
    assert NOTHING in text


@pytest.mark.parametrize("profile", [find_profile("idrac10")], ids=["idrac10"], indirect=True)
def test_a_name_that_is_nearly_one_of_this_generation_is_suggested_and_not_written(bench, tmp_path):
    (tmp_path / "near.toml").write_text("Proc1NumCore = 8\n")
    status, text = bench.bringup("apply", "--attributes", "near.toml")
    assert status == 2, text
    assert "this BIOS has no attribute Proc1NumCore; did you mean 'Proc1NumCores'?" in text
    assert bench.writes == []
