"""What ``bringup run`` promises about the bundled recording."""

import json
import xml.etree.ElementTree as ET

import pytest

AUDIT = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith("socket.") else None)
import atexit
atexit.register(lambda: sys.stderr.write("AUDITED " + ",".join(seen) + "\\n"))
"""
STAGES = ["bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50"]


def without_run(lines):
    """Everything but the line that names the run and its wall time."""
    return [line for line in lines if line["kind"] != "run"]


def measured(done):
    return {
        (line["case"], line["name"], (line["part"] or {}).get("slot")): line["value"]
        for line in done.lines
        if line["kind"] == "measurement"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One complete replay, in process of its own."""
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("whole")
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    (run,) = [path for path in (folder / "reports").iterdir() if not path.is_symlink()]
    return done, run, [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]


def test_the_bundled_recording_passes_all_seven_stages(whole):
    done, _, lines = whole
    assert done.returncode == 0, done.stdout + done.stderr
    ended = [line["stage"] for line in lines if line["kind"] == "stage" and line["state"] == "ended"]
    assert list(dict.fromkeys(ended)) == STAGES
    assert {line["outcome"] for line in lines if line["kind"] == "case"} == {"passed"}
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["verdict"] == "PASSED"


def test_the_first_line_says_that_no_machine_is_touched_and_where_the_recording_is_from(whole):
    first = whole[0].stdout.splitlines()[0]
    assert first.startswith("REPLAY")
    assert "no machine is touched" in first
    assert "'model'" in first


def test_the_last_line_is_the_path_of_the_report(whole):
    done, run, _ = whole
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("report: ")
    assert last.endswith(f"{run.name}/report.html")
    assert (run / "report.html").is_file()
    assert (run / "junit.xml").is_file()


def test_nothing_in_a_replay_says_qualified(whole):
    done, run, _ = whole
    for text in (done.stdout, (run / "report.html").read_text(), (run / "junit.xml").read_text()):
        assert "qualified" not in text.lower()


def test_every_slot_has_its_case_in_the_per_slot_checks(whole):
    lines = whole[2]
    slots = {line["slot"] for line in lines if line["kind"] == "case" and line["slot"]}
    assert len(slots) == 20
    for check in ("pcie.width", "gpu.ecc", "p2p.integrity", "resnet50.hash"):
        assert {line["slot"] for line in lines if line["kind"] == "case" and line["check"] == check} == slots


def test_all_ordered_pairs_are_measured_for_integrity(whole):
    pairs = [line for line in whole[2] if line["kind"] == "measurement" and line["check"] == "p2p.integrity"]
    assert len({line["name"] + str(line["part"]) for line in pairs}) >= 380


def test_no_socket_is_touched_in_the_whole_process(bringup):
    done = bringup("run", prelude=AUDIT)
    assert done.status == 0, done.out + done.err
    assert done.err.splitlines()[-1] == "AUDITED "


def test_two_replays_write_the_same_record_but_for_run_and_wall_time(bringup):
    first, second = bringup("run"), bringup("run")
    assert without_run(first.lines) == without_run(second.lines)
    (a,), (b,) = ([line for line in done.lines if line["kind"] == "run"] for done in (first, second))
    assert {key for key in a if a[key] != b[key]} <= {"id", "started"}


@pytest.mark.parametrize("stage", STAGES)
def test_one_stage_alone_measures_what_it_measures_in_the_whole_run(bringup, whole, stage):
    alone = bringup("run", "--stage", stage)
    assert alone.status == 0, alone.out + alone.err
    lines = whole[2]
    values = {
        (line["case"], line["name"], (line["part"] or {}).get("slot")): line["value"]
        for line in lines
        if line["kind"] == "measurement" and line["check"].startswith(f"{stage}.")
    }
    own = {key: value for key, value in measured(alone).items() if key[0].startswith(f"{stage}.")}
    assert own == values


def test_the_record_renders_again_to_the_same_files(bringup):
    done = bringup("run", "--stage", "bmc")
    before = {name: (done.run_folder / name).read_text() for name in ("junit.xml", "report.html")}
    again = bringup("report", "latest", folder=done.folder)
    assert again.status == 0, again.err
    assert {name: (done.run_folder / name).read_text() for name in before} == before


def test_junit_counts_what_it_holds(whole):
    suites = ET.fromstring((whole[1] / "junit.xml").read_text())
    for suite in suites.iter("testsuite"):
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
    names = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert len(names) == len(set(names))
    assert sum(name == "verdict" for _, name in names) == 1


def test_a_tape_of_one_stage_replays_that_stage_and_says_that_the_others_are_not_on_it(bringup, tmp_path):
    recorded = bringup("run", "--bench", "model-lqd8360", "--record", "--stage", "bmc", "--tapes", "own", folder=tmp_path)
    assert recorded.status == 0, recorded.out + recorded.err
    done = bringup("run", "--tapes", str(tmp_path / "own"))
    assert done.status == 0, done.out + done.err
    assert {line["stage"] for line in done.cases.values()} == {"bmc"}
    assert {line["stage"] for line in done.lines if line["kind"] == "stage" and line["state"] == "not run"} == set(STAGES[1:])
    assert "not run: bios, boot" in done.out.replace("\n", " ")


@pytest.fixture
def own_copy(tmp_path):
    """The bundled recording below ./fixtures of an empty folder, to be changed."""
    import shutil

    from harness import locator

    shutil.copytree(locator.find_tape("model-lqd8360"), tmp_path / "fixtures" / "tapes" / "model-lqd8360")
    return tmp_path / "fixtures" / "tapes" / "model-lqd8360"


def test_a_recording_of_another_bench_is_not_replayed_under_this_one_s_name(bringup, own_copy, tmp_path):
    header = own_copy / "tape.toml"
    header.write_text(header.read_text().replace('bench = "model-lqd8360"', 'bench = "r640-09"'))
    done = bringup("run", "--bench", "model-lqd8360", "--replay", folder=tmp_path)
    assert done.status == 4, done.out + done.err
    assert "recorded on bench 'r640-09'" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "reports").exists()


SWALLOWS = """
import pytest
from harness.errors import BringupError

@pytest.mark.check("own.swallows")
def test_swallows(host):
    try:
        host.observe("uname", "-z")
    except BringupError:
        pass
"""


def test_a_question_that_the_recording_cannot_answer_is_loud_even_where_somebody_swallows_it(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(SWALLOWS)
    done = bringup("run", "--stage", "own", "--suite", "test_a.py", folder=tmp_path)
    assert done.cases["own.swallows"]["outcome"] == "passed"
    assert done.status == 4, done.out + done.err
    assert "uname -z" in done.cases["harness.tape-miss"]["message"]
