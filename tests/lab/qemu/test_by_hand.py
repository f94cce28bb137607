"""The machine that is kept for work by hand, as a person uses it: console and ssh, the console with one owner at a time."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys

import pytest

from harness.clock import WallClock
from harness.lab.idrac import names
from harness.lab.qemu.standing import find_standing
from harness.live.http import RedfishHttp
from harness.ports import HttpQuestion
from harness.secret import GivenSecret

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


def bringup(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", *words], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def standing(needs_the_lab, tmp_path, monkeypatch):
    """A kept machine that was switched on."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    up = bringup("lab", "up")
    assert up.returncode == 0, up.stderr
    try:
        there = find_standing()
        assert there is not None
        assert f"ssh      {there.ssh}\n" in up.stdout
        bmc = RedfishHttp(there.bmc_url, there.user, GivenSecret(there.password), WallClock(), pin=there.pin)
        reset = HttpQuestion.act("POST", f"{names.SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
        assert bmc.ask(reset).status < 300
        bmc.close()
        yield there
    finally:
        bringup("lab", "down")


def test_console_and_ssh_lead_to_the_same_running_machine_and_the_console_has_one_owner(standing):
    def see(wanted: bytes, within: float = 60.0) -> bytes:
        seen = b""
        while not re.search(wanted, seen):
            assert select.select([near], [], [], within)[0], f"saw only {seen[-500:]!r}"
            seen += os.read(near, 4096)
        return seen

    near, far = pty.openpty()
    console = subprocess.Popen(
        [sys.executable, "-m", "harness", "console", "virtual-r640"], stdin=far, stdout=far, stderr=far, start_new_session=True
    )
    try:
        see(rb"Ctrl-\] ends")
        see(rb"virtual-r640 login: ")
        taken = bringup("console", "probe", "virtual-r640")
        assert (taken.returncode, "is held by" in taken.stderr) == (2, True)
        os.write(near, b"root\n")
        see(rb"# ")
        os.write(near, b"cat /proc/sys/kernel/random/boot_id\n")
        boot_id = re.search(rb"[0-9a-f]{8}-[0-9a-f-]{27}", see(rb"[0-9a-f]{8}-[0-9a-f-]{27}\s"))[0].decode()
        os.write(near, b"exit\n\x1d")
        assert console.wait(20) == 0
    finally:
        console.kill()
        console.wait()
        os.close(near)
        os.close(far)

    probed = bringup("console", "probe", "virtual-r640")
    assert probed.returncode == 0, probed.stdout
    assert "talks: " in probed.stdout

    over_ssh = WallClock().until(
        lambda: subprocess.run(
            [*shlex.split(standing.ssh), "cat /proc/sys/kernel/random/boot_id"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        ),
        lambda done: done.returncode == 0,
        what="ssh to answer",
        every=1,
        within=60,
    )
    assert over_ssh.stdout.strip() == boot_id
