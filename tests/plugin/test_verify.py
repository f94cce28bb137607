"""``--verify``: a live machine compared in shape with its tape; nothing is written, and drift is the recording's failure."""

import json
import shutil
import subprocess
import sys

import pytest

STAGES = ("--stage", "bmc", "--stage", "pcie")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A fresh tape of the modelled machine, made as a person makes one."""

    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, "-m", "harness", "run", "--bench", "model-lqd8360", "--record", *STAGES]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False).returncode == 0
    return folder / "fixtures" / "tapes" / "model-lqd8360"


@pytest.fixture
def tape(recorded, tmp_path):

    return shutil.copytree(recorded, tmp_path / "tapes" / "model-lqd8360")


def verify(bringup, tape, *more):
    return bringup("run", "--bench", "model-lqd8360", "--verify", *STAGES, "--tapes", str(tape.parent), *more)


def contents(tape):
    return {path: path.read_bytes() for path in tape.rglob("*") if path.is_file()}


def told(done):
    return [line["text"] for line in done.lines if line["kind"] == "note"]


def test_a_machine_that_answers_as_recorded_has_not_drifted(bringup, tape):
    before = contents(tape)
    done = verify(bringup, tape)
    assert done.status == 0, done.out + done.err
    assert any("still has the shape of what the machine answers" in note for note in told(done))
    assert contents(tape) == before


def test_a_property_that_is_gone_is_the_recordings_failure_with_track_and_question(bringup, tape):
    changed = 0
    for body in tape.rglob("*.json*"):
        text = body.read_text()
        if '"SKU"' in text:
            body.write_text(text.replace('"SKU"', '"ServiceTagOfOld"'))
            changed += 1
    assert changed
    before = contents(tape)
    done = verify(bringup, tape)
    assert done.status == 4, done.out + done.err
    assert done.failed == ["harness.tape-drift"]
    (case,) = [line for line in done.cases.values() if line["check"] == "harness.tape-drift"]
    assert case["blame"] == "harness"
    assert "session/contact, GET /redfish/v1/Systems/System.Embedded.1: ServiceTagOfOld is gone" in case["message"]
    assert any("SKU is new" in note for note in told(done))
    assert contents(tape) == before


@pytest.mark.slow
def test_drift_does_not_hide_a_product_failure(bringup, tape):
    (track,) = tape.rglob("contact.jsonl")
    lines = [json.loads(line) for line in track.read_text().splitlines()]
    track.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    done = verify(bringup, tape, "--fault", "pcie.chain-link")
    assert done.status == 1, done.out + done.err
    assert all(case.startswith("pcie.chain-link") for case in done.failed)


def test_without_a_tape_nothing_is_touched(bringup, tmp_path):
    done = bringup("run", "--bench", "model-lqd8360", "--verify", "--tapes", str(tmp_path / "none"))
    assert (done.status, done.out) == (2, "")
    assert "no tape of bench 'model-lqd8360'" in done.err
    assert not (done.folder / "reports").exists()


@pytest.mark.parametrize("other", ["--replay", "--record"])
def test_verify_goes_with_a_live_run_only(bringup, other):
    done = bringup("run", "--bench", "model-lqd8360", "--verify", other)
    assert (done.status, done.out) == (2, "")
