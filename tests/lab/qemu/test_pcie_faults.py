"""PCIe faults that firmware and kernel meet themselves: caught first by the check they name, live and replayed from tapes.

The live runs leave the bios stage out: the machine starts as bringing it up leaves it, which saves a start.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import locator
from harness.lab.catalogue import qemu_catalogue
from harness.lab.qemu import faults, pcie_faults
from harness.lab.qemu.pcie_faults import ADDED, BUSES, ERRORS, FAULTS, IO, PULLED, SHALLOW, SLOT, is_time, rig
from harness.tape.header import read_info

KNOWN = {fault.id: fault for fault in qemu_catalogue()}
TAPES = locator.shipped() / "fixtures" / "tapes"
ALL = tuple(f"slot{number:02d}" for number in range(1, 21))
EIGHT = ("slot08",)


@dataclass(frozen=True)
class Told:
    """Of one fault: its tape, the slots that the first failing check fails, and patterns of the first screen, in order."""

    tape: str
    slots: tuple[str, ...]
    screen: tuple[str, ...]


TOLD = {
    pcie_faults.SHALLOW: Told(
        "virtual-r640-window-32bit",
        ALL,
        (
            r"slot01 is lost at its 32-bit BARs",
            r"> enumerated 20 > BARs assigned 0 >",
            r"seen pci 0000:\S+ BAR 0 \[mem \S+ 64bit\]: (?:can't assign; no space|failed to assign)",
            r"likely addresses that .* in the 32-bit space of pci0000:00 are held by reserved \[mem 0xc1000000-0xfebfffff\]"
            r": 20 such parts take 1 MiB each",
            r"next find who holds them",
        ),
    ),
    pcie_faults.BUSES: Told(
        "virtual-r640-bus-numbers",
        ALL[13:],
        (
            r"slot14 is lost at the bus numbers",
            r"> buses assigned 13 > enumerated 13 >",
            r"seen pci 0000:02:0d\.0: devices behind bridge are unusable because \[bus 10\] cannot be assigned for them",
            r"likely the bus numbers of pci0000:00 \(16 numbers, 00-0f\) are used up",
            r"next move the HBA to a stack with more numbers",
        ),
    ),
    pcie_faults.PULLED: Told(
        "virtual-r640-pulled",
        EIGHT,
        (
            r"slot08 is lost at its link",
            r"> links up 19 >",
            r"seen pcieport 0000:02:07\.0: pciehp: Slot\(8\): Powering off due to button press",
            r"likely the part left while the machine ran",
            r"next ask who detached it",
        ),
    ),
    pcie_faults.ADDED: Told(
        "virtual-r640-added",
        ALL,
        (
            r"slot01 is lost at its 64-bit BARs",
            r"> enumerated 20 > BARs assigned 0 >",
            r"seen pcieport 0000:02:00\.0: resource 15 \[mem 0x[0-9a-f]+-0x[0-9a-f]+ 64bit pref\] released",
            r"to make room for a part that was plugged in later \(pcieport 0000:02:07\.0: pciehp: Slot\(8\): Link Up\)",
            r"next cold-start the host",
        ),
    ),
    pcie_faults.ERRORS: Told(
        "virtual-r640-corrected-errors",
        EIGHT,
        (
            r"pcie\.ports-with-link-errors",
            r"links to slot08 had errors that were corrected",
            r"seen 0000:02:07\.0 CESta RxErr\+ BadTLP\+, the kernel counted 0",
            r"why the kernel's counters stay at zero",
            r"likely a connector, a cable or a retimer",
        ),
    ),
    pcie_faults.IO: Told("virtual-r640-io-exhausted", (), (r"PASSED",)),
    faults.WINDOW: Told(
        "virtual-r640-window-64bit",
        ALL[:18],
        (
            r"slot01 is lost at its 64-bit BARs",
            r"> enumerated 20 > BARs assigned 2 >",
            r"seen pci 0000:\S+ BAR 4 \[mem .*(?:no space|failed to assign)",
            r"likely the 64-bit memory window of 32768 MiB of pci0000:00 is used up: 20 such parts take 16384 MiB each",
        ),
    ),
    faults.ABSENT: Told(
        "virtual-r640-absent", EIGHT, (r"slot08 is lost at its link", r"the port does not report whether its link")
    ),
}


@dataclass(frozen=True)
class Ran:
    """A run of the command: exit status, what it printed with every break of a line as one blank, its cases."""

    status: int
    screen: str
    errors: str
    cases: list[dict[str, object]]


def run(folder: Path, *arguments: str) -> Ran:
    """One run of stages boot and pcie on the virtual machine's bench."""
    program = [sys.executable, "-m", "harness", "run", "--bench", "virtual-r640", *arguments]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=550, check=False)
    record = folder / "reports" / "latest" / "results.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    cases = [line for line in lines if line["kind"] == "case"]
    return Ran(done.returncode, " ".join(done.stdout.split()), done.stderr, cases)


