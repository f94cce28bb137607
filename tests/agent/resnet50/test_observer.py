"""The GPUs are watched while they train, with the real nvidia-ml-py on a fake libnvidia-ml.so.1."""

import importlib.util
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.devices.resnet50 import Identity, RankGpu, Report, run_resnet50
from harness.lab.model.parts import View
from harness.lab.model.workers import answer
from harness.limits import Outcome, at_most, exactly
from harness.platform import Link
from harness.ports import CommandAnswer
from harness.procedures.places import Place
from harness.procedures.resnet50_watch import judge_watched

MOST = 32
"""How many GPUs fake_gpus.h has room for."""

WATCH = """
import json, os, sys
from harness.agent.clock import sleep
from harness.agent.resnet50.observer import Name, Observer

with Observer(wanted=True) as observer:
    observer.meet({rank: Name("", uuid) for rank, uuid in enumerate(sys.argv[1:])})
    sleep(0.6)
    lines = [*observer.news(), *observer.close()]
    print(json.dumps({"lines": lines, "in order": observer.in_order(3)}))
"""


class Said:
    """A lane whose one command has run already."""

    def __init__(self, output):
        self.output = output

    def ask(self, question, on_line=None):
        return CommandAnswer(0, self.output, "", 0.0, 0.0)

    def close(self):
        pass


def uuid_of(gpu):
    return f"GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae{gpu:02x}"


def has_had(made, gpu, xid):
    """The driver has reported an Xid of a GPU."""
    state = [0] * (2 * MOST)
    state[MOST + gpu] = xid
    (made.tree.root / "state").write_bytes(struct.pack(f"{2 * MOST}i", *state))


@pytest.fixture
def watched(machine):
    """A report of two ranks on GPU 1 and GPU 0 in this order, nothing but watched."""

    def run(faults="", xid=None):
        made = machine("1x2", faults)
        if xid is not None:
            has_had(made, *xid)
        command = [sys.executable, "-c", WATCH, uuid_of(1), uuid_of(0)]
        done = subprocess.run(command, env=made.environment, capture_output=True, text=True, timeout=60, check=True)
        said = json.loads(done.stdout)
        assert [uuid for _, uuid in said["in order"]] == ([uuid_of(0), uuid_of(1), ""] if said["lines"] else [""] * 3)
        hello = {"kind": "hello", "worker": "resnet50", "schema": 1, "framework": "pytorch", "precision": "fp16"}
        lines = [hello | {"compiler": "none", "batch": 1}, *said["lines"]]
        text = "\n".join(json.dumps(line) for line in [*lines, {"kind": "end", "lines": len(lines)}])
        report = run_resnet50(Host(Said(text), VirtualClock()))
        places = {rank: Place(f"gpu{1 - rank}") for rank in (0, 1)}
        return report, {places[rank].slot: judge_watched(report, places, rank, replay_rate=at_most(8, "/min")) for rank in places}

    return run


def failed(findings):
    return {
        slot: finding.explanation
        for slot, finding in findings.items()
        if any(taken.outcome is Outcome.FAIL for taken in finding.measurements)
    }


def test_healthy_gpus_are_seen_by_the_rank_that_trains_on_them(watched):
    report, findings = watched()
    assert failed(findings) == {}
    assert [told.index for told in report.telemetry] == [1, 0]
    assert {(told.power, told.temperature, told.slowdown, told.samples > 1) for told in report.telemetry} == {(28.1, 31, 88, True)}
    assert {(link.generation, link.width, link.replays, link.seconds > 0.5) for link in report.links} == {(1, 16, 0, True)}
    assert [told.reasons for told in report.telemetry] == [{"gpu_idle": 1.0}] * 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("hot:1", "its clocks were held back: hw_thermal_slowdown; peak 31 C: look at its cooling and its power"),
        ("braking:1", "its clocks were held back: hw_power_brake_slowdown"),
        ("heat:1", "it reached 95 C and slows down from 88 C on: look at its cooling"),
        ("replaying:1", "80 replays in"),
    ],
)
def test_what_holds_a_gpu_back_is_named_with_the_gpu_and_what_to_do(watched, fault, says):
    _, findings = watched(fault)
    assert list(failed(findings)) == ["gpu1"]
    assert says in failed(findings)["gpu1"]


def test_an_xid_is_told_with_its_gpu(watched):
    report, findings = watched(xid=(0, 92))
    assert [(xid.index, xid.number) for xid in report.xids] == [(1, 92)]
    assert list(failed(findings)) == ["gpu0"]
    assert "Xid 92 on gpu0: see NVIDIA's list of Xids" in failed(findings)["gpu0"]


def test_a_card_that_tells_no_reasons_is_not_called_healthy_in_that(watched):
    _, findings = watched("unsupported:1")
    names = {slot: {taken.name for taken in finding.measurements} for slot, finding in findings.items()}
    assert "resnet50.hardware-slowdown" in names["gpu0"]
    assert "resnet50.hardware-slowdown" not in names["gpu1"]


def test_without_nvml_nothing_is_said_and_nothing_breaks(watched):
    report, findings = watched("nodriver:0")
    assert (report.telemetry, report.links, report.xids) == ((), (), ())
    assert findings["gpu0"].unmeasured == "gpu0: nobody watched it while it trained"


def test_a_link_that_is_slow_at_every_moment_of_training_is_named(watched):
    report, _ = watched()
    finding = judge_watched(report, {0: Place("gpu1")}, 0, Link(generation=exactly(3), width=exactly(16)), at_most(8, "/min"))
    assert "its link: at best Gen1 x16" in finding.explanation


def test_a_gpu_that_nobody_watched_says_why_nothing_was_tried():
    report = Report(Identity(), (RankGpu(0, 0, "", ""),), untried="alone, rank 0 at step 3 got a loss that is not finite")
    finding = judge_watched(report, {0: Place("gpu0")}, 0)
    assert finding.unmeasured.endswith("rank 0 at step 3 got a loss that is not finite")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_watched_run_on_the_processor_prints_the_very_lines_that_the_model_has(machine):
    """Twenty GPUs are not here to train on, so the tape's figures are modelled; their form is that of a real run."""
    made = machine("1x2")
    has_had(made, 1, 92)
    arguments = ("--device", "cpu", "--size", "32", "--batch", "4", "--steps", "2", "--windows", "2")
    command = [sys.executable, str(Path(__file__).with_name("_watched.py")), *arguments]
    done = subprocess.run(command, env=made.environment, capture_output=True, text=True, timeout=300, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    view = View(frozenset({"resnet50.watched.xid"}), 1, {"MmioAbove4Gb": "Enabled"}, 0.0)
    assert shape(lines) == shape(json.loads(line) for _, line in answer("resnet50", [], view))
    kinds = [line["kind"] for line in lines]
    assert kinds.index("xid") < kinds.index("window")
    report = run_resnet50(Host(Said(done.stdout), VirtualClock()))
    assert [link.index for link in report.links] == [0, 1]


def shape(lines):
    found = {}
    for line in lines:
        found.setdefault(line["kind"], set()).update(line)
    return found
