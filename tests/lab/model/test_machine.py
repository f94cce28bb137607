from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from harness.clock import VirtualClock
from harness.lab.idrac.queue import BIOS
from harness.lab.model.machine import Machine

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


class Watch:
    """Looks at a machine every few seconds and writes down each change of state."""

    def __init__(self, *faults: str) -> None:
        self.clock = VirtualClock()
        self.machine = Machine(self.clock, frozenset(faults))
        self.seen: list[tuple[float, str, str, str]] = []

    def until(self, seconds: float, every: float = 1.0) -> list[tuple[float, str, str, str]]:
        """Watch so long; only the changes."""
        self.seen = []
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            status = self.machine.status()
            state = (status.power, status.server, status.progress)
            if not self.seen or self.seen[-1][1:] != state:
                self.seen.append((self.clock.now(), *state))
            self.clock.sleep(every)
        self.machine.settle()
        return self.seen

    @property
    def ids(self) -> list[str]:
        """Message ids of the log since the start of the run."""
        return [entry.message_id for entry in self.machine.controller.log.entries if entry.at >= 0]

    def stage(self) -> str:
        """Make the wanted values pending with a job; its id."""
        self.machine.controller.bios.stage(WANTED)
        return self.machine.controller.schedule_bios_job().id


@pytest.fixture
def watch() -> Callable[..., Watch]:
    return Watch


def test_the_machine_runs_when_the_clock_starts(watch: Callable[..., Watch]) -> None:
    machine = watch().machine
    assert machine.os_is_up
    view = machine.view()
    assert (view.boot, view.bios["MmioAbove4Gb"], view.now) == (1, "Disabled", 0.0)


def test_a_restart_walks_through_post_in_nine_to_twelve_minutes(watch: Callable[..., Watch]) -> None:
    one = watch()
    first = one.machine.boot_id
    one.machine.reset("ForceRestart")
    seen = one.until(1000)
    assert [progress for _, _, _, progress in seen] == [
        "None",
        "PrimaryProcessorInitializationStarted",
        "MemoryInitializationStarted",
        "SecondaryProcessorInitializationStarted",
        "BusInitializationStarted",
        "PCIResourceConfigStarted",
        "SystemHardwareInitializationComplete",
        "OSBootStarted",
        "OSRunning",
    ]
    ended = next(at for at, _, server, _ in seen if server == "OutOfPOST")
    assert 9 * 60 <= ended <= 12 * 60
    lengths = {progress: after - at for (at, *_, progress), (after, *_) in pairwise(seen)}
    assert max(lengths, key=lambda name: lengths[name]) == "PCIResourceConfigStarted"
    assert one.machine.boots == 2
    assert one.machine.boot_id != first


def test_two_machines_boot_with_the_same_ids(watch: Callable[..., Watch]) -> None:
    one, other = watch(), watch()
    for each in (one, other):
        each.machine.reset("ForceRestart")
        each.until(1000, every=50)
    assert one.machine.boot_id == other.machine.boot_id


def test_looking_seldom_or_often_leaves_the_same_log(watch: Callable[..., Watch]) -> None:
    def history(every: float) -> list[tuple[float, str]]:
        one = watch()
        one.stage()
        one.machine.reset("ForceRestart")
        one.until(1500, every=every)
        return [(entry.at, entry.message_id) for entry in one.machine.controller.log.entries]

    assert history(1) == history(37) == history(750)


def test_a_bios_job_resets_once_more_and_takes_effect(watch: Callable[..., Watch]) -> None:
    one = watch()
    job = one.stage()
    one.machine.reset("ForceRestart")
    states = []
    for _ in range(1500):
        one.clock.sleep(1)
        one.machine.settle()
        found = one.machine.controller.jobs.find(job)
        assert found is not None
        if not states or states[-1] != found.state:
            states.append(found.state)
    assert states == ["Scheduled", "Running", "Completed"]
    assert one.ids.count("SYS1003") == 2
    assert one.ids.count("OSE1000") == 1
    view = one.machine.view()
    assert (view.boot, view.bios["MmioAbove4Gb"], view.bios["OsWatchdogTimer"]) == (2, "Enabled", "Disabled")
    assert one.machine.controller.bios.pending == {}


def test_new_values_show_before_the_job_is_over_and_stay_pending_so_long(watch: Callable[..., Watch]) -> None:
    one = watch()
    job = one.stage()
    one.machine.reset("ForceRestart")
    bios = one.machine.controller.bios
    while bios.current["MmioAbove4Gb"] != "Enabled":
        one.clock.sleep(1)
        one.machine.settle()
    found = one.machine.controller.jobs.find(job)
    assert found is not None
    assert found.state == "Running"
    assert bios.pending == WANTED


