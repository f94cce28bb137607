import json
from types import SimpleNamespace

import pytest

from harness.clock import VirtualClock
from harness.devices.fields import normal_address
from harness.devices.gpu import Level, PeerStatus, Reason, join, read_inventory, share_of_reasons, watch_gpus
from harness.devices.host import Host
from harness.errors import BenchError, Blame, BringupError, CommandFailed
from harness.ports import CommandAnswer

HELLO = {"kind": "hello", "worker": "nvml", "schema": 1, "python": "3.6.8"}
SYSTEM = {"kind": "system", "driver": "535.183.01", "nvml": "12.535.183.01", "cuda": "12.2", "count": 1}
GPU = {
    "kind": "gpu", "index": 0, "address": "00000000:3F:00.0", "device": "10de:1e78", "subsystem": "10de:13d8", "uuid": "GPU-1",
    "serial": "123", "name": "Quadro RTX 8000", "vbios": "90.02", "memory": 47768928256, "bar1": 268435456, "ecc": True,
    "ecc_pending": False, "corrected": 2, "uncorrected": 0, "retired_single": 1, "retired_double": 0, "retirement_pending": False,
    "generation": 1, "width": 16, "max_generation": 3, "max_width": 16, "replays": 150, "replays_later": 154,
    "replay_seconds": 30.0, "reasons": 5, "power": 28.1, "power_cap": 250.0, "temperature": 31, "persistence": True, "unread": {},
}  # fmt: skip


class Lane:
    """The worker's lines, and a kernel log."""

    def __init__(self, objects, log="", log_status=0):
        self.objects = [*objects, {"kind": "end", "lines": len(objects)}]
        self.log, self.log_status = log, log_status
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question.key)
        if question.key == "dmesg":
            return CommandAnswer(self.log_status, self.log, "Operation not permitted", 0.0, 0.0)
        for line in self.objects:
            if on_line is not None:
                on_line(json.dumps(line), 0.0)
        return CommandAnswer(0, "".join(f"{json.dumps(line)}\n" for line in self.objects), "", 0.0, 0.0)

    def close(self):
        pass


def read(*objects, **log):
    return read_inventory(Host(Lane(objects, **log), VirtualClock()))


def without(*names):
    return {name: value for name, value in GPU.items() if name not in names}


def test_every_field_of_a_gpu_is_read():
    inventory = read(HELLO, SYSTEM, GPU)
    (gpu,) = inventory.gpus
    assert (inventory.error, inventory.driver, inventory.nvml, inventory.cuda, inventory.count) == (
        "", "535.183.01", "12.535.183.01", "12.2", 1,
    )  # fmt: skip
    assert (gpu.index, gpu.address, gpu.uuid, gpu.serial) == (0, "0000:3f:00.0", "GPU-1", "123")
    assert (gpu.device, gpu.subsystem, gpu.name, gpu.vbios) == ("10de:1e78", "10de:13d8", "Quadro RTX 8000", "90.02")
    assert (gpu.memory, gpu.bar1, gpu.power, gpu.power_cap, gpu.temperature, gpu.persistence) == (
        47768928256, 268435456, 28.1, 250.0, 31, True,
    )  # fmt: skip
    ecc = gpu.ecc
    assert (ecc.current, ecc.pending, ecc.corrected, ecc.uncorrected) == (True, False, 2, 0)
    assert (ecc.retired_single, ecc.retired_double, ecc.retirement_pending) == (1, 0, False)
    assert (gpu.link.generation, gpu.link.width, gpu.link.max_generation, gpu.link.max_width) == (1, 16, 3, 16)
    assert (gpu.replays.first, gpu.replays.later, gpu.replays.per_minute) == (150, 154, 8.0)
    assert gpu.reasons == Reason.GPU_IDLE | Reason.SW_POWER_CAP
    assert gpu.reasons.names == ("gpu_idle", "sw_power_cap")


