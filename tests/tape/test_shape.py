from hypothesis import given
from hypothesis import strategies as st

from harness.tape.shape import drifted, merge, shape_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def drift(recorded, live):
    return list(drifted(merge(map(shape_of, recorded)), merge(map(shape_of, live))))


def test_values_are_no_shape():
    assert drift([{"Temperature": 20, "Serial": "A"}], [{"Temperature": 99.5, "Serial": "B"}]) == []
    assert drift([{"Members": [{"Id": "1"}]}], [{"Members": [{"Id": "1"}, {"Id": "2"}]}]) == []


def test_nothing_says_nothing():
    assert drift([{"Value": 3}], [{"Value": None}]) == []
    assert drift([{"Value": None}], [{"Value": 3}]) == []
    assert drift([{"Members": []}], [{"Members": [{"Id": "1"}]}]) == []
    assert drift([{"Members": [{"Id": "1"}]}], [{"Members": []}]) == []


def test_a_member_that_is_gone_or_new_is_told_with_its_place():
    assert drift([{"Bios": {"Version": "2"}}], [{"Bios": {}}]) == ["Bios.Version is gone"]
    assert drift([{"Bios": {}}], [{"Bios": {"Version": "2"}}]) == ["Bios.Version is new"]
    assert drift([{"Members": [{"Id": "1", "Name": "x"}]}], [{"Members": [{"Id": "1"}]}]) == ["Members[].Name is gone"]


def test_a_member_that_not_every_one_had_may_be_missing():
    assert drift([{"Members": [{"Id": "1", "Part": "x"}, {"Id": "2"}]}], [{"Members": [{"Id": "1"}]}]) == []


def test_a_value_of_another_kind_is_told_once():
    assert drift([{"Width": 16}], [{"Width": "x16"}]) == ["Width is text, recorded as number"]
    assert drift([{"Links": {"a": 1}}], [{"Links": ["a"]}]) == ["Links is list, recorded as object"]
    assert drift([[1]], [{"a": 1}]) == ["the answer is object, recorded as list"]


def test_numbers_are_of_one_kind_and_truth_values_are_none():
    assert drift([{"a": 1}], [{"a": 1.5}]) == []
    assert drift([{"a": 1}], [{"a": True}]) == ["a is truth value, recorded as number"]


@given(st.lists(JSON, min_size=1, max_size=4))
def test_nothing_drifts_from_itself(values):
    assert drift(values, values) == []


@given(st.lists(JSON, min_size=2, max_size=4))
def test_one_of_what_was_recorded_is_no_drift(values):
    assert [line for line in drift(values, values[:1]) if "is gone" not in line] == []
