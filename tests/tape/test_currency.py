from dataclasses import replace
from datetime import datetime, timedelta

import pytest

import harness
from harness import locator
from harness.platform import load_platform
from harness.tape.currency import OLD, doubts
from harness.tape.header import TapeInfo

PLATFORM = (locator.shipped() / "fixtures" / "platforms" / "lqd8360.toml").read_text()
DAY = datetime.fromisoformat("2026-12-01T12:00:00+00:00")
INFO = TapeInfo(
    bench="r640-07",
    platform="lqd8360",
    source="hardware",
    recorded_at=DAY.isoformat(),
    harness=harness.__version__,
    identity={"bios": "2.21.2", "idrac": "7.00.00.182"},
)


def told(info=INFO, platform=PLATFORM, now=DAY):
    return doubts(info, load_platform(platform, "p.toml") if platform else None, now)


def test_a_fresh_tape_of_wanted_firmware_raises_no_doubt():
    assert told() == []
    assert told(now=DAY + OLD) == []


def test_a_tape_of_more_than_a_year_is_told_with_its_age_and_date():
    (doubt,) = told(now=DAY + OLD + timedelta(days=1))
    assert doubt.startswith("the tape is 366 days old (recorded 2026-12-01)")


def test_a_tape_from_the_future_is_told():
    (doubt,) = told(now=DAY - timedelta(days=2))
    assert "which is still to come" in doubt


def test_a_tape_of_a_newer_version_is_told():
    (doubt,) = told(replace(INFO, harness="99.0"))
    assert "recorded by version 99.0, which is newer than this one" in doubt


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        ({"bios": "2.4.7"}, "the tape's BIOS 2.4.7 is on the deny list of platform lqd8360"),
        ({"bios": "2.04.07.0"}, "on the deny list"),
        ({"idrac": "7.00.00.00"}, "the tape's iDRAC 7.00.00.00 is on the deny list of platform lqd8360"),
        ({"idrac": "6.10.00.00"}, "the tape's iDRAC 6.10.00.00 is older than 7.00.00.171"),
    ],
)
def test_firmware_that_is_not_wanted_any_more_is_told(identity, says):
    platform = PLATFORM.replace('component = "25227"', 'component = "25227"\nminimum = "7.00.00.171"')
    (doubt,) = told(replace(INFO, identity=identity), platform)
    assert says in doubt


def test_without_the_platform_only_the_tape_itself_is_judged():
    assert told(replace(INFO, identity={"bios": "2.4.7"}), platform=None) == []
