"""Each fault of the catalogue is caught by the check it names, first; only its listed consequences fail beside it."""

import io
from collections import Counter
from contextlib import redirect_stdout

import pytest

from harness.lab.catalogue import catalogue
from harness.locator import suites
from harness.plugin.launch import launch
from harness.plugin.settings import Settings
from harness.record.reader import read_record

FAULTS = catalogue()
EXITS = {"product": 1, "bench": 3}


def run_with(tmp_path, *faults):
    with redirect_stdout(io.StringIO()):
        run = launch(Settings(bench="model-lqd8360", mode="live", faults=faults, report=tmp_path))
    return run, read_record(run.folder / "results.jsonl")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return run_with(tmp_path_factory.mktemp("healthy"))


def test_the_healthy_model_passes_every_case(healthy):
    run, _ = healthy
    assert run.verdict.exit == 0
    assert {case.outcome for case in run.cases} == {"passed"}


def test_fault_ids_are_unique_and_sorted_by_nothing_but_stage():
    counts = Counter(fault.id for fault in FAULTS)
    assert [fault for fault, count in counts.items() if count > 1] == []


def test_there_are_at_least_fifteen_faults_and_three_benign_ones():
    assert sum(not fault.is_benign for fault in FAULTS) >= 15
    assert sum(fault.is_benign for fault in FAULTS) >= 3


def test_every_check_of_the_suites_has_a_fault_that_fails_it(healthy):
    run, _ = healthy
    checks = {case.check for case in run.cases}
    caught = {fault.caught_by for fault in FAULTS if fault.caught_by}
    assert checks - caught == set()
    assert caught - checks == set()
    assert {file.parent.name for file in suites().rglob("test_*.py")} == {case.stage for case in run.cases}


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if not fault.is_benign], ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_its_check_first(tmp_path, healthy, fault):
    run, _ = run_with(tmp_path, fault.id)
    failed = [case for case in run.cases if case.failed]
    assert failed, f"nothing failed; outcomes {Counter(case.outcome for case in run.cases)}"
    assert failed[0].check == fault.caught_by, [(case.id, case.message[:120]) for case in failed[:5]]
    assert {case.check for case in failed} <= {fault.caught_by, *fault.consequences}, [case.id for case in failed]
    assert {case.blame for case in failed if case.check == fault.caught_by} == {fault.blame.value}
    assert run.verdict.exit == EXITS[fault.blame.value]
    assert sorted(case.id for case in run.cases) == sorted(case.id for case in healthy[0].cases)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.is_benign], ids=lambda fault: fault.id)
def test_a_benign_fault_fails_nothing(tmp_path, healthy, fault):
    run, _ = run_with(tmp_path, fault.id)
    assert [(case.id, case.outcome, case.message[:200]) for case in run.cases if case.outcome != "passed"] == []
    assert run.verdict.exit == 0
    assert [case.id for case in run.cases] == [case.id for case in healthy[0].cases]
