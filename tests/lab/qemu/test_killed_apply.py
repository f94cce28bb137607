"""An apply that is killed with -9 between its writes, or loses the answers to them, on a firmware whose 64-bit window really
depends on the setting.

What stays is what the dead process left on the iDRAC; the next run finds it by reading and goes on, and writes nothing twice. So
does a run whose connection is cut before the answer to a write.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from harness.clock import WallClock
from harness.consent import Consent
from harness.devices.idrac import Idrac
from harness.devices.jobs import SUCCEEDED
from harness.devices.redfish import Redfish
from harness.lab.qemu.standing import find_standing
from harness.live.http import RedfishHttp
from harness.locator import find_platform
from harness.ports import Effect
from harness.procedures.bios.change import change_bios
from harness.procedures.handover import NOTHING, Handover
from harness.secret import GivenSecret

pytestmark = [pytest.mark.qemu, pytest.mark.socket]
RESETS = ("RAC0701", "RAC0702", "RAC0703", "RAC0705")
"""What the log says of a power-on, a power cycle, a hard and a soft restart that was asked for (EEMI registry 2.9.0)."""
APPLY = (sys.executable, "-m", "harness", "bios", "apply", "--bench", "virtual-r640")


@pytest.fixture
def kept(needs_the_lab, tmp_path, monkeypatch):
    """A kept machine, as delivered and switched off: MmioAbove4Gb is Disabled."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    bringup = (sys.executable, "-m", "harness", "lab")
    subprocess.run([*bringup, "up"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    try:
        yield find_standing()
    finally:
        subprocess.run([*bringup, "down"], check=True, timeout=120, stdout=subprocess.DEVNULL)


def killed_when_it_says(words, *options):
    """Start an apply and kill it at the first line with ``words``; False where it ended before."""
    process = subprocess.Popen([*APPLY, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        found = any(words in line for line in process.stderr)
        process.kill()
    finally:
        guard.cancel()
        process.stderr.close()
        process.wait()
    return found


def applied(*options):
    return subprocess.run([*APPLY, *options], capture_output=True, text=True, timeout=300, check=False)


def asked(kept, look):
    lane = RedfishHttp(kept.bmc_url, kept.user, GivenSecret(kept.password), WallClock(), pin=kept.pin)
    try:
        return look(Idrac(Redfish(lane, WallClock())).located())
    finally:
        lane.close()


def bios_jobs(kept):
    return asked(kept, lambda idrac: [job for job in idrac.jobs() if job.is_bios])


def resets(kept):
    """How many starts and restarts the iDRAC was ever asked for, as its log tells; those of a BIOS job are not among them."""
    log = asked(kept, lambda idrac: idrac.lc_log())
    return [event.message_id for event in log if event.message_id in RESETS]


def lost_bars(kept):
    """How many 64-bit regions the kernel could not place; I/O windows of empty ports never have one."""
    done = subprocess.run(
        [*shlex.split(kept.ssh), "dmesg | grep 'failed to assign' | grep -c '64bit pref' || true"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return int(done.stdout)


def test_an_apply_killed_after_its_patch_or_after_its_reset_converges_and_writes_nothing_twice(kept, tmp_path):
    assert killed_when_it_says("to be scheduled")
    (left,) = bios_jobs(kept)
    assert left.is_active
    done = applied()
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = bios_jobs(kept)
    assert (job.id, job.message_id in SUCCEEDED) == (left.id, True), "the job of the killed run, and no second one"
    assert asked(kept, lambda idrac: idrac.bios().attributes["MmioAbove4Gb"]) == "Enabled"
    assert len(resets(kept)) == 1
    assert lost_bars(kept) == 0

    (tmp_path / "narrow.toml").write_text('MmioAbove4Gb = "Disabled"\n')
    narrow = ("--attributes", "narrow.toml", "--danger", "mmio")
    assert killed_when_it_says("to complete", *narrow)
    assert len(resets(kept)) == 2
    # once its values are no longer pending, nothing proves whose the running job is: it is left alone until it is over
    done = WallClock().until(
        lambda: applied(*narrow),
        lambda done: "the queue holds what is not ours" not in done.stdout,
        what="the job of the killed run to be over",
        every=2,
        within=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = bios_jobs(kept)
    assert len(jobs) == 2, "one job for each change"
    assert all(job.message_id in SUCCEEDED for job in jobs)
    assert asked(kept, lambda idrac: (idrac.bios().attributes["MmioAbove4Gb"], dict(idrac.bios().pending))) == ("Disabled", {})
    assert len(resets(kept)) == 2, "one reset for each change"
    assert lost_bars(kept) > 0


class Cutter:
    """Stands between a client and the iDRAC on real sockets. Once armed, the next bytes of an answer end both connections."""

    def __init__(self, url):
        self.target = (urlsplit(url).hostname, urlsplit(url).port)
        self.armed = threading.Event()
        self.cuts = 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self._let_in, daemon=True).start()

    def close(self):
        self.door.close()

    def _let_in(self):
        with suppress(OSError):
            while True:
                client, _ = self.door.accept()
                service = socket.create_connection(self.target)
                for source, sink, answers in ((client, service, False), (service, client, True)):
                    threading.Thread(target=self._carry, args=(source, sink, answers), daemon=True).start()

    def _carry(self, source, sink, answers):
        with suppress(OSError):
            while data := source.recv(65536):
                if answers and self.armed.is_set():
                    self.armed.clear()
                    self.cuts += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Arming:
    """A lane that arms the cutter right before each write is sent the first time."""

    def __init__(self, lane, cutter):
        self.lane, self.cutter, self.sent = lane, cutter, []

    def ask(self, question, on_line=None):
        if question.effect is Effect.ACT:
            if question.key not in self.sent:
                self.cutter.armed.set()
            self.sent.append(question.key)
        return self.lane.ask(question, on_line)

    def close(self):
        self.lane.close()


def test_an_apply_whose_every_write_loses_its_answer_converges_and_writes_nothing_twice(kept):
    platform, _ = find_platform("virtual-r640")
    cutter = Cutter(kept.bmc_url)
    clock, handover = WallClock(), Handover()
    lane = Arming(RedfishHttp(cutter.url, kept.user, GivenSecret(kept.password), clock, pin=kept.pin), cutter)
    tag = asked(kept, lambda idrac: idrac.system().service_tag)
    try:
        changed = change_bios(Idrac(Redfish(lane, clock)), platform, Consent(apply=True), handover, expected_tag=tag)
    finally:
        lane.close()
        cutter.close()
    assert changed.story.stopped == ""
    assert (len(lane.sent), cutter.cuts) == (2, 2), "a PATCH and a reset, each once, and neither answer came"
    assert changed.story.lost_answer
    assert not changed.story.reset.is_answered
    (job,) = bios_jobs(kept)
    assert job.message_id in SUCCEEDED
    assert len(resets(kept)) == 1
    assert asked(kept, lambda idrac: idrac.bios().attributes["MmioAbove4Gb"]) == "Enabled"
    assert lost_bars(kept) == 0
    assert handover.line() == NOTHING
