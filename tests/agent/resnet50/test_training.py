"""Real training on the processor, two ranks, from the worker's lines to the judges."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.clock import VirtualClock, WallClock
from harness.devices.fields import progress_of
from harness.devices.host import Host
from harness.devices.resnet50 import run_resnet50
from harness.errors import BenchError
from harness.limits import Outcome, at_least
from harness.live.local import LocalCommands
from harness.platform import Floor, Resnet50
from harness.ports import CommandAnswer
from harness.procedures.resnet50 import judge_alone, judge_straggler, name_devices

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]

ROOT = Path(harness.__file__).parents[1]
SMALL = ("--device", "cpu", "--size", "32", "--batch", "4", "--steps", "2")
LIMITS = Resnet50(floor=())


class Said:
    """A lane whose one command has run already."""

    def __init__(self, output):
        self.output = output

    def ask(self, question, on_line=None):
        return CommandAnswer(0, self.output, "", 0.0, 0.0)

    def close(self):
        pass


def start(fault, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("_faulty.py")), fault, *SMALL, "--windows", "5", *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process):
    """What it printed. Nothing of its process group is left."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return output


def report_of(fault, *arguments):
    return run_resnet50(Host(Said(finish(start(fault, *arguments))), VirtualClock()))


def failures(report):
    found = dict(judge_alone(report, LIMITS))
    bad = {
        check: finding
        for check, finding in found.items()
        if finding.explanation or any(taken.outcome is Outcome.FAIL for taken in finding.measurements)
    }
    return {check: finding.explanation for check, finding in bad.items()}


@pytest.fixture(scope="module")
def healthy():
    """The worker as it travels: a zip without a name, started by this Python; its report and its progress."""
    progress = []
    clock = WallClock()
    commands = LocalCommands(clock)
    try:
        report = run_resnet50(
            Host(commands, clock, python=sys.executable),
            *SMALL,
            windows=5,
            timeout=300,
            on_line=lambda line, at: progress.append(progress_of(line)),
        )
    finally:
        commands.close()
    return report, [said for said in progress if said]


def test_two_ranks_train_and_pass_every_check(healthy):
    report, _ = healthy
    assert failures(report) == {}
    assert [window.number for window in report.windows] == [1, 2, 3, 4, 5]
    assert all(window.rate > 0 and window.loss is not None for window in report.windows)
    assert len({solo.hash for solo in report.solos}) == 1
    assert len({rank.hash for rank in report.ranks}) == 1
    assert (report.allreduce.ranks, report.allreduce.elements, report.allreduce.wrong) == (2, 1 << 20, 0)
    assert (report.untried, str(report.transport)) == ("", "gloo, over loopback")


def test_the_identity_says_what_trained_and_on_what(healthy):
    identity = healthy[0].identity
    assert str(identity) == "pytorch fp32 none batch 4 at 32x32 on cpu"
    assert identity.versions["torch"].startswith("2.")
    assert identity.data == "synthetic"


def test_a_fixed_batch_is_learned(healthy):
    for solo in healthy[0].solos:
        assert solo.loss < 0.9 * solo.first_loss


def test_a_rate_on_the_processor_is_recorded_and_not_judged(healthy):
    floor = Floor(
        framework="pytorch", precision="fp32", compiler="none", batch=4, images_per_second_per_gpu={"at_least": 1_000_000}
    )
    checks = dict(judge_alone(healthy[0], Resnet50(floor=(floor,))))
    assert "recorded, not judged" in checks["resnet50.floor"].unmeasured
    assert not {"resnet50.spread", "resnet50.efficiency"} & set(checks)


def test_progress_is_said_as_it_comes(healthy):
    said = healthy[1]
    assert said[:4] == ["start 1 of 2", "start 2 of 2", "solo 1 of 2", "solo 2 of 2"]
    assert said[4:] == [f"windows {number} of 5" for number in range(1, 6)]


def test_one_rank_alone_trains_and_says_what_was_left_out():
    report = report_of("dull", "--ranks", "1")  # the fault is on the second rank, which is not there
    assert failures(report) == {}
    assert (len(report.windows), len(report.ranks), report.allreduce) == (5, 1, None)
    assert "nobody to exchange gradients with" in report.untried


def test_a_loss_that_is_no_number_stops_the_run_at_once_and_names_the_rank():
    report = report_of("nan_together", "--steps", "8")
    assert [(rank.rank, rank.bad_step) for rank in report.ranks] == [(0, None), (1, 5)]
    assert [window.loss for window in report.windows] == [None]
    assert "first on rank 1 at step 5; 0 GPUs followed" in failures(report)["resnet50.nan"]


def test_a_loss_that_is_no_number_alone_stops_before_the_ranks_meet():
    report = report_of("nan_alone")
    assert [(solo.index, solo.bad_step) for solo in sorted(report.solos, key=lambda solo: solo.index)] == [(0, None), (1, 3)]
    assert (report.windows, report.ranks) == ((), ())
    assert report.untried == "alone, rank 1 at step 3 got a loss or gradient that is not finite"
    assert "rank 1 at step 3" in failures(report)["resnet50.nan"]


def test_a_rank_with_another_parameter_and_wrong_sums_are_caught_with_their_rank():
    report = report_of("flipped,wrong_sums,slow", "--ranks", "3")
    found = failures(report)
    assert set(found) == {"resnet50.ranks"}
    parameters, sums, cause = found["resnet50.ranks"].splitlines()
    assert cause.startswith("data was lost or changed on the way (p2p.integrity)")
    assert parameters == "parameters differ on rank 1 from those of 2 other ranks"
    assert sums == "the all-reduce gave 3 wrong sums on rank 1"
    straggler = judge_straggler(report, name_devices(report), 1, at_least(0.95))
    assert straggler.explanation.startswith("rank 1 is a straggler: ")
    assert "usually heat or power" in straggler.explanation


def test_a_rank_that_computes_differently_has_another_hash_and_one_that_learns_nothing_is_named():
    report = report_of("different,dull")
    found = failures(report)
    assert {check for check in found if check.startswith("resnet50.hash")} == {"resnet50.hash rank 0", "resnet50.hash rank 1"}
    assert "2 GPUs gave 2 different hashes and no majority" in found["resnet50.hash rank 1"]
    assert "rank 1 does not learn one fixed batch" in found["resnet50.nan"]
    assert "rank 0 does not learn" not in found["resnet50.nan"]


def test_kill_9_of_one_rank_ends_the_run_and_names_it():
    output = finish(start("killed"))
    with pytest.raises(BenchError, match=r"rank 1: its process was ended by SIGKILL after solo") as error:
        run_resnet50(Host(Said(output), VirtualClock()))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_neither_a_rank_nor_a_folder_outlives_the_worker(number, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = start("dull", "--windows", "1000")
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["kind"] != "gpu":
        pass
    process.send_signal(number)
    process.communicate(timeout=300)  # ends when the last process that holds its pipes does
    assert process.returncode != 0
    for _ in range(1000):  # a rank notices that its parent is gone, and ends
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        WallClock().sleep(0.05)
    else:
        pytest.fail("a rank is still there")
    assert list(tmp_path.glob("resnet50-*")) == []


def test_the_ranks_of_a_processor_are_named_as_such(healthy):
    assert [str(place) for place in name_devices(healthy[0]).values()] == ["rank 0", "rank 1"]
