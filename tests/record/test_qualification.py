"""The qualification record: only a whole, sealed, passed live run on hardware has one, and nothing else can get one by accident.

Nobody here has hardware: the record of such a run is written by the tests, line by line.
"""

import json

import jsonschema
import pytest

from harness.limits import at_least
from harness.measurement import Measurement
from harness.part import Part
from harness.record.ledger import Ledger
from harness.record.qualification import FILE_NAME, WHOLE, describe_qualification, objections, schema_text
from harness.record.reader import read_record
from harness.record.seal import write_seal
from harness.report.files import write_reports

SUM = "ab" * 32
WAIVER = {"check": "gpu.ecc", "ticket": "L-1", "owner": "o", "expires": "2027-01-31", "reason": "r", "outcome": "failed"}


@pytest.fixture
def run(tmp_path):
    """The record of a run on hardware, but for what ``changed`` says."""

    def make(*, stages=WHOLE, identity=None, more=(), verdict="PASSED", ended=True, seal=True, **changed):
        file = tmp_path / "run" / "results.jsonl"
        ledger = Ledger(file, str)
        about = {
            "id": "20261201-r640-07",
            "started": "2026-12-01T12:00:00+00:00",
            "mode": "live",
            "source": "hardware",
            "bench": "r640-07",
            "platform": "lqd8360",
            "harness": "0.1.0",
            "checksums": {"bench": SUM, "platform": SUM},
        }
        ledger.write("run", **(about | {"stages": list(stages)} | changed))
        ledger.write("identity", facts={"service_tag": "ABC1234", "bios": "2.21.2"} if identity is None else identity)
        for stage in stages:
            ledger.write("stage", stage=stage, state="started")
            for number, width in ((1, 16), (2, 8)):
                part = Part(f"a/slot{number:02}", serial=f"S{number}")
                taken = Measurement(name=f"{stage}.width", value=width, unit="lanes", limit=at_least(8, "lanes"), part=part)
                ledger.measurement(taken, case=f"{stage}.width[{part.slot}]", check=f"{stage}.width")
                ledger.write("case", case=f"{stage}.width[{part.slot}]", check=f"{stage}.width", stage=stage, outcome="passed")
            ledger.write("stage", stage=stage, state="ended", gate="open")
        for line in more:
            ledger.write("case", check="gpu.ecc", stage="gpu", **line)
        if ended:
            ledger.write("end", verdict=verdict, exit=0)
        ledger.close()
        if seal:
            write_seal(file)
        return read_record(file)

    return make


def test_a_whole_run_on_hardware_is_written_with_its_reports_and_holds_its_schema(run):
    record = run(more=[{"case": "gpu.ecc", "outcome": "waived", "waiver": WAIVER}])
    assert objections(record) == []
    written = write_reports(record.path.parent).qualification
    assert written.name == FILE_NAME
    told = json.loads(written.read_text())
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(told)
    assert told["machine"]["service_tag"] == "ABC1234"
    assert [(part["slot"], part["serial"]) for part in told["parts"]] == [("a/slot01", "S1"), ("a/slot02", "S2")]
    (width,) = [each for each in told["measured"] if each["check"] == "pcie.width"]
    assert width["cases"] == 2
    (value,) = width["values"]
    assert (value["least"], value["most"], value["margin"], value["limit"]) == (8, 16, 0, ">= 8 lanes")
    assert told["waived"] == [{"case": "gpu.ecc", **WAIVER}]
    assert set(told["checksums"]) == {"bench", "platform", "record"}


def test_what_was_not_measured_is_listed_with_its_reason(run):
    told = describe_qualification(
        run(
            more=[
                {"case": "gpu.ecc[a/slot01]", "outcome": "not measured", "message": "the driver does not tell"},
                {"case": "gpu.ecc[a/slot02]", "outcome": "not applicable", "message": "no ECC"},
            ]
        )
    )
    assert told["not_measured"] == [
        {"what": "gpu.ecc[a/slot01]", "is": "not measured", "why": "the driver does not tell"},
        {"what": "gpu.ecc[a/slot02]", "is": "not applicable", "why": "no ECC"},
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mode": "replay"}, "it is a replay: no machine was touched"),
        ({"source": "model"}, "its machine is no hardware but model"),
        ({"source": "virtual-lab"}, "its machine is no hardware but virtual-lab"),
        ({"source": "Hardware"}, "its machine is no hardware"),
        ({"source": ""}, "of unknown source"),
        ({"identity": {"service_tag": "X", "simulated": "model"}}, "its machine is no hardware but model"),
        ({"identity": {}}, "did not tell its service tag"),
        ({"faults": ["gpu.ecc"]}, "faults were switched on: gpu.ecc"),
        ({"resumed": {"run": "r0", "stages": ["bios"]}}, "it was resumed from r0"),
        ({"stages": WHOLE[:-1]}, "stages were not run to their end: resnet50"),
        ({"verdict": "INCOMPLETE"}, "it ended INCOMPLETE"),
        ({"ended": False}, "its record is not whole"),
        ({"seal": False}, "not the one that the run sealed"),
        ({"more": [{"case": "gpu.ecc", "outcome": "failed", "blame": "product"}]}, "its record is not whole"),
    ],
)
def test_no_other_run_gets_one(run, changed, says):
    record = run(**changed)
    assert any(says in told for told in objections(record)), objections(record)
    assert write_reports(record.path.parent).qualification is None
    assert not (record.path.parent / FILE_NAME).exists()


def test_a_record_that_was_edited_afterwards_is_none(run):
    record = run(source="model")
    record.path.write_text(record.path.read_text().replace('"source":"model"', '"source":"hardware"'))
    assert objections(read_record(record.path)) == ["its record is not the one that the run sealed"]


def test_a_stage_that_only_ran_for_information_qualifies_nothing(run):
    record = run()
    lines = record.path.read_text().splitlines()
    text = "\n".join(
        line.replace('"information":false', '"information":true') if '"stage":"p2p"' in line else line for line in lines
    )
    assert text.count('"information":true') == 2
    record.path.write_text(text)
    assert any("not run to their end: p2p" in told for told in objections(read_record(record.path)))
