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


def test_a_waiver_of_a_case_comes_before_that_of_its_check():
    both = load_waivers(ENTRY + ENTRY.replace("pcie.width", "pcie.width[a/slot01]").replace("LAB-1", "LAB-2"), "w.toml")
    assert both.for_case("pcie.width[a/slot01]", "pcie.width").ticket == "LAB-2"
    assert both.for_case("pcie.width[a/slot02]", "pcie.width").ticket == "LAB-1"
    assert both.for_case("pcie.errors", "pcie.errors") is None


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
        ("pcie.width", "harness.tape", "harness.tape is never waived"),
        ("[[waiver]]", "[[waver]]", "unknown key; did you mean 'waiver'"),
    ],
)
def test_a_wrong_entry_is_one_line(was, becomes, says):
    with pytest.raises(ConfigError) as raised:
        load_waivers(ENTRY.replace(was, becomes), "w.toml")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_waivers_of_one_thing_are_refused():
    with pytest.raises(ConfigError, match=r"waivers 1 and 2 are both about pcie\.width"):
        load_waivers(ENTRY + ENTRY, "w.toml")


def test_a_check_that_no_run_has_is_refused_with_the_nearest_one():
    waivers = load_waivers(ENTRY.replace("pcie.width", "pcie.widht"), "w.toml")
    with pytest.raises(ConfigError, match=r"no check or case 'pcie\.widht'; did you mean 'pcie\.width'"):
        waivers.check_names([("pcie.width[a/slot01]", "pcie.width")])


def test_an_unused_waiver_says_why():
    waivers = load_waivers(ENTRY, "w.toml")
    (told,) = unused(waivers, (), "lqd8360", {}, DAY)
    assert (
        told
        == "waiver of pcie.width was not used: nothing that it covers failed; LAB-1 (night shift, until 2026-12-01): riser on order"
    )
    (told,) = unused(waivers, (), "lqd8360", {}, date(2027, 1, 1))
    assert "was not used: it expired after 2026-12-01" in told
    assert unused(waivers, waivers.entries, "lqd8360", {}, DAY) == []
