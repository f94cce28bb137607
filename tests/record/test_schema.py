"""The schema of results.jsonl knows what the harness writes, and the harness reads what its first release wrote."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.limits import Outcome
from harness.measurement import Measurement
from harness.record.ledger import Ledger
from harness.record.lines import LINES, SCHEMA, CaseOutcome
from harness.record.reader import read_record
from harness.record.schema import schema_text
from harness.record.verdict import EXITS

SCHEMA_DOCUMENT = json.loads(schema_text())
VALIDATOR = Draft202012Validator(SCHEMA_DOCUMENT)
FIRST = Path(__file__).with_name("results-first.jsonl")
"""What the first release wrote of the model with one GPU, the fault gpu.ecc and the stages bmc and gpu."""


def complaints(lines):
    return [
        f"line {line.get('seq')} ({line.get('kind')}): {list(found.path)} {found.message[:200]}"
        for line in lines
        for found in VALIDATOR.iter_errors(line)
    ]


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA_DOCUMENT)
    assert SCHEMA_DOCUMENT["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA_DOCUMENT["$id"].endswith(f":{SCHEMA}")
    assert SCHEMA_DOCUMENT["$defs"]["run"]["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize("kind", LINES)
def test_the_schema_has_every_key_of_every_kind_of_line(kind):
    assert set(SCHEMA_DOCUMENT["$defs"][kind]["properties"]) == {key for key, _ in LINES[kind]}
    assert any(each["if"]["properties"]["kind"]["const"] == kind for each in SCHEMA_DOCUMENT["allOf"])


def test_the_schema_has_the_words_of_the_record():
    kinds = SCHEMA_DOCUMENT["$defs"]
    assert kinds["case"]["properties"]["outcome"]["enum"] == list(CaseOutcome)
    assert kinds["measurement"]["properties"]["outcome"]["enum"] == list(Outcome)
    assert set(kinds["end"]["properties"]["verdict"]["enum"]) == set(EXITS)
    assert set(kinds["end"]["properties"]["exit"]["enum"]) == set(EXITS.values())


def test_what_the_first_release_wrote_is_valid_and_read():
    lines = lines_of(FIRST)
    assert complaints(lines) == []
    assert any(line["kind"] == "measurement" and "bounds" not in line for line in lines)
    assert "checksums" not in lines[0]
    record = read_record(FIRST)
    assert record.closed
    assert (record.run.mode, record.run.source, record.end.verdict) == ("live", "model", "FAILED")
    assert len(record.cases) == sum(line["kind"] == "case" for line in lines) > 5
    assert len(record.measurements) == sum(line["kind"] == "measurement" for line in lines) > 3
    assert {case.check for case in record.failed()} == {"gpu.driver-bound"}
    assert record.run.checksums == {}
    assert record.extras == record.others == ()


GOOD = {line["kind"]: line for line in lines_of(FIRST)} | {
    "exhibit": {"seq": 9, "kind": "exhibit", "name": "boot", "version": 1, "data": {}, "at": 1.5},
    "note": {"seq": 9, "kind": "note", "text": "a note"},
}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("run", "mode", "dry"),
        ("run", "source", "hardware "),
        ("run", "schema", 2),
        ("run", "tape", "r640-07"),
        ("run", "apply", "yes"),
        ("run", "checksums", {"bench": "sha256:ab"}),
        ("identity", "facts", {"bios": 2}),
        ("plan", "cases", [{"case": "pcie.width"}]),
        ("stage", "state", "going"),
        ("stage", "gate", "ajar"),
        ("stage", "gate", None),
        ("measurement", "value", [16]),
        ("measurement", "value", None),
        ("measurement", "outcome", "passed"),
        ("measurement", "outcome", "not measured"),
        ("measurement", "bounds", {"kind": "about", "values": [1]}),
        ("measurement", "bounds", {"kind": "exactly", "values": []}),
        ("measurement", "part", {"serial": "1"}),
        ("case", "outcome", "pass"),
        ("case", "blame", "nobody"),
        ("case", "information", 0),
        ("case", "took", -1),
        ("exhibit", "version", 0),
        ("exhibit", "data", []),
        ("handover", "text", None),
        ("note", "text", 7),
        ("end", "verdict", "QUALIFIED"),
        ("end", "exit", 2),
    ],
)
def test_the_schema_refuses_what_no_run_writes(kind, key, value):
    line = copy.deepcopy(GOOD[kind])
    assert complaints([line]) == []
    line[key] = value
    assert complaints([line])


@pytest.mark.parametrize("kind", GOOD)
def test_the_schema_misses_a_key_that_every_release_wrote(kind):
    wanted = SCHEMA_DOCUMENT["$defs"][kind]["required"]
    for key in [*wanted, "seq", "kind"]:
        assert complaints([{name: value for name, value in GOOD[kind].items() if name != key}]), key


def test_unknown_kinds_and_keys_are_valid_and_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    first, *rest = lines_of(FIRST)
    lines = [{**first, "weather": "rain"}, *rest, {"seq": len(rest) + 2, "kind": "weather", "rain": True}]
    assert complaints(lines) == []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    record = read_record(path)
    assert record.closed
    assert record.others == ({"seq": len(rest) + 2, "kind": "weather", "rain": True},)
    assert record.extras == ({"seq": 1, "kind": "run", "weather": "rain"},)


class Mute:
    def __str__(self):
        raise ValueError


def test_whatever_a_check_measures_the_line_is_valid(tmp_path):
    ledger = Ledger(tmp_path / "results.jsonl", str)
    values = [None, True, 0, -1.5, 1e300, float("nan"), float("inf"), "", "\ud800", "x" * 100_000, 10**30]
    for value in values:
        ledger.measurement(Measurement("own.value", value, at=0.0), case="own.value", check="own.value")
    ledger.write("case", case="own.value", check="own.value", stage="own", outcome="passed", title=Mute(), message=b"\xff")
    ledger.close()
    lines = lines_of(tmp_path / "results.jsonl")
    assert len(lines) == len(values) + 1
    told = complaints(line for line in lines if line["kind"] == "measurement")
    assert told == []


def run(folder, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "BRINGUP"))}
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", *arguments, "--report", str(folder)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (folder / "latest").exists(), done.stdout + done.stderr
    return lines_of(folder / "latest" / "results.jsonl")


def test_every_line_of_the_bundled_run_is_valid(tmp_path):
    lines = run(tmp_path)
    assert {line["kind"] for line in lines} >= set(LINES) - {"note"}
    assert complaints(lines) == []
    assert set(lines[0]["checksums"]) == {"bench", "platform"}


@pytest.mark.slow
def test_every_line_of_the_virtual_machines_run_is_valid(tmp_path):
    lines = run(tmp_path, "--bench", "virtual-r640", "--replay")
    assert complaints(lines) == []
    assert any(line.get("state") == "not run" for line in lines)
