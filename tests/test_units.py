import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.units import Quantity, duration, number, parse_quantity


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("16 MiB", 16, "MiB"),
        ("0.85", 0.85, ""),
        ("3%", 3, "%"),
        ("8 /min", 8, "/min"),
        ("15.75GB/s", 15.75, "GB/s"),
        ("-1 C", -1, "C"),
    ],
)
def test_quantities_are_read(text, value, unit):
    assert parse_quantity(text) == Quantity(value, unit)


@pytest.mark.parametrize(("text", "hint"), [("16 Mib", "did you mean 'MiB'"), ("sixteen", "not a number"), ("", "not a number")])
def test_a_wrong_quantity_says_what_is_wrong(text, hint):
    with pytest.raises(ValueError, match=hint):
        parse_quantity(text)


def test_quantities_convert_within_a_dimension_only():
    assert parse_quantity("1 GiB").to("MiB") == Quantity(1024, "MiB")
    assert parse_quantity("45 min").to("s") == Quantity(2700, "s")
    with pytest.raises(ValueError, match="takes bytes per second"):
        parse_quantity("1 GiB").to("GB/s")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_printed_number_reads_back_to_six_digits(value):
    assert float(number(value)) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (45, "45 s"),
        (0, "0 s"),
        (59.96, "60 s"),
        (900, "15 min"),
        (899.6, "15 min"),
        (125, "2 min 5 s"),
        (5400, "1 h 30 min"),
        (0.25, "0.2 s"),
    ],
)
def test_a_duration_is_shown_exactly(seconds, shown):
    assert duration(seconds) == shown
