"""The same account from TensorFlow, on the processor."""

import importlib.util
import sys

import pytest

from harness.clock import WallClock
from harness.devices.host import Host
from harness.devices.resnet50 import run_resnet50
from harness.limits import Outcome
from harness.live.local import LocalCommands
from harness.platform import Resnet50
from harness.procedures.resnet50 import judge_alone


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_two_devices_train_with_tensorflow_and_pass_what_can_be_judged():
    clock = WallClock()
    commands = LocalCommands(clock)
    options = ("--framework", "tensorflow", "--device", "cpu", "--steps", "2")
    try:
        report = run_resnet50(Host(commands, clock, python=sys.executable), *options, windows=5, timeout=600)
    finally:
        commands.close()
    checks = dict(judge_alone(report, Resnet50(floor=())))
    failed = [
        check
        for check, finding in checks.items()
        if finding.explanation or any(taken.outcome is Outcome.FAIL for taken in finding.measurements)
    ]
    assert failed == []
    assert str(report.identity) == "tensorflow fp32 none batch 4 at 64x64 on cpu"
    assert len({solo.hash for solo in report.solos}) == len({rank.hash for rank in report.ranks}) == 1
    assert all(solo.loss < 0.9 * solo.first_loss for solo in report.solos)
    assert len(report.windows) == 5
    assert "not checked on its own" in checks["resnet50.ranks"].unmeasured
