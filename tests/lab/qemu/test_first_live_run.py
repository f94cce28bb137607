"""The README's way to a first live run, gone as written on the kept virtual machine by somebody who has nothing yet.

It stands in for the machine of the README: a bench of real endpoints (Redfish over TLS, a console), which knows nothing of the lab.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from harness import locator
from harness.lab.qemu.standing import Standing, find_standing

README = locator.shipped() / "README.md"

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.socket,
    pytest.mark.skipif(not README.is_file(), reason="the README is not beside the installed package"),
]


def section() -> str:
    return README.read_text().split("### The first live run\n")[1].split("### Console, operating system, fabric\n")[0]


@pytest.fixture
def person(needs_the_lab, tmp_path, monkeypatch):
    """Runs a line of the README in an empty folder; the machine is there, switched off and as delivered."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.delenv("BRINGUP_BMC_PASSWORD", raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bringup").write_text(f'#!/bin/sh\nexec {sys.executable} -m harness "$@"\n')
    (tmp_path / "bin" / "bringup").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)

    assert run("bringup lab up").returncode == 0
    try:
        yield run
    finally:
        run("bringup lab down")


def bench_of(there: Standing, pin: str) -> str:
    """The README's bench with the kept machine in the place of its own, and a console that leads to the operating system."""
    (bench,) = re.findall(r"```toml\n(.*?)```", section(), re.DOTALL)
    for example, real in (
        ("lqd8360", "virtual-r640"),
        ("ABC1234", there.service_tag),
        ("https://192.0.2.10", there.bmc_url),
        ("sha256:...", pin),
    ):
        assert example in bench
        bench = bench.replace(example, real)
    return f'{bench}\n[console]\nurl = "{there.console_url}"\n\n[host]\nvia = "console"\nuser = "root"\n'


def test_the_first_live_run_goes_as_the_readme_says(person, tmp_path, monkeypatch):
    there = find_standing()
    assert there is not None
    address = there.bmc_url.removeprefix("https://")
    lines = [line.removeprefix("$ ").split("  #")[0] for line in re.findall(r"^\$ .*$", section(), re.MULTILINE)]
    new, check, fingerprint, export, contact, probe, compare, plan, apply = lines
    file = tmp_path / "fixtures" / "benches" / "r640-07.toml"

    assert person(new).returncode == 0
    checked = person(check)
    assert checked.returncode == 2
    for key in ("service_tag", "bmc.url", "bmc.pin", "bmc.password"):
        assert f": {key}: " in checked.stderr

    shown = person(fingerprint.replace("192.0.2.10:443", address))
    pin = shown.stdout.partition("=")[2].strip()
    assert pin.replace(":", "").lower() == there.pin.removeprefix("sha256:")
    file.write_text(bench_of(there, pin))
    assert export.startswith("export BRINGUP_BMC_PASSWORD=")
    monkeypatch.setenv("BRINGUP_BMC_PASSWORD", there.password)
    assert person(check).returncode == 0

    first = person(contact)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "nothing is changed (no --apply)" in first.stdout
    assert "only stage bmc | LIVE on a simulated machine" in " ".join(first.stdout.split())

    compared = person(compare)
    assert compared.returncode == 3, compared.stdout + compared.stderr
    assert "would change MmioAbove4Gb Disabled -> Enabled" in compared.stdout
    assert "the host is switched off" in compared.stdout

    planned = person(plan)
    assert planned.returncode == 1, planned.stdout + planned.stderr
    assert "MmioAbove4Gb" in planned.stdout

    applied = person(apply)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "PASSED: nothing failed" in applied.stdout
    assert "LIVE on a simulated machine" in " ".join(applied.stdout.split())

    probed = person(probe)
    assert probed.returncode == 0, probed.stdout + probed.stderr
    assert "talks: " in probed.stdout