def test_the_counters_are_watched_for_as_long_as_asked():
    lane = Lane([HELLO, SYSTEM])
    read_inventory(Host(lane, VirtualClock()), watch=60)
    assert lane.asked == ["agent nvml --watch 60", "dmesg"]


def test_a_field_that_is_not_supported_is_none_and_never_zero():
    line = without("corrected", "serial", "power") | {"unread": {"corrected": "Not Supported", "serial": "Not Supported"}}
    (gpu,) = read(HELLO, SYSTEM, line).gpus
    assert gpu.ecc.corrected is None
    assert gpu.ecc.uncorrected == 0
    assert (gpu.serial, gpu.power) == ("", None)
    assert gpu.why_unread("corrected") == "Not Supported"
    assert gpu.why_unread("power") == "the worker did not read it"


def test_a_replay_counter_that_went_backwards_has_no_rate():
    (gpu,) = read(HELLO, SYSTEM, GPU | {"replays": 9, "replays_later": 2}).gpus
    assert gpu.replays.per_minute is None


@pytest.mark.parametrize("why", ["Driver Not Loaded", "Driver/library version mismatch", "Library Not Found"])
def test_a_driver_that_does_not_work_is_the_inventorys_error(why):
    inventory = read(HELLO, {"kind": "error", "what": "NVML", "why": why, "do": "see the kernel log"})
    assert inventory.error == f"NVML: {why}; see the kernel log"
    assert inventory.gpus == ()


def test_a_worker_that_could_not_be_loaded_is_the_inventorys_error_too():
    inventory = read({"kind": "error", "what": "worker nvml", "why": "it cannot be loaded here: No module named 'pynvml'"})
    assert inventory.error == "worker nvml: it cannot be loaded here: No module named 'pynvml'"


@pytest.mark.parametrize("error", ["Unknown Error", "GPU is lost", "Insufficient External Power"])
def test_a_gpu_that_cannot_be_opened_is_listed_with_its_error(error):
    inventory = read(HELLO, SYSTEM, GPU, {"kind": "gpu", "index": 1, "error": error, "address": "0000:40:00.0"})
    assert [gpu.error for gpu in inventory.gpus] == ["", error]
    assert inventory.at("0000:40:00.0").memory is None
    assert str(inventory.gpus[1]) == "GPU 1 at 0000:40:00.0"


def test_the_peer_matrix_is_read_by_ordered_pair_and_unknown_codes_stay_unknown():
    inventory = read(
        HELLO, SYSTEM,
        {"kind": "peers", "index": 0, "read": [None, 0], "write": [None, 4], "level": [None, 10]},
        {"kind": "peers", "index": 1, "read": [9, None], "write": [None, None], "level": [99, None]},
    )  # fmt: skip
    there, back = inventory.peers[0, 1], inventory.peers[1, 0]
    assert (there.read, there.write, there.level) == (PeerStatus.OK, PeerStatus.DISABLED_BY_REGKEY, Level.PIX)
    assert (back.read, back.write, back.level) == (PeerStatus.UNKNOWN, None, None)
    assert (0, 0) not in inventory.peers


def test_processes_are_read():
    (process,) = read(HELLO, SYSTEM, {"kind": "process", "index": 3, "pid": 2117, "name": "Xorg", "type": "graphics"}).processes
    assert (process.index, process.pid, process.name, process.kind, process.memory) == (3, 2117, "Xorg", "graphics", None)


def test_only_what_the_kernel_says_of_gpu_drivers_is_kept_and_found_by_address():
    log = (
        "[ 1.0] pci 0000:3f:00.0: BAR 1: assigned\n"
        "[ 9.6] NVRM: GPU 0000:3F:00.0: RmInitAdapter failed! (0x22:0x56:894)\n"
        "[ 9.7] nouveau 0000:40:00.0: NVIDIA TU102\n"
        "[ 9.8] Lockdown: modprobe: unsigned module loading is restricted\n"
    )
    inventory = read(HELLO, SYSTEM, log=log)
    assert len(inventory.kernel) == 3
    assert inventory.said_of("0000:3f:00.0") == ("[ 9.6] NVRM: GPU 0000:3F:00.0: RmInitAdapter failed! (0x22:0x56:894)",)


