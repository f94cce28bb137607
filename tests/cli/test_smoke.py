import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.cli.smoke import Wish, describe, headline, train_here
from harness.devices.resnet50 import AllReduce, Identity, Rank, RankGpu, Report, Solo, Transport, Window
from harness.errors import UsageMistake
from harness.platform import Resnet50
from harness.procedures.resnet50 import judge_alone

ROOT = Path(harness.__file__).parents[1]
REPORT = Report(
    identity=Identity("pytorch", "fp32", "none", 4, "synthetic", "", {"torch": "2.13.0"}, 64, "cpu"),
    gpus=(RankGpu(0, 0, "", ""), RankGpu(1, 1, "", "")),
    solos=(Solo(0, 10.0, "same", 3.0, None, 7.0), Solo(1, 12.0, "same", 3.0, None, 7.0)),
    windows=tuple(Window(number, 16.5, 1.0) for number in range(1, 6)),
    ranks=(Rank(0, 0, "equal"), Rank(1, 1, "equal")),
    allreduce=AllReduce(2, 1024, 0),
    transport=Transport(backend="gloo"),
)


def bringup(*arguments, python=(sys.executable,)):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [*python, "-m", "harness", *arguments], capture_output=True, text=True, check=False, env=environment, timeout=300
    )


def described(report):
    return list(describe(report, judge_alone(report, Resnet50(floor=()))))


def test_the_first_line_says_what_it_is_and_on_what():
    assert headline(Wish("cpu")).startswith(
        "ResNet-50 smoke test, pytorch, LIVE on the processor of this machine; no GPU takes part"
    )
    assert headline(Wish(framework="tensorflow")).startswith("ResNet-50 smoke test, tensorflow, LIVE on the GPUs of this machine")


def test_a_result_has_rates_identity_and_every_check():
    lines = described(REPORT)
    assert lines[0].startswith("software  pytorch fp32 none batch 4 at 64x64 on cpu, synthetic data")
    assert lines[1] == "rate      16.5 images/s in all, 8.2 by device, 75% of 2 times one alone"
    assert lines[2] == "alone     rank 0 10.0, rank 1 12.0 images/s"
    assert lines[3] == "windows   16.5, 16.5, 16.5, 16.5, 16.5 images/s"
    assert lines[4] == "exchange  gloo, over loopback"
    assert [line.split()[-1] for line in lines if line.startswith("resnet50.")] == ["PASS", "PASS", "PASS", "PASS", "judged"]
    assert any("baseline recorded, not judged" in line for line in lines)


def test_what_is_wrong_stands_below_its_check():
    lines = described(replace(REPORT, allreduce=AllReduce(2, 1024, 3, (1,))))
    place = next(number for number, line in enumerate(lines) if line.startswith("resnet50.ranks"))
    assert lines[place].endswith("FAIL")
    assert "resnet50.wrong-sums = 3" in lines[place + 1]
    assert lines[place + 2] == "    the all-reduce gave 3 wrong sums on rank 1"


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Wish("tpu"), "--device tpu: cuda or cpu"),
        (Wish(framework="jax"), "--framework jax: pytorch or tensorflow"),
        (Wish(ranks=-2), "--ranks -2: it must be at least 1"),
    ],
)
def test_a_wish_that_cannot_be_meant_is_refused_before_anything_starts(wish, why, capsys):
    with pytest.raises(UsageMistake, match=why):
        train_here(wish)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("framework", "library"), [("pytorch", "torch"), ("tensorflow", "tensorflow")])
def test_a_missing_framework_is_one_line_and_the_bench_s_fault(tmp_path, framework, library):
    bare = tmp_path / "python"  # a Python that sees no installed package
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    done = bringup("smoke", "resnet50", "--device", "cpu", "--framework", framework, "--python", str(bare))
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines() == [headline(Wish("cpu", framework))]
    assert f"there is no module {library} in" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_worker_with_wrong_options_is_one_line():
    done = bringup("smoke", "resnet50", "--device", "cpu", "--python", "/nonexistent/python")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be started" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_newcomer_trains_on_the_processor_in_a_moment():
    done = bringup("smoke", "resnet50", "--device", "cpu", "--ranks", "2", "--steps", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == headline(Wish("cpu"))
    assert "  windows 5 of 5" in lines
    assert lines[-1].startswith("PASSED")
    assert done.stderr == ""
