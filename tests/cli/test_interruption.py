"""An end that is asked for is one line and 130, whenever it comes: while the command still loads, works, or has just ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

HOOK = """
import os, sys

class Signals:
    '''Sends the signal to this process when the module is asked for the first time.'''
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Signals())
from harness.__main__ import main
main()
"""
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
ARRIVING = ["harness.cli.streams", "typer", "harness.cli.commands.bios", "harness.cli.bios", "harness.lab.model.lanes"]


HEEDING = "import signal\nfor each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n    signal.signal(each, signal.SIG_DFL)\n"
"""Whoever started the tests may ignore some (nohup, a shell's background job), and a child ignores what its parent does."""


def run(program, *words, cwd, heeding=HEEDING):
    words = (sys.executable, "-c", heeding + program, *words)
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ARRIVING)
def test_a_signal_while_the_command_loads_is_one_line(module, number, tmp_path):
    done = run(HOOK.format(module=module, number=int(number)), "bios", "plan", "--bench", "model-lqd8360", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bringup: interrupted\n")


def test_a_signal_while_the_command_loads_is_told_nobody_where_nobody_listens(tmp_path):
    program = "import os; os.close(2)\n" + HOOK.format(module="typer", number=int(signal.SIGTERM))
    assert run(program, "bios", "plan", "--bench", "model-lqd8360", cwd=tmp_path).returncode == 130


LATE = """
import atexit, os
from harness.__main__ import main
atexit.register(os.kill, os.getpid(), {number})
main()
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_after_the_last_line_does_not_change_the_status(number, tmp_path):
    done = run(LATE.format(number=int(number)), "bios", "plan", "--bench", "model-lqd8360", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.endswith("result: can be applied\n")


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    program = f"import signal\nsignal.signal({int(signal.SIGTERM)}, signal.SIG_IGN)\n" + HOOK.format(
        module="typer", number=int(signal.SIGTERM)
    )
    assert run(program, "bios", "plan", "--bench", "model-lqd8360", cwd=tmp_path).returncode == 1
