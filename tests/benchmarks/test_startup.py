"""The start-up benchmark runs and is within ten times its goals; the figures themselves are printed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_nobody_waits_long(capsys):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("startup.py")), "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with capsys.disabled():
        print("\n" + done.stdout.rsplit("\n", 2)[0])
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["replay"] < 20
    assert figures["help"] < 2.5
    assert figures["inert plugin"] < 0.1
