"""The whole command on the virtual machine: every stage it has passes, and a fault is caught where it shows first."""

import json
import subprocess
import sys

import pytest

from harness.lab.catalogue import qemu_catalogue

pytestmark = [pytest.mark.qemu, pytest.mark.socket]
CAUGHT = {"qemu.window-too-small", "qemu.endpoint-absent"}


def run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--bench", "virtual-r640", "--live", "--apply", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    lines = [json.loads(line) for line in (folder / "reports" / "latest" / "results.jsonl").read_text().splitlines()]
    return done, [line for line in lines if line["kind"] == "case"]


def test_the_virtual_machine_passes_the_stages_it_has(needs_the_lab, tmp_path):
    done, cases = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "simulated machine (virtual lab, QEMU)" in done.stdout.replace("\n", " ")
    assert "hardware is touched" in done.stdout.splitlines()[0]
    assert {case["stage"] for case in cases} == {"bmc", "bios", "boot", "pcie"}
    assert sum(case["check"] == "pcie.enumerated" and case["outcome"] == "passed" for case in cases) == 20


@pytest.mark.parametrize("fault", [fault for fault in qemu_catalogue() if fault.id in CAUGHT], ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_its_check_first(needs_the_lab, tmp_path, fault):
    done, cases = run(tmp_path, "--fault", fault.id)
    assert done.returncode == 1, done.stdout + done.stderr
    failed = [case for case in cases if case["outcome"] in ("failed", "error")]
    assert failed[0]["check"] == fault.caught_by, [(case["case"], case["message"][:200]) for case in failed[:3]]
