"""The worker's training steps are at least as fast as a plain loop; the figures themselves are printed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_worker_trains_as_fast_as_a_plain_loop(capsys):
    environment = os.environ | {"PYTHONPATH": str(Path(harness.__file__).parents[1])}
    script = str(Path(__file__).with_name("resnet50.py"))
    done = subprocess.run([sys.executable, script, "9"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    *shown, figures = done.stdout.splitlines()
    with capsys.disabled():
        print("\n" + "\n".join(shown))
    assert json.loads(figures)["ratio"] >= 1.0
