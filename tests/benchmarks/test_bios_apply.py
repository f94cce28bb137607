"""An apply is cheap and notices its end at once; beside sushy making the same change, the figures are printed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cheroot")
pytestmark = pytest.mark.socket

MOST = 40
ONE_POLL = 15.0


def figures(*options):
    script = str(Path(__file__).with_name("bios_apply.py"))
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.rsplit("\n", 2)[0], json.loads(done.stdout.splitlines()[-1])


def test_an_apply_sends_at_most_forty_requests_beyond_polling_and_notices_its_end_within_one_poll():
    _, found = figures("--without-sushy")
    harness = found["harness"]
    assert harness["beyond"] <= MOST
    assert 0 <= harness["noticed_after_s"] <= ONE_POLL
    assert (harness["writes"], harness["sessions_left"]) == (2, 0)


@pytest.mark.slow
def test_the_same_change_by_sushy_needs_as_many_writes(capsys):
    if importlib.util.find_spec("sushy") is None:
        pytest.skip("sushy is not installed")
    shown, found = figures()
    with capsys.disabled():
        print("\n" + shown)
    assert found["sushy"]["writes"] == found["harness"]["writes"]
    assert found["harness"]["noticed_after_s"] <= found["sushy"]["noticed_after_s"] + ONE_POLL
