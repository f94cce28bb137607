"""DMTF's command lines at work on the simulated iDRAC."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.lab.idrac.profile import OLD, PROFILES

pytestmark = [
    pytest.mark.socket,
    pytest.mark.skipif(
        not (Path(sys.executable).parent / "rf_bios_settings.py").exists(), reason="redfish_utilities is not installed"
    ),
]


def test_bios_settings_shows_current_and_pending_values(serve_idrac):
    bmc = serve_idrac()
    done = bmc.run("rf_bios_settings.py")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "MmioAbove4Gb" in line)
    assert row.split("|")[1].strip() == "Disabled"
    assert bmc.machine.controller.sessions.open == ()


def test_a_value_set_by_bios_settings_is_pending_for_ever_because_it_makes_no_job(serve_idrac):
    bmc = serve_idrac()
    done = bmc.run("rf_bios_settings.py", "-a", "MemTest", "Enabled")
    assert done.returncode == 0, done.stderr
    assert bmc.machine.controller.bios.pending == {"MemTest": "Enabled"}
    assert bmc.machine.controller.jobs.jobs == ()


def test_power_reset_tells_what_is_offered_and_restarts(serve_idrac):
    bmc = serve_idrac(OLD)
    shown = bmc.run("rf_power_reset.py", "-i")
    assert "GracefulRestart" in shown.stdout
    assert "ForceRestart" not in shown.stdout
    done = bmc.run("rf_power_reset.py", "-t", "GracefulRestart")
    assert done.returncode == 0, done.stderr
    WallClock().until(lambda: bmc.boots, lambda boots: boots > 1, what="a boot", every=0.2, within=30)


@pytest.mark.parametrize("profile", [pytest.param(profile, id=profile.name) for profile in (PROFILES[1], PROFILES[3])])
def test_the_inventory_names_the_machine_and_its_host_adapters(serve_idrac, profile):
    done = serve_idrac(profile).run("rf_sys_inventory.py", "-d")
    assert done.returncode == 0, done.stderr
    assert profile.system in done.stdout
    assert "Host adapter in PCIe Slot 1" in done.stdout


def test_the_log_of_the_lifecycle_controller_is_read(serve_idrac):
    done = serve_idrac().run("rf_logs.py", "-m")
    assert done.returncode == 0, done.stderr
    assert "Not enough MMIO space" in done.stdout


def test_the_firmware_inventory_is_read(serve_idrac):
    done = serve_idrac(PROFILES[2]).run("rf_firmware_inventory.py")
    assert done.returncode == 0, done.stderr
    assert "7.10.30.00" in done.stdout
    assert "1.13.2" in done.stdout
