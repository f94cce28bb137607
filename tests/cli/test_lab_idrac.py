from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("cheroot")
pytest.importorskip("cryptography")
pytestmark = pytest.mark.socket


def start(*options, **variables):
    command = [sys.executable, "-m", "harness", "lab", "idrac", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables})


def test_it_says_how_it_is_reached_and_ends_with_ctrl_c():
    with start("--profile", "idrac10", "--fault", "idrac.pr30-for-ever", BRINGUP_LAB_PASSWORD="other-than-the-models") as process:
        said = [process.stdout.readline().rstrip() for _ in range(7)]
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said[0].startswith("SIMULATED iDRAC 1.20.50.52")
    assert said[1].startswith("url       https://127.0.0.1:")
    assert said[2].startswith("pin       sha256:")
    assert said[4] == "password  the value of BRINGUP_LAB_PASSWORD in the environment"
    assert said[5] == "faults    idrac.pr30-for-ever"
    assert "other-than-the-models" not in "".join((*said, *rest))


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (("--profile", "idrac8"), 2, "there are idrac9-3.15-14g"),
        (("--fault", "idrac.pr30-forever"), 2, "did you mean 'idrac.pr30-for-ever'"),
        (("--speed", "0"), 2, "--speed 0"),
    ],
)
def test_a_wrong_wish_is_one_line(options, status, says):
    with start(*options) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, "")
    assert says in err
    assert len(err.splitlines()) == 1
