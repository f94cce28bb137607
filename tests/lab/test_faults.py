"""Each fault of the catalogue is caught by the check it names, first; only its listed consequences fail beside it.

Its record is whole, and each line of it is one that the schema knows.
"""

import io
import json
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.lab.catalogue import catalogue
from harness.locator import suites
from harness.record.schema import schema_text

FAULTS = catalogue()
HARMFUL = [fault for fault in FAULTS if not fault.is_benign]
BENIGN = [fault for fault in FAULTS if fault.is_benign]
EXITS = {"product": 1, "bench": 3}
HEALTHY = "healthy"
STAGES = {fault.id.split(".")[0]: fault.id for fault in reversed(FAULTS)}
SAMPLE = {STAGES[stage] for stage in ("bmc", "bios", "pcie", "p2p", "benign")}
"""One of each of these stages and a benign one run by default; a whole run for every other one is for CI."""


def params(faults):
    return [pytest.param(fault, id=fault.id, marks=() if fault.id in SAMPLE else pytest.mark.slow) for fault in faults]


@dataclass(frozen=True)
class Ending:
    """How one case of one run ended."""

    id: str
    check: str
    stage: str
    outcome: str
    blame: str
    message: str

    @property
    def failed(self) -> bool:
        return self.outcome in ("failed", "error")


def run_with(fault: str) -> tuple[int, list[Ending], list[str]]:
    """One whole run on the model; the exit status, how each case ended, and what the schema says of the record."""
    from harness.plugin.launch import launch
    from harness.plugin.settings import Settings

    faults = () if fault == HEALTHY else (fault,)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        run = launch(Settings(bench="model-lqd8360", mode="live", faults=faults, report=Path(folder)))
        lines = [json.loads(line) for line in (run.folder / "results.jsonl").read_text().splitlines()]
    endings = [Ending(case.id, case.check, case.stage, case.outcome, case.blame, case.message) for case in run.cases]
    return run.verdict.exit, endings, complaints(lines)


def complaints(lines):
    """What the schema says of the lines; of measurements, which are most of them and all alike, of every fifth."""
    validator = Draft202012Validator(json.loads(schema_text()))
    measured = [line for line in lines if line["kind"] == "measurement"]
    chosen = [line for line in lines if line["kind"] != "measurement"] + measured[::5]
    told = [f"line {line['seq']}: {found.message[:200]}" for line in chosen for found in validator.iter_errors(line)]
    return told if lines[-1]["kind"] == "end" else [*told, "the record has no end"]


@pytest.fixture(scope="module")
def swept():
    """The run with a fault, in a process of its own, by the fault's id; each runs once."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        yield cache(lambda fault: pool.submit(run_with, fault).result())


@pytest.fixture
def healthy(swept):
    return swept(HEALTHY)


def test_the_healthy_model_passes_every_case(healthy):
    status, cases, complaints = healthy
    assert [case for case in cases if case.outcome != "passed"] == []
    assert (status, complaints) == (0, [])


def test_fault_ids_are_unique():
    assert [fault for fault, count in Counter(fault.id for fault in FAULTS).items() if count > 1] == []


def test_there_are_at_least_fifteen_faults_and_three_benign_ones():
    assert len(HARMFUL) >= 15
    assert len(BENIGN) >= 3


def test_every_check_of_the_suites_has_a_fault_that_fails_it(healthy):
    _, cases, _ = healthy
    checks = {case.check for case in cases}
    caught = {fault.caught_by for fault in HARMFUL}
    assert checks - caught == set()
    assert caught - checks == set()
    assert {file.parent.name for file in suites().rglob("test_*.py")} == {case.stage for case in cases}


@pytest.mark.parametrize("fault", params(HARMFUL))
def test_a_fault_is_caught_by_its_check_first(swept, healthy, fault):
    status, cases, complaints = swept(fault.id)
    failed = [case for case in cases if case.failed]
    assert failed, f"nothing failed; outcomes {Counter(case.outcome for case in cases)}"
    assert failed[0].check == fault.caught_by, [(case.id, case.message[:120]) for case in failed[:5]]
    assert {case.check for case in failed} <= {fault.caught_by, *fault.consequences}, [case.id for case in failed]
    assert {case.blame for case in failed if case.check == fault.caught_by} == {fault.blame.value}
    assert all(case.message.strip() for case in failed)
    assert (status, complaints) == (EXITS[fault.blame.value], [])
    assert sorted(case.id for case in cases) == sorted(case.id for case in healthy[1])


@pytest.mark.parametrize("fault", params(BENIGN))
def test_a_benign_fault_fails_nothing(swept, healthy, fault):
    status, cases, complaints = swept(fault.id)
    assert [(case.id, case.outcome, case.message[:200]) for case in cases if case.outcome != "passed"] == []
    assert (status, complaints) == (0, [])
    assert [case.id for case in cases] == [case.id for case in healthy[1]]
