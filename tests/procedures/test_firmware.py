"""The firmware baseline: minimums and a deny list for what runs, whatever is kept beside it."""

from __future__ import annotations

import pytest

from harness.config import load
from harness.devices.firmware import Firmware
from harness.errors import ConfigError
from harness.platform import FirmwareBaseline, Platform
from harness.procedures.firmware import judge
from harness.versions import is_older, is_same

FOUND = (
    Firmware("Installed", "25227", "7.00.00.182", "iDRAC.Embedded.1-1"),
    Firmware("Previous", "25227", "7.00.00.00", "iDRAC.Embedded.1-1"),
    Firmware("Installed", "27763", "1.0.6", "CPLD.Embedded.1"),
    Firmware("Installed", "0", "22.31.6", "NIC.Integrated.1-1-1"),
    Firmware("Current", "0", "20.5.13", "NIC.Slot.2-1"),
    Firmware("Installed", "0", "", "NIC.Slot.3-1"),
    Firmware("Installed", "108076", "00.1D.7D", "PSU.Slot.1"),
)


def entry(**fields):
    return FirmwareBaseline(name="part", **fields)


def complaints(**fields):
    return {reading.place: reading.complaint for reading in judge(FOUND, [entry(**fields)])}


def test_what_runs_is_judged_and_what_was_there_before_is_not():
    assert complaints(component="25227", deny=("7.00.00.00",)) == {"iDRAC.Embedded.1-1": ""}
    assert "deny list" in complaints(component="25227", deny=("7.0.0.182",))["iDRAC.Embedded.1-1"]


def test_a_minimum_holds_for_every_part_of_a_place():
    found = complaints(place=r"NIC\..*", minimum="21.0")
    assert found == {
        "NIC.Integrated.1-1-1": "",
        "NIC.Slot.2-1": "20.5.13 is older than 21.0, the oldest that will do; update it",
        "NIC.Slot.3-1": "",
    }


def test_a_version_that_is_not_told_and_a_part_that_is_not_there_are_not_measured():
    assert [reading.version for reading in judge(FOUND, [entry(place=r"NIC\.Slot\.3.*", minimum="1")])] == [""]
    (missing,) = judge(FOUND, [entry(component="4711", minimum="1")])
    assert (missing.label, missing.version, missing.complaint) == ("part", "", "")


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2.9.4", "2.10.0"), ("7.00.00.00", "7.00.00.182"), ("00.1D.7D", "00.2A.2B"), ("1.0", "1.0.1"), ("", "0.1")],
)
def test_versions_are_compared_part_by_part(older, newer):
    assert is_older(older, newer)
    assert not is_older(newer, older)


def test_zeros_at_the_end_and_in_front_say_nothing():
    assert is_same("2.10", "2.10.0")
    assert is_same("7.0.0.182", "7.00.00.182")
    assert not is_older("2.10", "2.10.0")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('component = "159"', "give a minimum, or versions to deny"),
        ('minimum = "1"', "give a component"),
        ('place = "NIC("\nminimum = "1"', "is no pattern"),
        ('component = "159"\nminimun = "1"', "did you mean 'minimum'"),
    ],
)
def test_a_baseline_that_says_nothing_is_refused(table, says):
    with pytest.raises(ConfigError, match=says):
        load(Platform, f'schema = 1\nname = "p"\n[[firmware]]\nname = "part"\n{table}\n', "p.toml")