def test_a_kernel_log_that_may_not_be_read_is_said_so():
    inventory = read(HELLO, SYSTEM, GPU, log_status=1)
    assert inventory.kernel == ()
    assert "exit status 1" in inventory.kernel_error


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([], "the first line"),
        ([HELLO | {"schema": 2}], "got schema 2 of worker 'nvml', this harness reads schema 1"),
        ([HELLO | {"worker": "p2p"}], "of worker 'p2p'"),
        ([HELLO, {"kind": "gpu", "uuid": "GPU-1"}], "no field 'index'"),
        ([HELLO, GPU | {"memory": "48 GB"}], "field 'memory' is '48 GB'"),
        ([HELLO, GPU | {"index": True}], "field 'index' is True"),
    ],
)
def test_lines_that_cannot_be_meant_are_the_harness_s_fault(objects, said):
    with pytest.raises(BringupError, match=said) as raised:
        read(*objects)
    assert raised.value.blame is Blame.HARNESS


def test_gpus_are_joined_to_slots_by_the_address_of_the_slots_function():
    inventory = read(HELLO, SYSTEM, GPU, GPU | {"index": 1, "address": "0000:40:00.0"})
    functions = {
        "a": SimpleNamespace(bdf="0000:40:00.0"),
        "b": SimpleNamespace(bdf="0000:3f:00.0"),
        "c": SimpleNamespace(bdf="0000:41:00.0"),
    }
    slots = [SimpleNamespace(name=f"slot-{path}", path=path) for path in "abcd"]
    joined = join(inventory, SimpleNamespace(at=functions.get), slots)
    assert {name: gpu.index for name, gpu in joined.items()} == {"slot-a": 1, "slot-b": 0}


@pytest.mark.parametrize(
    ("given", "normal"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("0000:3b:00.0", "0000:3b:00.0"), ("00010000:01:00.0", "10000:01:00.0")],
)
def test_addresses_are_written_as_sysfs_does(given, normal):
    assert normal_address(given) == normal


def test_telemetry_gives_the_share_of_time_of_each_reason():
    hello = {"kind": "hello", "worker": "telemetry", "schema": 1}
    sample = {"kind": "sample", "at": 0.0, "index": 0, "reasons": 1, "power": 30.5, "temperature": 40}
    lane = Lane(
        [
            hello,
            sample,
            sample | {"at": 0.2, "reasons": 4},
            sample | {"at": 0.4, "reasons": 4},
            {"kind": "sample", "at": 0.4, "index": 1},
        ]
    )
    seen = []
    samples = watch_gpus(Host(lane, VirtualClock()), seconds=1, on_line=lambda line, at: seen.append(line))
    assert lane.asked == ["agent telemetry --seconds 1 --every 0.2"]
    assert (samples[0].power, samples[0].temperature) == (30.5, 40)
    assert share_of_reasons(samples) == {0: {"gpu_idle": 1 / 3, "sw_power_cap": 2 / 3}}
    assert len(seen) == 6


def test_telemetry_without_a_driver_is_the_bench_s_fault():
    lane = Lane(
        [{"kind": "hello", "worker": "telemetry", "schema": 1}, {"kind": "error", "what": "NVML", "why": "Driver Not Loaded"}]
    )
    with pytest.raises(BenchError, match="Driver Not Loaded"):
        watch_gpus(Host(lane, VirtualClock()))


def test_an_agent_that_broke_is_no_inventory():
    class Broken(Lane):
        def ask(self, question, on_line=None):
            return CommandAnswer(1, "", "Traceback", 0.0, 0.0)

    with pytest.raises(CommandFailed, match="agent nvml"):
        read_inventory(Host(Broken([]), VirtualClock()))
