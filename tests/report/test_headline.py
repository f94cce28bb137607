"""The first line says verdict, fault, live or replay, source, machine and firmware, and never claims too much."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.procedures.stages import STAGES
from harness.record.entries import CaseRecord, EndRecord, Record, RunInfo, TapeInfo
from harness.record.lines import CaseOutcome
from harness.report.headline import ALL_STAGES, headline

TAPE = TapeInfo("r640-07", "2026-03-02T10:00:00+00:00")
FACTS = {"service_tag": "ST-0001", "system": "PowerEdge R640", "bios": "2.12.2", "idrac": "5.10.30.00"}
PASSED = CaseRecord("pcie.count", "pcie.count", "pcie")
ENDS = {
    "PASSED": EndRecord("PASSED", "", 0),
    "FAILED": EndRecord("FAILED", "product", 1),
    "BROKEN": EndRecord("BROKEN", "bench", 3),
    "INCOMPLETE": EndRecord("INCOMPLETE", "", 3),
    "HARNESS ERROR": EndRecord("HARNESS ERROR", "harness", 4),
    "INTERRUPTED": EndRecord("INTERRUPTED", "", 130),
}


def record(word: str | None = "PASSED", *, mode: str = "replay", source: str = "hardware", **changes: object) -> Record:
    run = RunInfo(mode=mode, source=source, tape=TAPE if mode == "replay" else None, faults=changes.pop("faults", ()))  # type: ignore[arg-type]
    end = None if word is None else ENDS[word]
    return replace(Record(run, identity=FACTS, cases=(PASSED,), end=end), **changes)


def test_a_replay_of_hardware_gives_the_date_and_says_that_no_machine_was_touched():
    assert headline(record()) == (
        "PASSED: nothing failed, 1 case passed | REPLAY of tape r640-07, recorded 2026-03-02 from hardware; no machine was touched"
        " | PowerEdge R640, service tag ST-0001, BIOS 2.12.2, iDRAC 5.10.30.00"
    )


@pytest.mark.parametrize("mode", ["live", "replay", "record"])
@pytest.mark.parametrize(
    ("source", "said"), [("model", "simulated machine (model)"), ("virtual-lab", "simulated machine (virtual lab, QEMU)")]
)
def test_nothing_simulated_is_called_hardware(mode, source, said):
    assert said in headline(record(mode=mode, source=source))
    assert "hardware" not in headline(record(mode=mode, source=source))


@pytest.mark.parametrize("word", [*ENDS, None])
@pytest.mark.parametrize("mode", ["live", "replay", "record"])
@pytest.mark.parametrize("source", ["hardware", "virtual-lab", "model", ""])
def test_no_headline_says_qualified_and_only_a_replay_says_that_nothing_was_touched(word, mode, source):
    line = headline(record(word, mode=mode, source=source))
    assert "qualif" not in line.lower()
    assert line.startswith(word or "UNFINISHED")
    assert ("no machine was touched" in line) is (mode == "replay")
    assert ("REPLAY" in line, "LIVE" in line) == (mode == "replay", mode != "replay")


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("FAILED", "the product's fault"),
        ("BROKEN", "the bench's fault"),
        ("HARNESS ERROR", "the harness's or the recording's fault"),
    ],
)
def test_the_fault_follows_the_verdict(word, fault):
    assert headline(record(word)).startswith(f"{word}: {fault} |")


def test_a_bench_that_broke_before_anything_was_judged_says_so():
    refused = CaseRecord("bmc.auth", "bmc.auth", "bmc", CaseOutcome.FAILED, blame="bench", message="401")
    blocked = CaseRecord("pcie.count", "pcie.count", "pcie", CaseOutcome.BLOCKED)
    line = headline(record("BROKEN", mode="live", cases=(refused, blocked), identity={}))
    assert line == "BROKEN: the bench's fault; the machine was not judged | LIVE on hardware | machine not identified"


def test_an_incomplete_run_counts_what_is_missing():
    cases = (
        PASSED,
        CaseRecord("a", "a", outcome=CaseOutcome.NOT_MEASURED),
        CaseRecord("b", "b", outcome=CaseOutcome.BLOCKED),
        CaseRecord("c", "c", outcome=CaseOutcome.BLOCKED),
    )
    assert headline(record("INCOMPLETE", cases=cases)).startswith("INCOMPLETE: nothing failed, but 1 not measured, 2 blocked |")
    assert headline(record("INCOMPLETE", cases=())).startswith("INCOMPLETE: nothing failed, but nothing was judged |")


def test_a_record_without_an_end_says_unfinished_and_what_failed_so_far():
    failed = CaseRecord("pcie.width", "pcie.width", "pcie", CaseOutcome.FAILED, blame="product")
    assert headline(record(None)).startswith("UNFINISHED: the record has no end (was the run killed?) |")
    line = headline(record(None, cases=(PASSED, failed)))
    assert line.startswith("UNFINISHED: the record has no end (was the run killed?); 1 failed so far (the product's fault) |")


def test_a_record_cut_after_its_end_is_unfinished_and_a_damaged_one_is_damaged():
    assert headline(record(truncated=True)).startswith("UNFINISHED")
    assert headline(record(damage=("line 7 is no JSON object",))).startswith("DAMAGED RECORD: line 7 is no JSON object |")


def test_an_interrupted_run_says_what_had_failed():
    failed = CaseRecord("pcie.width", "pcie.width", "pcie", CaseOutcome.FAILED, blame="product")
    assert "INTERRUPTED: stopped before its end; 1 failed so far (the product's fault)" in headline(
        record("INTERRUPTED", cases=(failed,))
    )


def test_faults_that_were_switched_on_are_named():
    assert "simulated machine (model), faults switched on: p2p.integrity" in headline(
        record(source="model", faults=("p2p.integrity",))
    )


def test_a_verdict_of_a_later_version_is_shown_and_explained():
    line = headline(record(end=EndRecord("SPLENDID", "", 0)))
    assert line.startswith("SPLENDID: a verdict this version does not know")


def test_missing_facts_are_unknown():
    line = headline(record(identity={"system": "PowerEdge R640"}))
    assert line.endswith("PowerEdge R640, service tag unknown, BIOS unknown, iDRAC unknown")


@given(st.text(), st.text(), st.text())
def test_it_is_always_one_printable_line(tag, bios, mode):
    line = headline(replace(record(), run=RunInfo(mode=mode, source=tag), identity={"service_tag": tag, "bios": bios}))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (("bmc",), "; only stage bmc |"),
        (("bmc", "pcie", "own"), "; only stages bmc, pcie |"),
        ((), " passed |"),
        (ALL_STAGES, " passed |"),
    ],
)
@pytest.mark.parametrize("word", ["PASSED", "FAILED", "INTERRUPTED", None])
def test_a_selection_of_stages_is_said_beside_every_verdict(stages, said, word):
    whole = record(word)
    line = headline(replace(whole, run=replace(whole.run, stages=stages)))
    assert ("; only stage" in line) == ("; only stage" in said)
    assert word != "PASSED" or said in line
    assert "; only stage" not in said or said in line


def test_all_stages_are_the_ones_that_runs_go_through():
    assert ALL_STAGES == STAGES


@pytest.mark.parametrize("identity", [{}, {"simulated": "model"}, {"service_tag": "", "bios": ""}])
def test_a_machine_that_no_identity_line_names_is_not_identified(identity):
    assert headline(record(identity=identity)).endswith("| machine not identified")
