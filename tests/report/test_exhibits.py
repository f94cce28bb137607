"""Reading exhibits back: what is not as expected is left out, and a version of tomorrow is kept and not drawn."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.record.ledger import Ledger
from harness.record.reader import read_record
from harness.report.exhibits import number, objects, rows, text, texts
from harness.report.page import render_html

DATA = {
    "rows": [["a", 1, 1.5], ["b", None, 2], ["c", True, 1.0], ["d", 1], "no row", ["e", 1, math.inf], [3, 1, 1.0]],
    "objects": [{"x": 1}, 3, None],
    "texts": ["a", 1, "b"],
    "text": 5,
    "number": True,
}


def test_rows_of_another_shape_are_left_out():
    assert rows(DATA, "rows", str, int, float) == [("a", 1, 1.5), ("b", None, 2)]
    assert rows(DATA, "nothing", str) == rows({"rows": 3}, "rows", str) == []


def test_values_of_another_kind_are_left_out():
    assert objects(DATA, "objects") == [{"x": 1}]
    assert texts(DATA, "texts") == ["a", "b"]
    assert text(DATA, "text") == ""
    assert number(DATA, "number") is None
    assert number({"n": 3}, "n") == 3


def test_an_exhibit_of_another_version_is_kept_and_not_drawn(tmp_path):
    ledger = Ledger(tmp_path / "results.jsonl", str)
    ledger.write("run", id="r", mode="live", source="hardware", stages=["pcie"])
    ledger.write("exhibit", name="pcie", version=99, data={"anything": 1})
    ledger.write("exhibit", name="boot", data={"console": ["one"]})
    ledger.write("exhibit", name="boot", data={"console": ["two"]})
    ledger.close()
    record = read_record(ledger.path)
    assert dict(record.exhibits) == {"boot": {"console": ["two"]}}
    assert [line["name"] for line in record.others] == ["pcie"]


def test_no_exhibit_can_break_the_page(tmp_path):
    hostile = [
        None,
        3,
        "<script>",
        [],
        [[]],
        {"a": "<b>"},
        [["<script>x</script>"] * 6],
        [[1, 2, 3, 4, 5, 6]],
        [{"path": 3, "slot": ["x"]}],
        float("1e308"),
    ]
    keys = (
        "rows",
        "settings",
        "pending",
        "job",
        "reset",
        "sights",
        "events",
        "console",
        "counts",
        "tree",
        "slots",
        "uplinks",
        "space",
        "gpus",
        "pairs",
        "windows",
        "identity",
    )
    for at, value in enumerate(hostile):
        ledger = Ledger(tmp_path / f"{at}" / "results.jsonl", str)
        ledger.write("run", id="r", mode="live", source="hardware", stages=["pcie"])
        for name in ("firmware", "bios", "boot", "pcie", "p2p", "resnet50"):
            ledger.write("exhibit", name=name, data=dict.fromkeys(keys, value))
        ledger.close()
        page = render_html(read_record(ledger.path))
        assert page.count("<script") == 1
        assert "<b>" not in page


NAMES = ("firmware", "bios", "boot", "pcie", "p2p", "resnet50")
KEYS = (
    *(
        "rows",
        "others",
        "settings",
        "pending",
        "job",
        "reset",
        "restarted",
        "stopped",
        "began",
        "through",
        "reached",
        "usual",
        "within",
    ),
    *("sights", "events", "earlier", "console", "silent", "counts", "tree", "slots", "uplinks", "space", "gpus", "pairs", "links"),
    *(
        "refused",
        "identity",
        "windows",
        "untried",
        "path",
        "bdf",
        "what",
        "gen",
        "width",
        "most",
        "gone",
        "slot",
        "uplink",
        "lost",
        "root",
    ),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
SLOT_PATHS = st.sampled_from(["pci0000:3a/00.0", "pci0000:3a/00.0/00.0", "a/b", "", "x"])
TREES = st.recursive(
    LEAVES | SLOT_PATHS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=40,
)


@given(st.dictionaries(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), TREES, max_size=10)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50, deadline=None)
def test_any_exhibit_at_all_makes_a_page(healthy, exhibits):
    text = render_html(replace(healthy, exhibits=exhibits))
    assert text.count("<script") == 1
    assert text.rstrip().endswith("</html>")
