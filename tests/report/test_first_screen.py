"""What stands before anybody scrolls: the failure that decides the verdict first, what follows from it after, the next command."""

from __future__ import annotations

from dataclasses import replace

from harness.limits import Outcome
from harness.part import Part
from harness.record.entries import MeasurementRecord, StageRecord
from harness.record.lines import CaseOutcome
from harness.report.first_screen import compose


def end(record, verdict, blame, status):
    return replace(record, end=replace(record.end, verdict=verdict, blame=blame, exit=status))


def fail(record, outcomes):
    """The record with some cases failed by the product; ``outcomes`` maps a case's id to its message."""
    cases = tuple(
        replace(case, outcome=CaseOutcome.FAILED, blame="product", message=outcomes[case.id]) if case.id in outcomes else case
        for case in record.cases
    )
    return end(replace(record, cases=cases), "FAILED", "product", 1)


def test_the_lead_is_the_first_failure_of_whoever_decides_the_verdict(on_fire):
    assert compose(on_fire).lead.check == "resnet50.total"
    first = compose(end(on_fire, "FAILED", "product", 1))
    assert first.lead.check == "pcie.count"
    assert first.others == ("pcie.width: jbogA/slot03", "p2p.write (bench): jbogA/slot09", "resnet50.total (harness)")


def test_only_the_places_of_the_lead_are_to_be_looked_at(healthy):
    record = fail(
        healthy, {"pcie.width[jbogA/slot03]": "8 lanes", "gpu.ecc[jbogB/slot10]": "errors", "gpu.ecc[jbogB/slot09]": "errors"}
    )
    first = compose(record)
    assert [(each.place, each.serial) for each in first.suspects] == [("jbogA/slot03", "9990000000003")]
    assert first.others == ("gpu.ecc: jbogB/slot09, jbogB/slot10",)


def test_a_failed_pair_is_named_as_a_pair(healthy):
    case = "p2p.write[jbogA/slot03]"
    value = MeasurementRecord("p2p.bad-bytes", 4, outcome=Outcome.FAIL, part=Part("jbogA/slot03 -> jbogB/slot01"), case=case)
    record = fail(replace(healthy, measurements=(*healthy.measurements, value)), {case: "DATA CORRUPTION x: do not use"})
    first = compose(record)
    assert [each.place for each in first.suspects] == ["jbogA/slot03 -> jbogB/slot01"]
    assert first.alarm.startswith("DATA CORRUPTION")


def test_a_bench_failure_accuses_no_part(on_fire):
    assert compose(end(on_fire, "BROKEN", "bench", 3)).suspects == ()


def test_the_next_command_looks_at_the_stage_that_failed_and_at_a_replay_only_replays(healthy):
    failed = fail(healthy, {"pcie.count": "18 of 20"})
    assert compose(failed).command == "bringup run --bench model-lqd8360 --replay --stage pcie"
    live = replace(failed, run=replace(failed.run, mode="live", faults=("pcie.bars",)))
    assert compose(live).command == "bringup run --bench model-lqd8360 --live --stage pcie --fault pcie.bars"
    assert compose(healthy).command == ""


def test_a_run_that_did_not_end_is_to_be_run_again_as_it_was(killed, interrupted):
    for record in (killed, interrupted):
        first = compose(record)
        assert first.command == "bringup run"
        assert "did not come to its end" in first.command_note


def test_what_was_not_measured_is_counted_by_check_and_stage(healthy):
    missing = {"gpu.ecc[jbogA/slot01]", "gpu.ecc[jbogA/slot02]"}
    cases = tuple(replace(case, outcome=CaseOutcome.NOT_MEASURED) if case.id in missing else case for case in healthy.cases)
    record = replace(healthy, cases=cases, stages=(*healthy.stages[:-1], StageRecord("resnet50", "not run", reason="no [gpu]")))
    assert compose(record).missing == (("gpu.ecc", 2), ("resnet50 (not run: no [gpu])", 1))
    assert compose(healthy).missing == ()


def test_each_stage_is_one_line_with_a_glyph_and_a_word(on_fire, killed):
    lines = {line.summary.stage: line for line in compose(on_fire).lines}
    assert [(lines[name].glyph, lines[name].word) for name in ("bmc", "pcie", "gpu")] == [
        ("✓", "passed"),
        ("✗", "failed"),
        ("?", "not measured"),
    ]
    assert lines["pcie"].account.said == "18 of 20 GPUs are there"
    assert lines["pcie"].lost == "jbogB/slot07"
    assert "for information" in lines["gpu"].remark
    assert {line.word for line in compose(killed).lines if line.summary.stage in ("gpu", "p2p")} == {"not finished"}
