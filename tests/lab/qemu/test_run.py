"""The whole command on the virtual machine: every stage it has passes, and a fault is caught where it shows first.

Of each fault: exit status, whose fault, the first failing check, what may fail after it, and what the first screen says.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from harness.errors import Blame
from harness.lab.catalogue import find, qemu_catalogue
from harness.lab.qemu import faults, pcie_faults

pytestmark = [pytest.mark.qemu, pytest.mark.socket]

EXIT = {Blame.PRODUCT: 1, Blame.BENCH: 3}
ADVICE = r"next: start a kernel that is known to work \(boot menu, rescue medium\)"
CHANGED = r"changed before: BIOS MmioAbove4Gb Disabled -> Enabled, .*\(JID_\d+\) and ForceRestart"
WAITED = r"[\d.]+ (?:s|min)[\w. ]*?"
SCREEN = {
    faults.WINDOW: (r"> enumerated 20 > BARs assigned 2 >", r"seen pci 0000:\S+ BAR \d \[.*(?:no space|failed to assign)"),
    faults.ABSENT: (
        r"pcie\.chain-link failed \(product\) pcie\.chain-link\[slot08\]",
        r"the port does not report whether its link",
    ),
    faults.KERNEL: (
        rf"no new boot in .* \(usual 15 s\): the host did not answer for {WAITED}: OutOfPOST, OSBootStarted",
        r"console: Shell>",
        CHANGED,
        ADVICE,
    ),
    faults.PANIC: (
        r"Kernel panic - not syncing: .*; no new boot in .* \(usual 15 s\): OutOfPOST, OSBootStarted for ",
        r"console: .*end Kernel panic",
        CHANGED,
        ADVICE,
    ),
    faults.HALT: (
        r"POST stopped and waits for a key: HaltedF1/F2Prompt",
        r"log: PST0080",
        r"console: .*Shell>",
        CHANGED,
        r"next: read the reason on the screen",
    ),
    faults.CONSOLE_DEAD: (
        r"the console, the only way to the host, shows no prompt \(.*last seen: ''\), and the BMC says OutOfPOST, OSRunning",
        r"nothing was restarted",
        r"changed before: BIOS MmioAbove4Gb Disabled -> Enabled",
        r"next: find the port and the rate that talk \(bringup console probe BENCH\)",
    ),
    faults.WRONG_PORT: (
        r"the console, the only way to the host, shows no prompt \(.*last seen: '\d+\.\d\d \d+\.\d\d'\)",
        r"nothing was restarted",
        r"next: find the port and the rate that talk \(bringup console probe BENCH\)",
    ),
    faults.SSH_DEAD: (
        rf"the operating system runs \(seen on the console\) and the host does not answer for {WAITED}: OutOfPOST, OSRunning",
        r"host: root@127\.0\.0\.1: no ssh connection",
        r"console: ip: can't find device 'enp0s2'",
        r"next: log in on the console: a network card that new bus numbers renamed",
    ),
}
"""What the first screen must say of each fault, in this order."""


@dataclass(frozen=True)
class Ran:
    """A run of the command: its exit status, what it printed with every break of a line as one blank, its cases and values."""

    status: int
    screen: str
    errors: str
    cases: list
    values: dict


def run(folder, *arguments, bench="virtual-r640"):
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--bench", bench, "--live", "--apply", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    lines = [json.loads(line) for line in (folder / "reports" / "latest" / "results.jsonl").read_text().splitlines()]
    values = {line["name"]: line["value"] for line in lines if line["kind"] == "measurement"}
    screen = " ".join(done.stdout.split())
    return Ran(done.returncode, screen, done.stderr, [line for line in lines if line["kind"] == "case"], values)


@pytest.mark.parametrize("bench", ["virtual-r640", "virtual-r640-ssh"])
def test_the_virtual_machine_passes_the_stages_it_has(needs_the_lab, tmp_path, bench):
    ran = run(tmp_path, bench=bench)
    assert ran.status == 0, ran.screen + ran.errors
    assert ran.screen.startswith(f"LIVE on the simulated machine of bench {bench} (source 'virtual-lab'): no hardware is touched.")
    assert "simulated machine (virtual lab, QEMU)" in ran.screen
    assert {case["stage"] for case in ran.cases} == {"bmc", "bios", "boot", "pcie"}
    assert sum(case["check"] == "pcie.enumerated" and case["outcome"] == "passed" for case in ran.cases) == 20
    # POST in its stages, each with its time, and together no longer than the whole
    stages = {name: value for name, value in ran.values.items() if name.startswith("boot.stage.")}
    assert "boot.stage.PrimaryProcessorInitializationStarted" in stages
    assert len(stages) >= 2
    assert 0 < sum(stages.values()) <= ran.values["boot.host-back"]


OWN = [fault for fault in qemu_catalogue() if fault not in pcie_faults.FAULTS]
"""Those of pcie_faults are shown in test_pcie_faults.py, which leaves the bios stage out."""


def test_every_fault_runs_here():
    assert set(SCREEN) == {fault.id for fault in OWN}


@pytest.mark.parametrize("fault", OWN, ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_its_check_first_and_the_first_screen_says_what_happened(needs_the_lab, tmp_path, fault):
    ran = run(tmp_path, "--fault", fault.id, bench="virtual-r640-ssh" if fault.id == faults.SSH_DEAD else "virtual-r640")
    failed = [case for case in ran.cases if case["outcome"] in ("failed", "error")]
    told = [(case["case"], case["message"][:200]) for case in failed[:3]]
    assert failed[0]["check"] == fault.caught_by, told
    assert {case["check"] for case in failed[1:]} - {fault.caught_by} <= set(fault.consequences), told
    assert {case["blame"] for case in failed} == {fault.blame.value}
    assert ran.status == EXIT[fault.blame], ran.screen + ran.errors
    verdict = {Blame.PRODUCT: "FAILED: the product's fault", Blame.BENCH: "BROKEN: the bench's fault"}[fault.blame]
    page = ran.screen[ran.screen.index(verdict) :]
    assert f"faults switched on: {fault.id}" in page
    assert re.search(".*?".join(SCREEN[fault.id]), page, re.DOTALL), page
    if fault.caught_by.startswith("boot."):
        assert any(case["outcome"] == "blocked" for case in ran.cases if case["stage"] == "pcie")
        assert not any(case["outcome"] == "passed" for case in ran.cases if case["stage"] == "pcie")


def test_dead_ssh_needs_a_bench_whose_host_is_reached_over_ssh(tmp_path):
    assert find([faults.SSH_DEAD], qemu_catalogue())
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--bench", "virtual-r640", "--live", "--fault", faults.SSH_DEAD],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "needs a host over ssh, and bench virtual-r640 has it on the console" in done.stderr
    assert not (tmp_path / "reports").exists()
