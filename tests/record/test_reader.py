"""A record is read back as it was written; a broken one is read as far as it goes and never called whole."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageMistake
from harness.limits import Limit, Outcome, at_least, between, exactly, one_of
from harness.measurement import Measurement
from harness.part import Part
from harness.record.entries import EndRecord, PlannedCase, StageRecord, TapeInfo
from harness.record.ledger import Ledger
from harness.record.lines import LINES, CaseOutcome
from harness.record.reader import read_record

RUN = {"seq": 1, "kind": "run", "schema": 1, "id": "r", "mode": "replay", "source": "model", "stages": ["pcie"]}


def write(path: Path) -> Path:
    """A small whole record, as a run writes it."""
    ledger = Ledger(path, str)
    ledger.write(
        "run",
        id="r1",
        started="2026-11-30T12:00:00+00:00",
        mode="replay",
        source="hardware",
        bench="r640-07",
        platform="lqd8360",
        stages=["bmc", "pcie", "gpu"],
        harness="0.1.0",
        tape={"name": "r640-07", "recorded_at": "2026-11-01T00:00:00+00:00"},
        command=["bringup", "run"],
    )
    ledger.write("identity", facts={"service_tag": "ABC1234"})
    ledger.write("plan", cases=[{"case": c, "check": c, "stage": "pcie", "slot": None, "title": ""} for c in ("pcie.a", "pcie.b")])
    ledger.write("stage", stage="gpu", state="not run", reason="no [gpu] table")
    ledger.write("stage", stage="pcie", state="started", at=1.0)
    ledger.measurement(
        Measurement("pcie.a", 8, "lanes", exactly(16, "lanes"), Part("jbogA/slot01"), 2.0), case="pcie.a", check="pcie.a"
    )
    ledger.measurement(Measurement("pcie.loose", 1), case="pcie.a", check="pcie.a")
    ledger.write(
        "case", case="pcie.a", check="pcie.a", stage="pcie", slot="jbogA/slot01", title="T.", outcome="failed", blame="product",
        message="m", information=True, took=0.5, at=3.0, attachments=["evidence/a.log"],
    )  # fmt: skip
    ledger.write("stage", stage="pcie", state="ended", gate="degraded", reason="lost one", lost=["jbogA/slot01"], at=4.0)
    ledger.write("note", text="a note")
    ledger.write("handover", text="nothing left")
    ledger.write("end", verdict="FAILED", blame="product", exit=1, at=5.0)
    ledger.close()
    return path


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "results.jsonl")


def test_a_record_is_read_as_it_was_written(whole):
    record = read_record(whole)
    assert record.closed
    assert (record.run.id, record.run.mode, record.run.source, record.run.stages) == (
        "r1",
        "replay",
        "hardware",
        ("bmc", "pcie", "gpu"),
    )
    assert record.run.tape == TapeInfo("r640-07", "2026-11-01T00:00:00+00:00", "")
    assert record.identity == {"service_tag": "ABC1234"}
    assert record.planned[0] == PlannedCase("pcie.a", "pcie.a", "pcie", None, "")
    assert record.stage("gpu") == StageRecord("gpu", "not run", None, "no [gpu] table", (), None, 0.0)
    assert record.stage("pcie") == StageRecord("pcie", "ended", "degraded", "lost one", ("jbogA/slot01",), 1.0, 4.0)
    case = record.cases[0]
    assert (case.id, case.outcome, case.blame, case.slot, case.information) == ("pcie.a", "failed", "product", "jbogA/slot01", True)
    assert (case.took, case.at, case.attachments, case.title) == (0.5, 3.0, ("evidence/a.log",), "T.")
    assert record.measurements[0].part == Part("jbogA/slot01")
    assert record.measurements[0].outcome is Outcome.FAIL
    assert (record.notes, record.handovers) == (("a note",), ("nothing left",))
    assert record.end == EndRecord("FAILED", "product", 1, 5.0)


def test_the_folder_of_a_run_names_its_record(whole):
    assert read_record(whole.parent).path == whole


def test_measurements_are_found_by_case_and_failures_by_check(whole):
    record = read_record(whole)
    assert [measurement.name for measurement in record.by_case["pcie.a"]] == ["pcie.a", "pcie.loose"]
    assert [case.id for case in record.firsts_failed()] == ["pcie.a"]


def test_a_planned_case_without_a_line_was_never_reached(whole):
    assert [plan.id for plan in read_record(whole).unreached] == ["pcie.b"]


@given(
    value=st.one_of(
        st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none(), st.text()
    ),
    unit=st.sampled_from(["", "GB/s", "lanes"]),
    limit=st.sampled_from([None, at_least(11, "GB/s", marginal=12), exactly("x"), between(1, 2), one_of("a", True, 3)]),
    part=st.sampled_from([None, Part("jbogA/slot01"), Part("jbogA/slot02", "m", "s", "p", "f", "a")]),
    note=st.text(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_a_measurement_read_back_prints_what_it_printed(tmp_path_factory, value, unit, limit: Limit | None, part, note):
    measured = Measurement("name", value, unit, limit, part, 0.0, note)
    ledger = Ledger(tmp_path_factory.mktemp("record") / "results.jsonl", str)
    ledger.write("run")
    ledger.measurement(measured, case="c", check="c")
    ledger.close()
    read = read_record(ledger.path).measurements[0]
    assert str(read) == str(measured).encode("utf-8", "backslashreplace").decode()
    assert read.outcome is measured.outcome


def test_a_record_cut_at_any_byte_is_read_as_far_as_it_goes_and_never_called_whole(whole):
    data = whole.read_bytes()
    first_line = data.index(b"\n")
    cut = whole.with_name("cut.jsonl")
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        if length < first_line:
            with pytest.raises(UsageMistake):
                read_record(cut)
            continue
        record = read_record(cut)
        is_whole = length == len(data) - 1
        assert record.closed is is_whole
        assert record.damage == ()
        ends_in_a_line = data[length - 1 : length] == b"\n" or data[length : length + 1] == b"\n"
        assert record.truncated is not ends_in_a_line


def test_a_tail_of_zero_bytes_is_a_cut_line(whole):
    whole.write_bytes(whole.read_bytes()[:-40] + b"\0" * 4096)
    record = read_record(whole)
    assert record.truncated
    assert not record.closed


def test_a_broken_line_in_the_middle_is_damage(whole):
    lines = whole.read_text().splitlines(keepends=True)
    lines[5] = lines[5][:30] + "\n"
    whole.write_text("".join(lines))
    record = read_record(whole)
    assert record.damage == ("line 6 is no JSON object", "line number 6 is missing or out of place: 7 follows 5")
    assert not record.closed
    assert not record.truncated


@pytest.mark.parametrize("kept", [slice(0, 5), slice(0, 3)])
def test_a_line_that_was_taken_out_is_damage(whole, kept):
    lines = whole.read_text().splitlines(keepends=True)
    del lines[kept.stop]
    whole.write_text("".join(lines))
    assert not read_record(whole).closed
    assert f"line number {kept.stop + 1} is missing" in read_record(whole).damage[0]


def test_a_record_that_claims_to_have_passed_over_a_failed_case_is_damage(whole):
    whole.write_text(
        whole.read_text().replace('"verdict":"FAILED","blame":"product","exit":1', '"verdict":"PASSED","blame":"","exit":0')
    )
    record = read_record(whole)
    assert record.damage == ("the end line says PASSED, but cases failed",)
    assert not record.closed


def test_an_outcome_that_is_none_is_taken_for_an_error(whole):
    whole.write_text(whole.read_text().replace('"outcome":"failed"', '"outcome":"splendid"'))
    record = read_record(whole)
    assert record.cases[0].outcome is CaseOutcome.ERROR
    assert "splendid" in record.damage[0]


def test_lines_of_an_unknown_kind_are_kept(whole):
    with whole.open("a") as file:
        file.write('{"seq":13,"kind":"weather","rain":true}\n')
    record = read_record(whole)
    assert record.others == ({"seq": 13, "kind": "weather", "rain": True},)
    assert record.closed


def test_a_file_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(UsageMistake, match="there is no record; name the folder of a run"):
        read_record(tmp_path / "nowhere")
    with pytest.raises(UsageMistake, match="there is no record"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"\0\0\0", "empty"),
        (b"hello\n", "no record"),
        (b"{}\n", "no record"),
        (b"[1, 2]\n", "no record"),
        (b"\xff\xfe\x00", "no record"),
        (b'{"seq":1,"kind":"note","text":"x"}\n', "no record"),
        (b'{"seq":1,"kind":"run","id":', "no record"),
        (b'{"seq":1,"kind":"run","schema":2}\n', "schema 2 is newer"),
        (b"[" * 100_000, "no record"),
        (b'<?xml version="1.0"?>\n<testsuites/>\n', "no record"),
    ],
)
def test_a_file_that_is_no_record_is_one_clear_line(tmp_path, content, says):
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageMistake, match=says) as raised:
        read_record(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
KEYS = sorted({key for keys in LINES.values() for key, _ in keys} - {"schema", "id"})


@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(["identity", "plan", "stage", "measurement", "case", "handover", "note", "end", "other"]),
            st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8),
        ),
        max_size=4,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_values_in_known_keys_are_read_and_rendered_without_a_traceback(tmp_path_factory, lines):
    from harness.report.headline import headline
    from harness.report.junit import render_junit
    from harness.report.page import render_html

    path = tmp_path_factory.mktemp("record") / "results.jsonl"
    written = [RUN, *({"seq": at, "kind": kind, **fields} for at, (kind, fields) in enumerate(lines, start=2))]
    path.write_text("\n".join(json.dumps(line) for line in written) + "\n")
    record = read_record(path)
    assert headline(record) in unescape(re.sub(r"<[^>]+>", "", render_html(record).partition("<h1")[2]))
    assert render_junit(record).startswith("<?xml")


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
def test_garbage_after_a_run_line_never_gives_a_whole_record(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("record") / "results.jsonl"
    path.write_bytes(json.dumps(RUN).encode() + b"\n" + garbage)
    assert not read_record(path).closed
