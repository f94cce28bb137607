from datetime import date

import pytest

from harness.errors import ConfigError
from harness.waivers import load_waivers, unused

DAY = date(2026, 12, 1)
ENTRY = """
[[waiver]]
check = "pcie.width"
platform = "lqd8360"
reason = "riser on order"
ticket = "LAB-1"
owner = "night shift"
expires = 2026-12-01
"""


def waiver(**changed):
    text = ENTRY
    for key, value in changed.items():
        text += f"{key} = {value}\n"
    return load_waivers(text, "w.toml").entries[0]


def test_a_waiver_holds_through_its_last_day():
    assert waiver().objections("lqd8360", {}, DAY) == []
    assert waiver().objections("lqd8360", {}, date(2026, 12, 2)) == ["it expired after 2026-12-01"]


def test_a_waiver_is_for_one_platform_only():
    assert waiver().objections("dgx2", {}, DAY) == ["it is for platform lqd8360"]


@pytest.mark.parametrize(
    ("limit", "version", "objection"),
    [
        ('"2.21.2"', "2.21.2", None),
        ('"2.21.2"', "2.22.1", "it is for bios 2.21.2, and the machine has 2.22.1"),
        ("{ matches = '2\\.21\\..*' }", "2.21.9", None),
        ("{ matches = '2\\.21\\..*' }", "2.2.11", "and the machine has 2.2.11"),
        ('{ one_of = ["2.21.2", "2.22.1"] }', "2.22.1", None),
        ('"2.21.*"', "2.21.9", None),
        ('"2.21.*"', "2.22.1", "it is for bios 2.21.*, and the machine has 2.22.1"),
        ('{ at_least = "2.9.4" }', "2.10.0", None),
        ('{ at_least = "2.9.4" }', "2.9.3", "it is for bios >= 2.9.4, and the machine has 2.9.3"),
        ('"2.21.2"', "", "it is for bios 2.21.2, and the machine has not told its own"),
    ],
)
def test_a_waiver_is_for_firmware_within_its_limits(limit, version, objection):
    told = waiver(bios=limit).objections("lqd8360", {"bios": version}, DAY)
    assert told == [] if objection is None else objection in told[0]


ONE_CASE = ENTRY.replace("pcie.width", "pcie.width[a/slot01]")
ELSEWHERE = ENTRY.replace("lqd8360", "dgx2").replace("LAB-1", "LAB-2")


def test_a_waiver_of_a_check_is_about_all_of_its_cases_and_one_of_a_case_about_that_one():
    whole, one = load_waivers(ENTRY, "w.toml"), load_waivers(ONE_CASE, "w.toml")
    assert whole.for_case("pcie.width[a/slot02]", "pcie.width", "lqd8360") == whole.entries[0]
    assert one.for_case("pcie.width[a/slot01]", "pcie.width", "lqd8360") == one.entries[0]
    assert one.for_case("pcie.width[a/slot02]", "pcie.width", "lqd8360") is None
    assert whole.for_case("pcie.errors", "pcie.errors", "lqd8360") is None


def test_one_file_serves_several_platforms_whatever_its_order():
    both = load_waivers(ELSEWHERE + ENTRY, "w.toml")
    assert both.for_case("pcie.width[a/slot01]", "pcie.width", "lqd8360").ticket == "LAB-1"
    assert both.for_case("pcie.width[a/slot01]", "pcie.width", "dgx2").ticket == "LAB-2"


def test_a_case_of_another_platform_needs_no_slot_here():
    there = load_waivers(ELSEWHERE.replace("pcie.width", "pcie.width[sxm/slot01]"), "w.toml")
    there.check_names([("pcie.width[a/slot01]", "pcie.width")], "lqd8360")
    with pytest.raises(ConfigError, match="no check or case"):
        there.check_names([("pcie.width[a/slot01]", "pcie.width")], "dgx2")


@pytest.mark.parametrize("key", ["check", "platform", "reason", "ticket", "owner", "expires"])
def test_every_key_is_needed(key):
    text = "\n".join(line for line in ENTRY.splitlines() if not line.startswith(key))
    with pytest.raises(ConfigError, match=rf"w\.toml: waiver\.0\.{key}: missing"):
        load_waivers(text, "w.toml")


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ('"riser on order"', '"  "', "waiver.0.reason"),
        ("ticket", "tiket", "unknown key; did you mean 'ticket'"),
        ("2026-12-01", '"soon"', "waiver.0.expires"),
        ("2026-12-01", "86400", "waiver.0.expires: takes a date without quotes and time"),
        ("2026-12-01", '"2026-12-01"', "waiver.0.expires: takes a date without quotes and time"),
        ("2026-12-01", "2026-12-01T00:00:00Z", "waiver.0.expires: takes a date without quotes and time"),
        ("owner =", "bios = 2.21\nowner =", "waiver.0.bios: takes a version in quotes"),
        ("pcie.width", "bmc.identity", "bmc.identity is never waived"),
        ("pcie.width", "bmc.tls", "bmc.tls is never waived"),
        ("pcie.width", "bmc.auth", "bmc.auth is never waived"),
        ("pcie.width", "harness.tape", "harness.tape is never waived"),
        ("pcie.width", "verdict", "verdict is never waived"),
        ("[[waiver]]", "[[waver]]", "unknown key; did you mean 'waiver'"),
    ],
)
def test_a_wrong_entry_is_one_line(was, becomes, says):
    with pytest.raises(ConfigError) as raised:
        load_waivers(ENTRY.replace(was, becomes), "w.toml")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (ENTRY, ENTRY, r"waivers 1 and 2 are both about pcie\.width of lqd8360"),
        (ONE_CASE, ONE_CASE, r"waivers 1 and 2 are both about pcie\.width\[a/slot01\]"),
        (ENTRY, ONE_CASE, r"waivers 1 and 2 are both about cases of pcie\.width"),
        (ONE_CASE, ENTRY, r"waivers 1 and 2 are both about cases of pcie\.width"),
    ],
)
def test_two_waivers_of_one_case_are_refused(first, second, says):
    with pytest.raises(ConfigError, match=says):
        load_waivers(first + second, "w.toml")


def test_waivers_of_two_cases_of_a_check_stand_side_by_side():
    assert len(load_waivers(ONE_CASE + ONE_CASE.replace("slot01", "slot02"), "w.toml").entries) == 2


def test_a_check_that_no_run_has_is_refused_with_the_nearest_one():
    waivers = load_waivers(ENTRY.replace("pcie.width", "pcie.widht"), "w.toml")
    with pytest.raises(ConfigError, match=r"no check or case 'pcie\.widht'; did you mean 'pcie\.width'"):
        waivers.check_names([("pcie.width[a/slot01]", "pcie.width")], "lqd8360")


def test_an_unused_waiver_says_why():
    waivers = load_waivers(ENTRY, "w.toml")
    (told,) = unused(waivers, (), "lqd8360", {}, DAY)
    assert told == (
        "waiver of pcie.width was not used: nothing that it could let go came up; "
        "LAB-1 (night shift, until 2026-12-01): riser on order"
    )
    (told,) = unused(waivers, (), "lqd8360", {}, date(2027, 1, 1))
    assert "was not used: it expired after 2026-12-01" in told
    assert unused(waivers, waivers.entries, "lqd8360", {}, DAY) == []