def check(ran: Ran, fault: str, known) -> None:
    """Assert everything that is to be told of ``fault``, which the catalogue entry ``known`` describes."""
    told = TOLD[fault]
    failed = [case for case in ran.cases if case["outcome"] in ("failed", "error")]
    if known.is_benign:
        assert (ran.status, failed) == (0, []), ran.screen + ran.errors
    else:
        assert ran.status == 1, ran.screen + ran.errors
        assert {case["check"] for case in failed} == {known.caught_by}
        assert tuple(case["case"] for case in failed) == tuple(f"{known.caught_by}[{slot}]" for slot in told.slots)
        assert {case["blame"] for case in failed} == {"product"}
    assert f"faults switched on: {fault}" in ran.screen
    assert re.search(".*?".join(told.screen), ran.screen, re.DOTALL), ran.screen


def test_every_pcie_fault_is_told_and_has_a_tape():
    assert set(TOLD) == {fault.id for fault in FAULTS} | {faults.WINDOW, faults.ABSENT}
    for fault, told in TOLD.items():
        info = read_info(TAPES / told.tape)
        assert (info.source, info.faults, info.bench) == ("virtual-lab", (fault,), "virtual-r640")


def test_a_healthy_machine_is_rigged_with_nothing():
    assert rig(frozenset()) == rig(frozenset({faults.WINDOW})) == pcie_faults.Rig()


def test_faults_together_are_rigged_with_all_that_each_needs():
    both = rig(frozenset({BUSES, ERRORS, ADDED}))
    assert both.kernel == ("pci=assign-busses", "pci=noaer")
    assert both.empty == {SLOT}
    assert [deed.name for deed in both.deeds] == ["device_add", "human-monitor-command", "human-monitor-command"]


@pytest.mark.parametrize(("fault", "deed"), [(PULLED, "device_del"), (ADDED, "device_add"), (ERRORS, "human-monitor-command")])
def test_what_happens_while_it_runs_waits_for_the_first_process(fault, deed):
    assert {each.name for each in rig(frozenset({fault})).deeds} == {deed}
    assert not is_time(b"[    2.0] Freeing unused kernel image (initmem) memory: 2060K\r\n")
    assert is_time(b"[    2.1] Run /init as init process\r\n")


@pytest.mark.parametrize("fault", [SHALLOW, BUSES, IO])
def test_what_the_start_meets_needs_no_deed(fault):
    assert rig(frozenset({fault})).deeds == ()


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=() if fault == BUSES else pytest.mark.slow) for fault in TOLD])
def test_the_tape_of_a_fault_replays_to_the_same_first_failing_check(tmp_path, fault):
    ran = run(tmp_path, "--replay", "--tapes", str(TAPES / TOLD[fault].tape))
    assert ran.screen.startswith("REPLAY of bench virtual-r640: no machine is touched. The recording's source is 'virtual-lab'")
    check(ran, fault, KNOWN[fault])


def test_all_these_tapes_together_are_small():
    sizes = [file.stat().st_size for told in TOLD.values() for file in (TAPES / told.tape).rglob("*") if file.is_file()]
    assert sum(sizes) < 3_000_000


@pytest.mark.qemu
@pytest.mark.socket
@pytest.mark.parametrize("fault", [fault.id for fault in FAULTS])
def test_a_fault_is_caught_by_its_check_first_on_a_real_kernel(needs_the_lab, tmp_path, fault):
    ran = run(tmp_path, "--live", "--apply", "--stage", "boot", "--stage", "pcie", "--fault", fault)
    assert ran.screen.startswith("LIVE on the simulated machine of bench virtual-r640"), ran.errors
    check(ran, fault, KNOWN[fault])
    header = (tmp_path / "reports" / "latest" / "tape" / "tape.toml").read_text()
    assert f"faults = {json.dumps([fault])}" in header
