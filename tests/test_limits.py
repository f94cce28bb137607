import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.limits import Outcome, at_least, at_most, between, exactly, limit_from_toml, matches, one_of
from harness.measurement import Measurement


@pytest.mark.parametrize(
    ("limit", "value", "outcome"),
    [
        (exactly(16, "lanes"), 16, Outcome.PASS),
        (exactly(16, "lanes"), 8, Outcome.FAIL),
        (exactly(100.0, within=1), 100.9, Outcome.PASS),
        (exactly(100.0, within=1), 101.1, Outcome.FAIL),
        (exactly("Enabled"), "enabled", Outcome.FAIL),
        (exactly(0), False, Outcome.FAIL),
        (exactly("1"), 1, Outcome.FAIL),
        (at_least(750, marginal=780), 770, Outcome.MARGINAL),
        (at_least(750, marginal=780), 780, Outcome.PASS),
        (at_least(750), 749.9, Outcome.FAIL),
        (at_most(8, marginal=6), 7, Outcome.MARGINAL),
        (at_most(8), "8", Outcome.FAIL),
        (between(1, 2), 2, Outcome.PASS),
        (one_of("Last", "On"), "Off", Outcome.FAIL),
        (matches(r"2\.\d+"), "2.10", Outcome.PASS),
        (matches(r"2\.\d+"), "2.10x", Outcome.FAIL),
        (at_least(1), None, Outcome.NOT_MEASURED),
        (at_least(1), float("nan"), Outcome.FAIL),
    ],
)
def test_a_limit_judges(limit, value, outcome):
    assert limit.judge(value) is outcome


@pytest.mark.parametrize(
    ("toml", "unit", "printed"),
    [
        (16, "lanes", "16 lanes"),
        ("Enabled", "", "Enabled"),
        ({"one_of": ["Last", "On"]}, "", "one of Last, On"),
        ({"at_least": 750}, "images/s", ">= 750 images/s"),
        ({"at_most": "8 /min"}, "/min", "<= 8 /min"),
        ({"between": ["10.8 GB/s", 13.2]}, "GB/s", "10.8 .. 13.2 GB/s"),
        ({"exactly": "1 KiB", "within": "1 %"}, "B", "1 KiB ± 1 %"),
        ({"matches": "a+"}, "", "matches a+"),
        ("256 KiB", "B", "256 KiB"),
        ({"one_of": ["128 B", "1 KiB"]}, "B", "one of 128, 1024 B"),
        ({"between": ["16 MiB", "1 GiB"]}, "B", "16 .. 1024 MiB"),
        ("0 B", "B", "0 B"),
    ],
)
def test_a_limit_is_read_from_toml_and_prints_itself(toml, unit, printed):
    assert str(limit_from_toml(toml, unit)) == printed


@pytest.mark.parametrize(
    ("toml", "hint"),
    [
        ({"at_leest": 3}, "did you mean 'at_least'"),
        ({"at_least": 1, "at_most": 2}, "exactly one of"),
        ({"between": [2, 1]}, "lower bound first"),
        ({"between": [1]}, "list of two"),
        ({"at_least": "many"}, "at_least takes numbers"),
        ({"matches": "("}, "not a regular expression"),
        ({"one_of": [1], "marginal": 2}, "marginal does not fit"),
        ([1], "not a list"),
    ],
)
def test_a_wrong_limit_says_what_is_wrong(toml, hint):
    with pytest.raises(ValueError, match=hint):
        limit_from_toml(toml)


def test_a_quoted_number_needs_the_unit_of_its_field():
    with pytest.raises(ValueError, match='"750" has no unit: write "750 images/s"'):
        limit_from_toml({"at_least": "750"}, "images/s")


@pytest.mark.parametrize("toml", ["85 %", {"at_least": "85 %"}, {"matches": "8."}, True])
def test_a_limit_of_numbers_takes_no_words(toml):
    with pytest.raises(ValueError, match="number"):
        limit_from_toml(toml, words=False)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_margin_is_negative_exactly_where_the_limit_fails(low, high, value):
    limit = between(min(low, high), max(low, high))
    margin = limit.margin(value)
    assert margin is not None
    assert (margin < 0) == (limit.judge(value) is Outcome.FAIL)


def test_a_measurement_prints_value_limit_and_outcome():
    taken = Measurement("pcie.width", 8, "lanes", exactly(16, "lanes"))
    assert str(taken) == "pcie.width = 8 lanes  [16 lanes]  FAIL"
    assert str(Measurement("bios.version", "2.10.2")) == "bios.version = 2.10.2  RECORDED"
    assert str(Measurement("pcie.bar", 524288, "B", exactly(262144, "B"))) == "pcie.bar = 512 KiB  [256 KiB]  FAIL"
    assert "not measured: no root" in str(Measurement("x", None, note="no root"))
