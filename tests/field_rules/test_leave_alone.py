"""Settings that are left as they are unless somebody asks for them, however odd they look."""

from __future__ import annotations

import json

import pytest

from harness import locator
from harness.platform import load_platform

MODEL = "model-lqd8360"
ODD = {"MemoryMappedIOH": "12TB", "SriovGlobalEnable": "Enabled", "ErrPrompt": "Disabled", "PcieAspmL1": "Disabled"}
"""Each away from how it is delivered; 12TB is for operating systems of 44 bits, and either that or 56TB is right."""


@pytest.mark.parametrize("name", ["lqd8360", "virtual-r640"])
def test_no_shipped_platform_wants_any_of_them(name):
    _, file = locator.find_platform(name)
    platform = load_platform(file.read_text(), file.name)
    assert platform.bios.attributes, name
    assert not set(platform.bios.attributes) & set(ODD)


@pytest.fixture
def odd(wire):
    """The machine has them all the other way."""
    seen = []

    def turn(_, machine):
        if not seen:
            machine.controller.bios.current.update(ODD | {"SysProfile": "Custom"})  # any other profile sets PcieAspmL1 itself
            seen.append(machine)

    wire.before = turn


def attributes_sent(wire):
    return [name for sent in wire.writes if sent.method == "PATCH" for name in json.loads(sent.body)["Attributes"]]


def test_an_apply_leaves_them_as_odd_as_they_were(bringup, wire, odd):
    done = bringup("bios", "apply", "--bench", MODEL)
    assert done.status == 0, done.text
    assert sorted(attributes_sent(wire)) == ["MmioAbove4Gb", "OsWatchdogTimer"]
    current = wire.machine.controller.bios.current
    assert {name: current[name] for name in ODD} == ODD


def test_a_plan_and_a_diff_do_not_even_mention_them(bringup, wire, odd):
    for look in ("plan", "diff"):
        done = bringup("bios", look, "--bench", MODEL)
        assert "MmioAbove4Gb" in done.out
        assert not [name for name in ODD if name in done.out]
        wire.sent.clear()


@pytest.mark.slow
def test_a_whole_run_with_consent_sends_none_of_them(run_on_the_model, wire):
    done = run_on_the_model("--apply")
    assert done.status == 0, done.text
    assert sorted(attributes_sent(wire)) == ["MmioAbove4Gb", "OsWatchdogTimer"]


@pytest.mark.parametrize("name", [name for name in ODD if name != "PcieAspmL1"])
def test_whoever_asks_for_one_gets_it(bringup, wire, tmp_path, name):
    (tmp_path / "asked.toml").write_text(f'{name} = "{ODD[name]}"\n')
    done = bringup("bios", "apply", "--bench", MODEL, "--attributes", "asked.toml")
    assert done.status == 0, done.text
    assert attributes_sent(wire) == [name]
    assert wire.machine.controller.bios.current[name] == ODD[name]
