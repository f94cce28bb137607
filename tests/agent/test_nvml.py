"""The workers nvml and telemetry with the real nvidia-ml-py, on a fake libnvidia-ml.so.1."""

import pytest

from harness.devices.gpu import Level, PeerStatus, read_inventory, watch_gpus
from harness.devices.host import Host
from harness.errors import BenchError
from harness.limits import Outcome
from harness.platform import Gpu as GpuLimits
from harness.procedures.gpu import NOT_SUPPORTED, judge_alike, judge_counted, judge_ecc, judge_replays


class WithoutKernelLog(Host):
    """The kernel log of the machine that runs the test says nothing of the fake."""

    def kernel_log(self):
        return ()


@pytest.fixture
def inventory(machine):
    def read(shape="2x2", faults=""):
        host = machine(shape, faults).host()
        return read_inventory(WithoutKernelLog(host._asks, host.clock, python=host._python), watch=0.2)

    return read


def every(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def test_all_that_a_healthy_gpu_says_is_read(machine, inventory):
    found = inventory()
    assert (found.error, found.driver, found.cuda, found.count) == ("", "580.00", "13.0", 4)
    gpu = found.gpus[3]
    assert (gpu.address, gpu.device, gpu.subsystem) == (machine("2x2").address(3), "10de:1e78", "10de:13d8")
    assert (gpu.uuid, gpu.serial, gpu.name) == ("GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae03", "1320420000003", "Quadro RTX 8000")
    assert (gpu.vbios, gpu.memory, gpu.bar1) == ("90.02.30.00.05", 45556 << 20, 256 << 20)
    assert (gpu.ecc.current, gpu.ecc.pending, gpu.ecc.corrected, gpu.ecc.uncorrected) == (True, True, 0, 0)
    assert (gpu.ecc.retired_single, gpu.ecc.retired_double, gpu.ecc.retirement_pending) == (0, 0, False)
    assert (gpu.link.generation, gpu.link.width, gpu.link.max_generation, gpu.link.max_width) == (1, 16, 3, 16)
    assert (gpu.power, gpu.power_cap, gpu.temperature, gpu.persistence) == (28.1, 250.0, 31, True)
    assert gpu.reasons.names == ("gpu_idle",)
    assert gpu.replays.per_minute == 0
    assert gpu.replays.seconds >= 0.2


def test_a_card_that_retires_pages_has_no_row_remapping_and_that_is_no_zero(inventory):
    gpu = inventory("1x1").gpus[0]
    assert dict(gpu.unread) == {"remapped_rows": NOT_SUPPORTED}
    assert (gpu.ecc.remapped_uncorrected, gpu.ecc.remapping_pending) == (None, None)


def test_what_the_driver_does_not_support_is_recorded_as_such_and_never_as_zero(machine):
    gpus = every(machine("1x2", "unsupported:1").lines("nvml", "--watch", "0"), "gpu")
    missing = {"serial", "bar1", "corrected", "uncorrected", "retired_single", "retired_double", "retirement_pending", "reasons"}
    missing |= {"power", "power_cap", "persistence"}
    assert not missing & set(gpus[1])
    assert {gpus[1]["unread"][name] for name in missing} == {NOT_SUPPORTED}
    assert missing <= set(gpus[0])


def test_a_gpu_that_cannot_be_opened_is_a_finding_and_the_others_go_on(machine, inventory):
    found = inventory("2x2", "nocard:1")
    assert [gpu.error for gpu in found.gpus] == ["", "GPU is lost", "", ""]
    address = machine("2x2").address(1)
    finding = judge_counted("slot01", address, found.at(address), found)
    assert finding.measurements[0].outcome is Outcome.FAIL
    assert f"slot01 at {address} is bound to the driver, but is not among the 3 GPUs that NVML opens" in finding.explanation


def test_a_gpu_that_is_lost_between_two_calls_keeps_no_half_read_fields(machine):
    lost = every(machine("1x3", "lost:2").lines("nvml", "--watch", "0"), "gpu")[2]
    assert lost == {"kind": "gpu", "index": 2, "error": "GPU is lost"}


def test_peers_come_with_read_write_atomics_and_distance(inventory):
    found = inventory("2x2", "nopeer:0>3")
    assert found.peers[0, 3].read is PeerStatus.CHIPSET_NOT_SUPPORTED
    near, far = found.peers[0, 1], found.peers[1, 3]
    assert (near.read, near.write, near.atomics, near.level) == (PeerStatus.OK, PeerStatus.OK, PeerStatus.NOT_SUPPORTED, Level.PIX)
    assert far.level is Level.PHB


def test_processes_are_named(inventory):
    (process,) = inventory("1x2", "held:1>5").processes
    assert (process.index, process.pid, process.name, process.kind, process.memory) == (1, 2117, "Xorg", "graphics", 41 << 20)


def test_a_page_that_waits_for_its_retirement_fails_with_the_serial_number(inventory):
    gpu = inventory("1x2", "retiring:1").gpus[1]
    finding = judge_ecc("slot02", gpu, GpuLimits())
    assert Outcome.FAIL in {taken.outcome for taken in finding.measurements}
    assert "slot02 (serial 1320420000001): errors since the driver was loaded: 1 uncorrected" in finding.explanation
    assert "a page waits for its retirement" in finding.explanation


def test_a_link_that_replays_all_the_time_fails(inventory):
    gpu = inventory("1x2", "replaying:1").gpus[1]
    finding = judge_replays("slot02", gpu, GpuLimits())
    assert gpu.replays.later - gpu.replays.first == 80
    assert finding.measurements[0].outcome is Outcome.FAIL
    assert "Reseat the card" in finding.explanation


def test_another_vbios_is_named_against_its_fellows(inventory):
    fellows = {f"slot{gpu.index}": gpu for gpu in inventory("1x4", "vbios:2").gpus}
    finding = judge_alike("slot2", fellows["slot2"], fellows)
    assert finding.explanation == "slot2 has VBIOS 90.02.17.00.02; 3 of 4 have 90.02.30.00.05"


@pytest.mark.parametrize(
    ("fault", "why", "do"),
    [
        ("nodriver:0", "Driver Not Loaded", "load the nvidia module"),
        ("mismatch:0", "RM has detected an NVML/RM version mismatch.", "reboot, or reload the nvidia modules"),
    ],
)
@pytest.mark.parametrize("worker", ["nvml", "telemetry"])
def test_a_driver_that_does_not_answer_is_an_error_object_that_says_what_to_do(machine, worker, fault, why, do):
    *_, error = machine("1x1", fault).lines(worker)
    assert (error["kind"], error["what"], error["why"]) == ("error", "NVML", why)
    assert error["do"].startswith(do)


def test_without_the_drivers_library_the_error_says_what_to_install(machine, tmp_path):
    made = machine("1x1")
    made.environment["LD_LIBRARY_PATH"] = str(tmp_path)
    *_, error = made.lines("nvml")
    assert error["why"] == "NVML Shared Library Not Found"
    assert "libnvidia-ml.so.1" in error["do"]
    with pytest.raises(BenchError, match="NVML Shared Library Not Found"):
        watch_gpus(made.host(), seconds=0.1)


def test_telemetry_samples_every_gpu_at_every_interval(machine):
    samples = watch_gpus(machine("1x3").host(), seconds=0.3, every=0.1)
    assert [sample.index for sample in samples] == [0, 1, 2] * 3
    assert {(sample.power, sample.temperature, sample.reasons.names) for sample in samples} == {(28.1, 31, ("gpu_idle",))}
    assert samples[-1].at >= 0.2


def test_telemetry_of_a_card_without_power_reading_says_so(machine):
    sample = every(machine("1x1", "unsupported:0").lines("telemetry", "--seconds", "0.1"), "sample")[0]
    assert "power" not in sample
    assert sample["unread"] == {"reasons": NOT_SUPPORTED, "power": NOT_SUPPORTED}
