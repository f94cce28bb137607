import re

import pytest

from harness.versions import is_older, is_same, range_from_toml


@pytest.mark.parametrize(
    ("written", "within", "outside"),
    [
        ("2.21.2", ["2.21.2", "2.21.2.0", "2.021.2"], ["2.21.20", "2.21", ""]),
        ("2.21.*", ["2.21.2", "2.21", "2.21.10"], ["2.2.21", "2.210.1", "2.2"]),
        ("2.0.*", ["2.0.9", "2"], ["2.21.2"]),
        ({"exactly": "2.21.*"}, ["2.21.9"], ["2.22.9"]),
        ({"at_least": "2.9.4"}, ["2.9.4", "2.10.0"], ["2.9.3", "unknown", ""]),
        ({"at_most": "2.10.0"}, ["2.9.4", "2.10"], ["2.10.1", "unknown"]),
        ({"between": ["2.9.4", "2.10.0"]}, ["2.9.4", "2.10"], ["2.9.3", "2.10.1"]),
        ({"one_of": ["2.9.4", "2.21.*"]}, ["2.9.4", "2.21.7"], ["2.10.0"]),
        ({"matches": r"2\.[0-9]+"}, ["2.9"], ["2.9.4"]),
    ],
)
def test_a_range_holds_the_versions_within_it(written, within, outside):
    versions = range_from_toml(written)
    assert [version for version in within if not versions.holds(version)] == []
    assert [version for version in outside if versions.holds(version)] == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2.21.*", "2.21.*"),
        ({"at_least": "2.9"}, ">= 2.9"),
        ({"at_most": "2.9"}, "<= 2.9"),
        ({"between": ["1", "2"]}, "1 .. 2"),
        ({"one_of": ["1", "2"]}, "one of 1, 2"),
        ({"matches": "a+"}, "matches a+"),
    ],
)
def test_a_range_says_what_it_holds(written, shown):
    assert str(range_from_toml(written)) == shown


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (2.21, "in quotes"),
        (True, "in quotes"),
        ("", 'such as "2.21.2"'),
        ("*", 'such as "2.21.2"'),
        ("2.*.1", 'such as "2.21.2"'),
        ({}, "exactly one of"),
        ({"at_least": "1", "at_most": "2"}, "exactly one of"),
        ({"at_lest": "1"}, "did you mean 'at_least'"),
        ({"at_least": 2.21}, "in quotes"),
        ({"at_least": "2.21.*"}, "without .*"),
        ({"at_least": "latest"}, "begin with a number"),
        ({"between": "1"}, "a list of two"),
        ({"between": ["2", "1"]}, "older version first"),
        ({"one_of": []}, "a list"),
        ({"matches": "("}, "not a regular expression"),
        ({"matches": "a{99999999999999999999}"}, "not a regular expression"),
    ],
)
def test_a_wrong_range_is_one_line_that_says_what_to_write(written, says):
    with pytest.raises(ValueError, match=re.escape(says)) as raised:
        range_from_toml(written)
    assert "\n" not in str(raised.value)


def test_a_version_of_thousands_of_digits_is_compared_like_any_other():
    assert is_older("2.21", "9" * 5000)
    assert is_same("0" * 5000 + "2.1", "2.1")
