"""What is wrong is really wrong: firmware and kernel say so themselves. What the suites say of it is in test_run.py."""

from __future__ import annotations

import pytest

from harness import locator
from harness.devices.pcie import parse_snapshot
from harness.lab.qemu.faults import FAULTS, HALT, KERNEL, PANIC, WINDOW
from harness.procedures.chain import trace

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


def lost_by(bench):
    """Slot by slot, the link of the chain that lost it; and the kernel's log."""
    bench.follow("OSRunning")
    bench.terminal.log_in()
    platform, _ = locator.find_platform("virtual-r640")
    log = bench.terminal.run("dmesg")
    chain = trace(parse_snapshot(bench.terminal.agent("pci"), log.splitlines()), platform, platform.slots)
    return {loss.place: f"pcie.{loss.link.value}" for loss in chain.losses}, log, chain


def refused(log):
    """The BARs of 16 GiB that the kernel itself says it has no space for."""
    return {line.split("pci ")[1].split(":")[1] for line in log.splitlines() if "BAR 4" in line and "no space" in line}


def test_as_delivered_the_window_is_small_and_the_kernel_says_whose_bars_are_lost(open_bench):
    """MmioAbove4Gb is off."""
    with open_bench() as bench:
        bench.reset("On")
        bench.follow("OSRunning")
        bench.terminal.log_in()
        assert len(refused(bench.terminal.run("dmesg"))) == 18


def test_a_window_that_is_too_small_loses_bars_and_each_loss_quotes_the_kernel(open_bench):
    with open_bench(WINDOW) as bench:
        bench.stage(MmioAbove4Gb="Enabled")
        bench.reset("On")
        lost, log, chain = lost_by(bench)
    assert set(lost.values()) == {next(known for known in FAULTS if known.id == WINDOW).caught_by}
    assert len(lost) == len(refused(log)) == 18
    for loss in chain.losses:
        address = f"0000:{int(loss.place[-2:]) + 2:02x}:00.0"  # firmware numbers the buses in the order of the ports
        assert loss.evidence in log
        assert f"{address}: BAR" in loss.evidence


def test_a_firmware_without_anything_to_boot_halts(open_bench):
    with open_bench(HALT) as bench:
        bench.reset("On")
        bench.clock.until(
            lambda: bench.machine.status().server, lambda state: state == "HaltedF1/F2Prompt", what="a halt", every=0.2, within=60
        )
        assert bench.state() == ("On", "SystemHardwareInitializationComplete")
        assert b"Shell> " in bench.terminal.expect(rb"Shell> ")


def test_a_kernel_that_panics_says_so_and_never_comes_up(open_bench):
    with open_bench(PANIC) as bench:
        bench.reset("On")
        bench.terminal.expect(rb"Kernel panic - not syncing")
        assert bench.state() == ("On", "OSBootStarted")
        bench.clock.sleep(3)
        assert bench.state() == ("On", "OSBootStarted")


def test_a_bad_kernel_is_started_and_then_not_a_word(open_bench):
    with open_bench(KERNEL) as bench:
        bench.reset("On")
        bench.terminal.expect(rb"EFI stub: .*\r\n")
        bench.clock.sleep(6)
        assert bench.state() == ("On", "OSBootStarted")
        rest = bench.terminal.port.read(65536)
        assert b"Linux version" not in rest
