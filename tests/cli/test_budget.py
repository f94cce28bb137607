"""``bringup pcie budget`` as a program: what it prints, and with which status it ends."""

import json
import os
import subprocess

import pytest

from harness.cli.budget import as_text, make
from harness.errors import UsageMistake

PASSIVE = ("--model", "Quadro RTX 8000 (passive)")


@pytest.fixture
def budget(program):
    environment = {**os.environ, "COLUMNS": "80"}

    def asked(*arguments, status=0):
        done = subprocess.run(
            [*program, "pcie", "budget", *arguments], capture_output=True, text=True, check=False, timeout=60, env=environment
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout or done.stderr

    return asked


def test_the_first_line_is_the_verdict(budget):
    first = budget("--platform", "lqd8360", *PASSIVE).splitlines()[0]
    assert first == "BUDGET of lqd8360, no machine was touched: 20 GPUs fit as 10 + 10"


def test_what_does_not_fit_ends_with_one_and_says_what_does(budget):
    text = budget("--platform", "lqd8360", "--split", "20,0,0", *PASSIVE, status=1)
    assert "20 GPUs do NOT fit as 20; as 10 + 10 they do" in text.replace("\n  ", " ")
    assert "-106 MiB  <- short" in text
    assert "UEFI0134" in text


def test_cards_that_only_may_sit_there_are_judged_too(budget):
    text = budget("--platform", "lqd8360", status=1)
    assert "fit only if they are Quadro RTX 8000 (passive)" in text.replace("\n  ", " ")
    assert "assumed, since nobody has published it: BAR 1 256 MiB" in text


@pytest.mark.parametrize("width", [80, 132])
def test_no_line_is_wider_than_the_terminal(width):
    for options in ((None, ""), (27, ""), (None, "20,5,3")):
        lines = [*as_text(*make("lqd8360", *options, ""), width)]
        assert max(map(len, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)


def test_programs_get_the_same_in_bytes(budget):
    told = json.loads(budget("--platform", "lqd8360", "--json", *PASSIVE))
    assert (told["platform"], told["fits"], told["budgets"][0]["split"]) == ("lqd8360", True, [10, 10])
    low = told["budgets"][0]["shares"][0]["lines"][0]
    assert low == {"resource": "32-bit MMIO", "need": 162 << 20, "kernel_need": 172 << 20, "window": 216 << 20, "left": 54 << 20}
    assert told["budgets"][0]["first_starts"] == [1, 2, 4, 8, 16, 20]
    assert {knob["attribute"] for knob in told["settings"]} > {"MmioAbove4Gb", "MemoryMappedIOH", "SriovGlobalEnable"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("nowhere", None, "", ""), "nowhere"),
        (("lqd8360", None, "x", ""), "takes GPUs by slot"),
        (("lqd8360", None, "0,0", ""), "takes GPUs by slot"),
        (("lqd8360", None, "65", ""), "takes GPUs by slot"),
        (("lqd8360", 4, "4", ""), "exclude each other"),
        (("lqd8360", None, "", "RTX"), "no model 'RTX'"),
    ],
)
def test_a_mistake_is_one_line(options, says):
    with pytest.raises(UsageMistake) as mistake:
        make(*options)
    assert says in str(mistake.value)
    assert len(str(mistake.value).splitlines()) == 1


def test_a_platform_without_windows_ends_with_two_and_one_line_that_says_what_to_do(budget):
    text = budget("--platform", "virtual-r640", status=2)
    assert "platforms/virtual-r640.toml: stack: no [[stack]] says what firmware hands out" in text
    assert len(text.strip().splitlines()) == 1
