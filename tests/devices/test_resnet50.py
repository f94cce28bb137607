import json

import pytest

from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.devices.resnet50 import run_resnet50
from harness.errors import BenchError, BringupError, DeviceError
from harness.ports import CommandAnswer

HELLO = {
    "kind": "hello", "worker": "resnet50", "schema": 1, "framework": "tensorflow", "precision": "fp16", "compiler": "xla",
    "batch": 512, "data": "synthetic", "driver": "535.183.01", "versions": {"tensorflow": "1.15.5", "nccl": "2.17.1"}, "steps": 10,
}  # fmt: skip


class Lane:
    def __init__(self, objects):
        self.lines = [json.dumps(line) for line in (*objects, {"kind": "end", "lines": len(objects)})]
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question.key)
        return CommandAnswer(0, "\n".join(self.lines), "", 0.0, 0.0)

    def close(self):
        pass


def run(*objects):
    return run_resnet50(Host(Lane([HELLO, *objects]), VirtualClock()))


def gpus(count):
    return [{"kind": "gpu", "index": i, "rank": i, "address": f"0000:4{i}:00.0", "uuid": f"GPU-{i}"} for i in range(count)]


def test_the_identity_is_read_and_prints_itself():
    identity = run().identity
    assert str(identity) == "tensorflow fp16 xla batch 512"
    assert identity.details == ("tensorflow fp16 xla batch 512, synthetic data, driver 535.183.01 (tensorflow 1.15.5, nccl 2.17.1)")


def test_figures_of_all_gpus_are_made_from_the_windows():
    windows = [{"kind": "window", "number": n, "rate": rate, "loss": 7.5} for n, rate in enumerate([1800.0, 2000.0, 2200.0])]
    solos = [
        {"kind": "solo", "index": i, "rate": rate, "hash": "a", "loss": 7.7, "bad_step": None}
        for i, rate in enumerate([1000, 1100.0])
    ]
    report = run(*gpus(2), *windows, *solos)
    assert report.total == pytest.approx(3 / (1 / 1800 + 1 / 2000 + 1 / 2200))  # images over time, not a mean of rates
    assert report.median_per_gpu == 1000.0
    assert report.spread == pytest.approx(20.0)
    assert report.median_solo == 1050.0
    assert report.efficiency == pytest.approx(report.total / 2100)


def test_a_loss_that_is_no_number_is_none():
    report = run(
        {"kind": "window", "number": 1, "rate": 100.0, "loss": None},
        {"kind": "rank", "rank": 0, "index": 0, "hash": "a", "bad_step": 41},
    )
    assert report.windows[0].loss is None
    assert report.ranks[0].bad_step == 41


def test_what_the_ranks_exchanged_is_read():
    report = run(
        {"kind": "allreduce", "ranks": 20, "elements": 1024, "wrong": 3, "wrong_ranks": [4]},
        {"kind": "transport", "p2p": 18, "shm": 2, "net": 0},
        {"kind": "telemetry", "index": 0, "power": 248.2, "temperature": 68, "reasons": {"sw_power_cap": 0.62}},
    )
    assert (report.allreduce.wrong, report.allreduce.wrong_ranks) == (3, (4,))
    assert str(report.transport) == "18 P2P, 2 SHM, 0 NET"
    assert str(report.told(0)) == "248.2 W, 68 C, sw_power_cap 62%"
    assert report.told(1) is None


def test_a_run_without_figures_has_none_and_says_why():
    report = run({"kind": "untried", "why": "fewer than two GPUs"})
    assert (report.total, report.median_per_gpu, report.spread, report.median_solo, report.efficiency) == (None,) * 5
    assert (report.untried, report.allreduce, report.solo(0)) == ("fewer than two GPUs", None, None)


def test_the_number_of_windows_is_asked_for():
    lane = Lane([HELLO])
    run_resnet50(Host(lane, VirtualClock()), windows=20)
    assert lane.asked == ["agent resnet50 --windows 20"]


def test_a_missing_framework_is_the_bench_s_fault():
    with pytest.raises(BenchError, match="neither torch nor tensorflow"):
        run({"kind": "error", "what": "framework", "why": "neither torch nor tensorflow is installed"})


def test_a_rank_that_ends_with_an_xid_is_the_product_s_fault_and_the_gpu_is_named():
    end = {"kind": "error", "what": "rank 3", "why": "its process was ended by SIGABRT after window"}
    xid = {"kind": "xid", "index": 3, "address": "00000000:43:00.0", "xid": 79}
    with pytest.raises(DeviceError, match=r"rank 3: its process was ended .* Xid 79 on 0000:43:00.0: look at that GPU"):
        run(xid, end)


def test_what_was_seen_of_each_gpu_while_it_trained_is_read():
    report = run(
        {"kind": "xid", "index": 0, "address": "0000:40:00.0", "xid": 92},
        {"kind": "telemetry", "index": 0, "samples": 900, "power": 248.2, "temperature": 68, "slowdown": 88},
        {"kind": "link", "index": 0, "samples": 900, "generation": 3, "width": 16, "replays": 3, "seconds": 180.0},
    )
    told, link = report.told(0), report.link(0)
    assert (told.slowdown, told.samples, told.is_told) == (88, 900, False)
    assert (link.generation, link.width, link.samples, link.replays_per_minute) == (3, 16, 900, 1.0)
    assert [(xid.index, xid.number) for xid in report.xids] == [(0, 92)]
    assert report.link(1) is None


def test_a_worker_without_an_identity_is_refused():
    with pytest.raises(BringupError, match="no field 'framework'"):
        run_resnet50(Host(Lane([{"kind": "hello", "worker": "resnet50", "schema": 1}]), VirtualClock()))


def test_a_loss_that_python_prints_as_nan_is_no_number_either():
    report = run(
        {"kind": "window", "number": 1, "rate": 100.0, "loss": float("nan")}, {"kind": "solo", "index": 0, "loss": float("inf")}
    )
    assert (report.windows[0].loss, report.solos[0].loss) == (None, None)


def test_smaller_images_another_device_and_another_exchange_are_read_and_said():
    hello = HELLO | {"size": 64, "device": "cpu"}
    report = run_resnet50(Host(Lane([hello, {"kind": "transport", "backend": "gloo", "p2p": 0}]), VirtualClock()))
    assert str(report.identity) == "tensorflow fp16 xla batch 512 at 64x64 on cpu"
    assert str(report.transport) == "gloo, over loopback"
    assert (run().identity.size, run().identity.device) == (224, "cuda")


def test_the_first_loss_of_a_solo_run_is_read_where_the_worker_says_it():
    solo = {"kind": "solo", "index": 0, "rate": 17.5, "hash": "a", "loss": 3.3, "bad_step": None}
    report = run(solo | {"first_loss": 7.6}, solo | {"index": 1})
    assert [solo.first_loss for solo in report.solos] == [7.6, None]


def test_further_options_go_to_the_worker_as_they_are():
    lane = Lane([HELLO])
    run_resnet50(Host(lane, VirtualClock()), "--device", "cpu", windows=5)
    assert lane.asked == ["agent resnet50 --windows 5 --device cpu"]