def test_post_complains_of_memory_space_only_while_64_bit_windows_are_off(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("ForceRestart")
    one.until(1000, every=20)
    assert "UEFI0134" in one.ids
    other = watch()
    other.stage()
    other.machine.reset("ForceRestart")
    other.until(1500, every=20)
    before = len(other.ids)
    other.machine.reset("ForceRestart")
    other.until(1000, every=20)
    assert "UEFI0134" not in other.ids[before:]


def test_a_forced_power_off_takes_effect_at_once_and_on_begins_post(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("ForceOff")
    assert one.machine.status().power == "Off"
    one.until(100)
    assert one.machine.status().server == "PoweredOff"
    one.machine.reset("On")
    assert one.machine.status().power == "PoweringOn"
    one.until(1000, every=10)
    assert one.machine.os_is_up


def test_a_graceful_shutdown_needs_an_operating_system(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("GracefulShutdown")
    assert one.machine.status().power == "On"
    one.until(30)
    assert one.machine.status().power == "Off"
    one.machine.reset("On")
    one.until(60)
    one.machine.reset("GracefulShutdown")
    one.until(60)
    assert one.machine.status().power == "On"
    assert one.ids.count("OSE0003") == 1


def test_a_graceful_restart_shuts_down_first(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("GracefulRestart")
    seen = one.until(60)
    assert seen[0][3] == "OSRunning"
    assert 24 <= seen[1][0] <= 27
    assert one.ids[:3] == ["RAC0705", "OSE0003", "SYS1003"]


def test_a_power_cycle_is_off_in_between(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("PowerCycle")
    powers = [power for _, power, _, _ in one.until(15)]
    assert powers == ["Off", "PoweringOn", "On"]


def test_the_power_button_turns_on_and_shuts_down(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("PushPowerButton")
    one.until(40)
    assert one.machine.status().power == "Off"
    one.machine.reset("PushPowerButton")
    one.until(10)
    assert one.machine.status().power == "On"


def test_an_nmi_is_only_printed(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.machine.reset("Nmi")
    one.until(10)
    assert one.machine.os_is_up
    assert b"NMI" in b"".join(emission.data for emission in one.machine.console)


def test_a_reset_that_does_nothing_does_so_only_without_a_job(watch: Callable[..., Watch]) -> None:
    one = watch("boot.new-boot")
    one.machine.reset("ForceRestart")
    assert one.until(1200, every=10) == [(0.0, "On", "OutOfPOST", "OSRunning")]
    assert one.ids == []
    one.stage()
    one.machine.reset("ForceRestart")
    one.until(1500, every=10)
    assert one.machine.boots == 2


@pytest.mark.parametrize(
    ("fault", "server", "progress", "message_id"),
    [
        ("boot.post-halt", "HaltedF1/F2Prompt", "SystemHardwareInitializationComplete", "PST0080"),
        ("boot.post-progress", "InPOST", "PCIResourceConfigStarted", None),
    ],
)
def test_a_post_that_stands_still(
    watch: Callable[..., Watch], fault: str, server: str, progress: str, message_id: str | None
) -> None:
    one = watch(fault)
    one.machine.reset("ForceRestart")
    one.until(3600, every=20)
    status = one.machine.status()
    assert (status.server, status.progress) == (server, progress)
    assert one.machine.boots == 1
    assert (message_id in one.ids) is (message_id is not None)


def test_a_loop_comes_back_to_the_same_place_for_ever_and_ends_with_power_off(watch: Callable[..., Watch]) -> None:
    one = watch("boot.loop")
    one.machine.reset("ForceRestart")
    one.until(3600, every=20)
    assert one.ids.count("UEFI0256") > 10
    assert one.machine.boots == 1
    one.machine.reset("ForceOff")
    one.until(600)
    assert one.machine.status().power == "Off"


@pytest.mark.parametrize(
    "fault", ["boot.new-boot", "boot.post-halt", "boot.post-progress", "boot.loop", "boot.events", "boot.host-reach"]
)
def test_boot_faults_leave_the_boot_of_a_bios_job_alone(watch: Callable[..., Watch], fault: str) -> None:
    one = watch(fault)
    one.stage()
    one.machine.reset("ForceRestart")
    one.until(1500, every=10)
    assert one.machine.os_is_up
    assert one.machine.is_reachable
    assert one.machine.view().bios["MmioAbove4Gb"] == "Enabled"
    assert "UEFI0080" not in one.ids


def test_a_restart_of_idrac_leaves_job_and_host_alone(watch: Callable[..., Watch]) -> None:
    one = watch("bmc.continuity")
    job = one.stage()
    one.machine.reset("ForceRestart")
    ups = set()
    for _ in range(1500):
        one.clock.sleep(1)
        one.machine.settle()
        ups.add(one.machine.controller.is_up)
    assert ups == {True, False}
    found = one.machine.controller.jobs.find(job)
    assert found is not None
    assert found.state == "Completed"
    assert one.ids.count("RAC0182") == 1
    assert one.machine.os_is_up


def test_a_job_may_reset_once_more_than_usual(watch: Callable[..., Watch]) -> None:
    one = watch("benign.extra-bios-reset")
    one.stage()
    one.machine.reset("ForceRestart")
    one.until(1800, every=10)
    assert one.ids.count("SYS1003") == 3
    assert one.machine.boots == 2
    assert one.machine.controller.jobs.open(BIOS) is None


def test_new_devices_are_told_of_each_gpu(watch: Callable[..., Watch]) -> None:
    one = watch("benign.pr7-events")
    one.machine.reset("ForceRestart")
    one.until(1000, every=10)
    assert one.ids.count("PR7") == 20


def test_a_value_that_was_not_set_is_the_only_one(watch: Callable[..., Watch]) -> None:
    one = watch("bios.readback")
    one.stage()
    one.machine.reset("ForceRestart")
    one.until(1500, every=10)
    view = one.machine.view()
    assert (view.bios["MmioAbove4Gb"], view.bios["OsWatchdogTimer"]) == ("Enabled", "Enabled")


def test_a_reset_of_an_unknown_kind_is_a_mistake_of_the_caller(watch: Callable[..., Watch]) -> None:
    with pytest.raises(KeyError):
        watch().machine.reset("GracefulDance")


def test_a_slow_link_is_told_of_and_the_boot_goes_on(watch: Callable[..., Watch]) -> None:
    one = watch("boot.events")
    one.machine.reset("ForceRestart")
    one.until(1000, every=10)
    assert one.ids.count("UEFI0080") == 1
    assert one.machine.os_is_up
