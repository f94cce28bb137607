"""What ``bringup tape diff`` says and how it ends."""

from __future__ import annotations

import shutil

import pytest

from harness import locator
from harness.cli.tape import tolerance_of
from harness.errors import UsageMistake


@pytest.mark.slow
def test_the_model_recorded_twice_tells_the_same(shell, tmp_path):
    for folder in ("one", "two"):
        assert shell(f'"${{bringup[@]}}" run --bench model-lqd8360 --record --tapes {folder}').returncode == 0
    done = shell('"${bringup[@]}" tape diff one/model-lqd8360 two/model-lqd8360')
    assert (done.returncode, done.stdout) == (0, "one/model-lqd8360 and two/model-lqd8360 tell the same\n")


def test_a_difference_is_one_line_and_status_1(shell, tmp_path):
    other = shutil.copytree(locator.find_tape("model-lqd8360", None), tmp_path / "other")
    agent = other / "bodies" / "host-agent-pci@1.txt"
    agent.write_text(agent.read_text().replace('"current_width":16', '"current_width":8', 1))
    done = shell('"${bringup[@]}" tape diff model-lqd8360 ./other')
    assert done.returncode == 1
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("session/pcie, host run agent pci, epoch 0, stdout[")
    assert done.stdout.endswith("].link.current_width: 16 | 8\n")


def test_a_tape_that_cannot_be_read_is_status_4(shell, tmp_path):
    other = shutil.copytree(locator.find_tape("model-lqd8360", None), tmp_path / "other")
    (other / "tape.toml").write_text("schema = 99\n")
    done = shell('"${bringup[@]}" tape diff model-lqd8360 ./other')
    assert done.returncode == 4
    assert "newer than this version reads" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_tolerance_is_a_time_a_percentage_or_both():
    assert (tolerance_of(["2 min"]).absolute, tolerance_of(["20 %"]).relative) == (120.0, 0.2)
    both = tolerance_of(["5 s", "10 %"])
    assert (both.absolute, both.relative) == (5.0, 0.1)


@pytest.mark.parametrize("given", [["5"], ["5 kg"], ["soon"], ["5 s", "6 s"], ["-1 s"]])
def test_any_other_tolerance_is_a_mistake(given):
    with pytest.raises(UsageMistake, match="--tolerance"):
        tolerance_of(given)
