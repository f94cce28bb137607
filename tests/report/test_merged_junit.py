"""Several runs in one JUnit file: nothing is lost, nothing hides another, attachments are still found."""

from pathlib import Path

import pytest
from junitparser import JUnitXml

from harness.record.ledger import Ledger
from harness.record.reader import read_record
from harness.report.junit import merge_junit, render_junit

etree = pytest.importorskip("lxml.etree", reason="pip install 'bringup-harness[test]'")
SCHEMA = etree.XMLSchema(etree.parse(str(Path(__file__).with_name("junit-10.xsd"))))


@pytest.fixture
def run(tmp_path):
    def make(folder, name, *outcomes):
        ledger = Ledger(tmp_path / folder / "results.jsonl", str)
        ledger.write("run", id=name, mode="live", source="hardware", bench="r640-07", stages=["pcie"])
        for number, outcome in enumerate(outcomes):
            attachments = ["evidence/screen.png"] if outcome == "failed" else []
            ledger.write(
                "case",
                case=f"pcie.width[a/slot{number:02}]",
                check="pcie.width",
                stage="pcie",
                outcome=outcome,
                blame="product" if outcome == "failed" else "",
                message="too narrow" if outcome == "failed" else "",
                attachments=attachments,
            )
        ledger.write("end", verdict="FAILED" if "failed" in outcomes else "PASSED", blame="product", exit=int("failed" in outcomes))
        ledger.close()
        return read_record(tmp_path / folder)

    return make


def counts(text):
    suites = JUnitXml.fromstring(text.encode())
    names = [(suite.name, case.classname, case.name) for suite in suites for case in suite]
    skipped = sum(case.is_skipped for suite in suites for case in suite)
    return suites.tests, suites.failures, suites.errors, skipped, names


def test_the_counts_of_many_runs_are_the_sums_and_the_file_is_valid(run):
    records = [run("one", "r1", "passed", "failed"), run("two", "r2", "failed", "not measured"), run("three", "r2", "passed")]
    text = merge_junit(records)
    SCHEMA.assertValid(etree.fromstring(text.encode()))
    tests, failures, errors, skipped, names = counts(text)
    apart = [counts(render_junit(record)) for record in records]
    assert (tests, failures, errors, skipped) == tuple(sum(each[at] for each in apart) for at in range(4))
    assert len(set(names)) == len(names) == tests
    assert {suite for suite, _, _ in names} == {
        f"{name}: {stage}" for name in ("r1", "r2", "r2 (2)") for stage in ("pcie", "bringup")
    }
    assert {(classname, name) for _, classname, name in names if "r2 (2)" in classname} == {
        ("r2 (2).bringup.pcie", "pcie.width[a/slot00]"),
        ("r2 (2).bringup", "verdict"),
    }


def test_attachments_are_named_from_where_the_runs_are(run, tmp_path):
    text = merge_junit([run("one", "r1", "failed"), run("two", "r2", "failed")])
    assert f"[[ATTACHMENT|{tmp_path.as_posix()}/one/evidence/screen.png]]" in text
    assert f"[[ATTACHMENT|{tmp_path.as_posix()}/two/evidence/screen.png]]" in text


def test_hostile_run_ids_stay_text(run):
    text = merge_junit([run("one", "a.b\x00[[ATTACHMENT|/etc/passwd]]<x>", "failed"), run("two", "", "passed")])
    SCHEMA.assertValid(etree.fromstring(text.encode()))
    outputs = [output.text or "" for output in etree.fromstring(text.encode()).iter("system-out")]
    assert sum(output.count("[[ATTACHMENT|") for output in outputs) == 1
