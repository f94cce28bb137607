"""``bringup rescue``: what it shows, what it asks, what it leaves."""

from __future__ import annotations

import pytest

from harness.cli.rescue import Asked, rescue

LOOP = ("boot.loop",)


@pytest.fixture
def asked(tmp_path):
    def build(**more):
        return Asked("model-lqd8360", folder=tmp_path / "reports", **more)

    return build


def test_without_anybody_to_ask_it_only_shows_the_ladder(asked, tmp_path):
    lines = []
    assert rescue(asked(faults=LOOP), lines.append, None) == 1
    assert lines[-1].startswith("nothing was touched")
    rungs = [line.split(":")[0].strip() for line in lines if line.startswith("  ")]
    assert rungs == [
        "1. evidence",
        "2. off",
        "3. detach",
        "4. bare",
    ]
    assert not (tmp_path / "reports").exists()


def test_with_yes_it_goes_to_a_bare_boot_and_says_what_is_left(asked, tmp_path):
    lines = []
    assert rescue(asked(faults=LOOP, yes=True), lines.append, None) == 0
    assert any(line.startswith("bare: it started bare") for line in lines)
    assert lines[-1].startswith("hand-over: the host runs without its GPUs; undo: ")
    (folder,) = (tmp_path / "reports").iterdir()
    texts = {"boot-video.txt", "console.txt", "jobs.txt", "lc-log.txt", "settings.txt", "state.txt"}
    assert {file.name for file in folder.iterdir()} == {"screen.png", *texts}


def test_each_rung_is_asked_for_and_a_no_stops_before_it(asked):
    lines, questions = [], []

    def answer(question):
        questions.append(question)
        return not question.startswith("take detach")

    assert rescue(asked(faults=LOOP), lines.append, answer) == 1
    assert [question.split()[1] for question in questions] == ["evidence:", "off:", "detach:"]
    assert "stopped before detach: not agreed to" in lines
    assert lines[-1] == "hand-over: the host is off; undo: ComputerSystem.Reset On"


def test_a_machine_that_is_well_is_left_alone(asked):
    lines = []
    assert rescue(asked(yes=True), lines.append, None) == 0
    assert lines[1] == "nothing to rescue: the host is OutOfPOST, OSRunning"
    assert lines[-1] == "hand-over: nothing was left on the machine"


def test_the_command_without_a_terminal_touches_nothing(shell):
    done = shell('"${bringup[@]}" rescue --bench model-lqd8360 --fault boot.loop < /dev/null')
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("nothing was touched")
