"""A healthy machine: from switched off, through a BIOS job, to twenty endpoints; then the ways of power."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import serial

from harness import locator
from harness.devices.pcie import Snapshot, parse_snapshot
from harness.lab.idrac import names
from harness.procedures.chain import trace

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


@dataclass
class Story:
    """What one bring-up left."""

    bench: object
    before: tuple[str, str]
    stages: list[str]
    job: dict[str, object]
    took: float
    snapshot: Snapshot
    listed: str
    boot_id: str


@pytest.fixture(scope="module")
def story(open_bench) -> Iterator[Story]:
    with open_bench() as bench:
        before = bench.state()
        job = bench.stage(MmioAbove4Gb="Enabled", OsWatchdogTimer="Disabled")
        began = bench.clock.now()
        bench.reset("On")
        stages = bench.follow("OSRunning")
        took = bench.clock.now() - began
        bench.terminal.log_in()
        snapshot = parse_snapshot(bench.terminal.agent("pci"), bench.terminal.run("dmesg").splitlines())
        listed = bench.terminal.run("lspci -n")
        boot_id = bench.terminal.run("cat /proc/sys/kernel/random/boot_id").strip()
        yield Story(bench, before, stages, bench.get(job), took, snapshot, listed, boot_id)


def test_the_machine_comes_up_from_switched_off(story):
    assert story.before == ("Off", "None")
    wanted = ["PrimaryProcessorInitializationStarted", "OSBootStarted", "OSRunning"]
    assert [stage for stage in story.stages if stage in wanted] == wanted
    assert story.took < 60


def test_the_bios_job_is_done_in_post_and_the_settings_are_in_effect(story):
    assert story.job["JobState"] == "Completed"
    attributes = story.bench.get(names.BIOS)["Attributes"]
    assert (attributes["MmioAbove4Gb"], attributes["OsWatchdogTimer"]) == ("Enabled", "Disabled")
    assert story.bench.get(names.SETTINGS)["Attributes"] == {}


def test_the_root_says_that_it_is_a_virtual_lab(story):
    assert story.bench.get(names.ROOT)["Oem"]["BringupHarness"] == {"Simulated": "virtual-lab"}


def test_the_agent_sees_twenty_endpoints_where_the_platform_expects_them(story):
    platform, _ = locator.find_platform("virtual-r640")
    assert len(platform.slots) == 20
    chain = trace(story.snapshot, platform, platform.slots)
    assert chain.losses == ()
    for slot in platform.slots:
        function = story.snapshot.at(slot.path)
        assert function is not None
        assert (function.id, function.subsystem, function.kind) == ("1b36:0010", "1af4:1100", "0108")
        assert [function.bar(index).size for index in (0, 4)] == [16 << 10, 16 << 30]


def test_the_agent_and_lspci_list_the_same_functions(story):
    listed = {
        f"0000:{bdf}": (kind, ids) for bdf, kind, ids in re.findall(r"^(\S+) (\w{4}): (\w{4}:\w{4})", story.listed, re.MULTILINE)
    }
    assert len(listed) == 47
    assert {function.bdf: (function.kind, function.id) for function in story.snapshot.functions} == listed


def test_the_console_carries_firmware_kernel_and_login_without_a_lost_byte(story):
    heard = story.bench.terminal.heard.decode()
    assert "EFI stub" in heard
    assert re.search(r"^\[    0\.000000\] Linux version \d", heard, re.MULTILINE)
    assert "virtual-r640 login: " in heard
    # the kernel prints the firmware's memory map as the very first thing, in a burst that overran a line before
    maps = re.findall(r"BIOS-e820: \[mem (.*)\r", heard)
    assert len(maps) > 10
    assert all(re.fullmatch(r"0x[0-9a-f]{16}-0x[0-9a-f]{16}\] (usable|reserved|ACPI NVS|ACPI data)", line) for line in maps)


def test_a_second_client_of_the_console_is_hung_up_on(story):
    with pytest.raises(serial.SerialException), serial.serial_for_url(story.bench.reached.console_url, timeout=2) as second:
        second.read(1)


def test_ten_thousand_lines_of_output_arrive_whole(story):
    output = story.bench.terminal.run("seq 1 10000")
    assert output.split() == [str(number) for number in range(1, 10001)]


def test_restarting_shutting_down_and_cutting_off(story):
    """One after the other, because each needs the machine as the one before leaves it."""
    bench = story.bench
    log = f"{names.LOG}/Entries"
    bench.terminal.type("reboot\n")
    bench.follow("PrimaryProcessorInitializationStarted", within=20)
    bench.follow("OSRunning")
    bench.terminal.log_in()
    assert bench.terminal.run("cat /proc/sys/kernel/random/boot_id").strip() != story.boot_id

    bench.reset("GracefulShutdown")
    bench.follow("Off", within=20)
    bench.terminal.expect(rb"reboot: Power down")
    assert bench.machine.pid is None
    newest = [entry["MessageId"].rpartition(".")[2] for entry in bench.get(log)["Members"]]
    assert newest.index("SYS1001") < newest.index("OSE0003") < newest.index("RAC0705")

    bench.reset("On")
    assert bench.state()[0] == "On"
    bench.reset("ForceOff")
    assert bench.state() == ("Off", "None")
    assert bench.machine.pid is None
