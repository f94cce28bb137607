"""Renderings for other programs hold what the record holds, and whatever a machine said stays text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from datetime import datetime

import pytest

from harness.limits import Outcome
from harness.report.formats import NAMES, render_as
from harness.report.formats.ocp import render_ocp
from harness.report.formats.prometheus import render_prometheus
from harness.report.formats.rows import COLUMNS, render_csv

SAMPLE = re.compile(r'(?P<name>[a-z_]+)\{(?P<labels>(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*)\} (?P<value>\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)"')


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qualification"])
def test_a_format_renders_the_same_twice(name, on_fire):
    assert render_as(name)(on_fire) == render_as(name)(on_fire)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qualification"])
def test_a_waived_case_without_its_waiver_is_rendered_all_the_same(name, tell):
    record = tell(outcomes={"pcie.width[jbogA/slot03]": ("waived", "product", "x8")})
    text = render_as(name)(record)
    assert ("; 1 waived" in text) == (name not in ("csv", "prometheus"))
    assert "waived" in text


def test_whatever_a_machine_said_stays_text(hostile):
    for name in ("ocp", "md"):
        render_as(name)(hostile).encode("utf-8")
    samples = prometheus(hostile)
    keys = Counter((name, tuple(sorted(labels.items()))) for name, labels, _ in samples)
    assert max(keys.values()) == 1
    for row in csv.reader(io.StringIO(render_csv(hostile))):
        for cell in row:
            assert not cell.startswith(("=", "+", "@"))
            assert not re.match(r"-[^\d]", cell)


def test_csv_has_a_row_for_every_measurement(on_fire):
    rows = list(csv.DictReader(io.StringIO(render_csv(on_fire))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(on_fire.measurements) > 0
    assert Counter(row["outcome"] for row in rows) == Counter(each.outcome.value for each in on_fire.measurements)
    assert {row["service_tag"] for row in rows} == {on_fire.identity["service_tag"]}


def prometheus(record):
    families, samples = {}, []
    for line in render_prometheus(record).splitlines():
        if line.startswith("# TYPE "):
            families[line.split()[2]] = line.split()[3]
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            samples.append((found["name"], dict(LABEL.findall(found["labels"])), float(found["value"])))
    assert {name for name, _, _ in samples} <= set(families)
    return samples


def test_prometheus_samples_are_well_formed_and_none_stands_twice(healthy, on_fire):
    for record in (healthy, on_fire):
        samples = prometheus(record)
        keys = Counter((name, tuple(sorted(labels.items()))) for name, labels, _ in samples)
        assert max(keys.values()) == 1


def test_exactly_one_verdict_is_one(on_fire):
    verdicts = {labels["verdict"]: value for name, labels, value in prometheus(on_fire) if name == "bringup_run_verdict"}
    assert [verdict for verdict, value in verdicts.items() if value == 1] == [on_fire.end.verdict]


def test_prometheus_says_where_the_answers_came_from(healthy):
    assert {labels["source"] for _, labels, _ in prometheus(healthy)} == {"model"}
    assert {labels["mode"] for _, labels, _ in prometheus(healthy)} == {"replay"}


def ocp(record):
    return [json.loads(line) for line in render_ocp(record).splitlines()]


def test_ocp_lines_are_numbered_and_bear_the_times_of_the_run(on_fire):
    lines = ocp(on_fire)
    assert lines[0]["schemaVersion"]["major"] == 2
    assert [line["sequenceNumber"] for line in lines] == list(range(len(lines)))
    started = datetime.fromisoformat(on_fire.run.started)
    times = [datetime.fromisoformat(line["timestamp"]) for line in lines]
    assert times[0] == started
    assert all((time - started).total_seconds() <= on_fire.end.at + 0.001 for time in times)


def test_ocp_has_every_measured_value_and_one_diagnosis_a_case(on_fire):
    steps = [line["testStepArtifact"] for line in ocp(on_fire) if "testStepArtifact" in line]
    measured = [step["measurement"] for step in steps if "measurement" in step]
    diagnoses = [step["diagnosis"] for step in steps if "diagnosis" in step]
    assert len(measured) == sum(each.value is not None for each in on_fire.measurements)
    assert len(diagnoses) == len(on_fire.cases)
    failed = [case for case in on_fire.cases if case.outcome == "failed" and case.blame == "product"]
    assert sum(diagnosis["type"] == "FAIL" for diagnosis in diagnoses) == len(failed) > 0
    assert any(each["validators"] for each in measured)


def test_ocp_calls_a_failure_of_bench_or_harness_no_failure_of_the_machine(on_fire):
    blamed = {case.blame for case in on_fire.cases if case.has_failed}
    verdicts = [line["testStepArtifact"]["diagnosis"] for line in ocp(on_fire) if "diagnosis" in line.get("testStepArtifact", {})]
    for diagnosis in verdicts:
        if diagnosis["verdict"].endswith(("-bench", "-harness")):
            assert diagnosis["type"] == "UNKNOWN"
    assert {"product"} <= blamed


def test_the_validators_of_ocp_judge_as_the_limit_did(healthy):
    """A reader of the file comes to the same outcome by the validators alone."""
    rules = {
        "EQUAL": lambda value, bound: value == bound,
        "GREATER_THAN_OR_EQUAL": lambda value, bound: value >= bound,
        "LESS_THAN_OR_EQUAL": lambda value, bound: value <= bound,
        "IN_SET": lambda value, bound: value in bound,
        "REGEX_MATCH": lambda value, bound: re.search(bound, str(value)) is not None,
    }
    seen = 0
    artifacts = [line["testStepArtifact"] for line in ocp(healthy) if "testStepArtifact" in line]
    measured = [artifact["measurement"] for artifact in artifacts if "measurement" in artifact]
    recorded = [each for each in healthy.measurements if each.value is not None]
    for entry, original in zip(measured, recorded, strict=True):
        for validator in entry["validators"]:
            seen += 1
            holds = rules[validator["type"]](entry["value"], validator["value"])
            assert holds or original.outcome is Outcome.FAIL
    assert seen > 0
