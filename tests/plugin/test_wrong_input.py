"""Wrong input gets one clear line, leaves nothing half-written and shows no traceback."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from harness import locator

SHIPPED = locator.shipped() / "fixtures"
LIVE_BENCH = """
schema = 1
name = "real"
platform = "lqd8360"
service_tag = "ABC1234"
[bmc]
url = "https://127.0.0.1:{port}"
user = "root"
password = {{ env = "REAL_PASSWORD" }}
pin = "sha256:{pin}"
"""


@pytest.fixture
def folder(tmp_path):
    """A working folder with fixtures of its own that a test can spoil."""
    shutil.copytree(SHIPPED / "benches", tmp_path / "fixtures" / "benches")
    shutil.copytree(SHIPPED / "platforms", tmp_path / "fixtures" / "platforms")
    shutil.copytree(SHIPPED / "tapes", tmp_path / "fixtures" / "tapes")
    return tmp_path


@pytest.fixture
def refused(bringup, folder):
    """Run in the spoiled folder; expect one line on standard error and no report."""

    def run(*arguments, status=2, env=None):
        done = bringup("run", *arguments, folder=folder, env=env)
        assert done.status == status, done.out + done.err
        assert "Traceback" not in done.out + done.err
        lines = done.err.strip().splitlines()
        assert len(lines) == 1, done.err
        assert not (folder / "reports").exists() or not list((folder / "reports").iterdir())
        return lines[0]

    return run


def spoil(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_an_unknown_bench_names_the_nearest(refused):
    assert "did you mean 'model-lqd8360'" in refused("--bench", "model-lqd8630", "--replay")


def test_a_missing_bench_file_is_named(refused):
    assert "no bench file ./nowhere.toml" in refused("--bench", "./nowhere.toml", "--replay").replace(
        "file nowhere", "file ./nowhere"
    )


def test_a_misspelt_key_names_file_key_and_nearest(refused, folder):
    spoil(folder / "fixtures" / "benches" / "model-lqd8360.toml", "service_tag", "servicetag")
    line = refused("--bench", "model-lqd8360", "--live")
    assert "model-lqd8360.toml: servicetag: unknown key" in line
    assert "did you mean 'service_tag'" in line


def test_a_misspelt_platform_key_names_file_key_and_nearest(refused, folder):
    spoil(folder / "fixtures" / "platforms" / "lqd8360.toml", "uncorrected_ecc", "uncorected_ecc")
    assert "lqd8360.toml: gpu.uncorected_ecc: unknown key; did you mean 'uncorrected_ecc'?" in refused()


def test_a_platform_without_slots_is_refused(refused, folder):
    file = folder / "fixtures" / "platforms" / "lqd8360.toml"
    file.write_text(file.read_text().split("[[uplink]]")[0])
    assert "declares no slot" in refused()


def test_a_bench_without_a_mode_is_refused(refused):
    assert "--bench needs --live" in refused("--bench", "model-lqd8360")


def test_contradicting_modes_are_refused(refused):
    assert "excludes" in refused("--bench", "model-lqd8360", "--live", "--replay")


def test_an_unknown_stage_names_the_nearest(refused):
    assert "did you mean 'pcie'" in refused("--stage", "pci")


def test_an_unknown_fault_names_the_nearest(refused):
    assert "did you mean 'pcie.acs'" in refused("--bench", "model-lqd8360", "--live", "--fault", "pcie.asc")


def test_a_fault_in_a_replay_is_refused(refused):
    assert "--live" in refused("--fault", "pcie.acs")


def test_a_missing_suite_is_named(refused):
    assert "no suite nowhere" in refused("--suite", "nowhere")


def test_a_missing_secret_names_the_variable_and_where_it_is_asked_for(refused, folder):
    (folder / "fixtures" / "benches" / "real.toml").write_text(LIVE_BENCH.format(port=1, pin="ab" * 32))
    line = refused("--bench", "real", "--live")
    assert "bmc.password: the environment variable REAL_PASSWORD is not set" in line


def test_a_tape_of_a_newer_schema_is_refused_with_advice(refused, folder):
    tape = folder / "fixtures" / "tapes" / "model-lqd8360" / "tape.toml"
    spoil(tape, "schema = 1", "schema = 99")
    assert "update" in refused(status=4)


def test_a_bench_without_a_tape_says_how_to_record_one(refused, folder):
    shutil.rmtree(folder / "fixtures" / "tapes" / "model-lqd8360")
    (folder / "fixtures" / "benches" / "other.toml").write_text(
        (folder / "fixtures" / "benches" / "model-lqd8360.toml").read_text().replace('name = "model-lqd8360"', 'name = "other"')
    )
    assert "record one with" in refused("--bench", "other", "--replay")


def test_an_unwritable_report_folder_is_one_line(bringup, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    done = bringup("run", "--report", "taken", folder=tmp_path)
    assert done.status == 2
    assert "Traceback" not in done.err
    (line,) = done.err.strip().splitlines()
    assert "cannot write reports to taken" in line
    assert (tmp_path / "taken").read_text() == "a file, not a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_forbidden_report_folder_is_one_line(bringup, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    done = bringup("run", "--report", "locked/reports", folder=tmp_path)
    assert done.status == 2
    assert "cannot write reports" in done.err


def test_a_truncated_tape_ends_as_the_harness_s_failure(bringup, folder):
    tracks = sorted((folder / "fixtures" / "tapes" / "model-lqd8360" / "session").glob("*.jsonl"))
    track = next(file for file in tracks if file.stem == "bios")
    text = track.read_text()
    track.write_text(text[: len(text) // 2])
    done = bringup("run", folder=folder)
    assert done.status == 4, done.out + done.err
    assert "Traceback" not in done.out + done.err
    assert "bios.jsonl" in done.out.replace("\n", "")
    assert {line["blame"] for line in done.cases.values() if line["outcome"] == "error"} == {"harness"}


def test_a_dropped_recorded_answer_is_a_miss_that_names_the_question(bringup, folder):
    track = folder / "fixtures" / "tapes" / "model-lqd8360" / "session" / "pcie.jsonl"
    track.write_text("".join(line for line in track.read_text().splitlines(keepends=True) if "agent pci" not in line))
    done = bringup("run", "--stage", "pcie", folder=folder)
    assert done.status == 4
    assert "agent pci" in done.out.replace("\n", " ")


@pytest.mark.socket
def test_an_unreachable_bmc_is_the_bench_s_failure(bringup, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "fixtures" / "benches" / "real.toml").write_text(LIVE_BENCH.format(port=port, pin="ab" * 32))
    done = bringup("run", "--bench", "real", "--live", folder=folder, env={"REAL_PASSWORD": "hunter2-and-more"})
    assert done.status == 3, done.out + done.err
    assert "Traceback" not in done.out + done.err
    assert f"127.0.0.1:{port}" in done.out.replace("\n", "")
    assert "hunter2-and-more" not in done.out + done.err + (done.run_folder / "results.jsonl").read_text()


def test_a_hostile_working_folder_changes_nothing(bringup, tmp_path):
    (tmp_path / "conftest.py").write_text("raise SystemExit('hostile conftest was read')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --nonsense\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\naddopts = ['--nonsense']\n")
    (tmp_path / "harness.py").write_text("raise SystemExit('hostile module was imported')\n")
    (tmp_path / "hostile.py").write_text("raise SystemExit('hostile plugin was loaded')\n")
    environment = {"PYTEST_ADDOPTS": "-p hostile -k nothing", "PYTEST_PLUGINS": "hostile", "PYTHONSAFEPATH": "1"}
    done = bringup("run", "--stage", "bmc", folder=tmp_path, env=environment)
    assert done.status == 0, done.out + done.err
    assert len(done.cases) >= 3


def test_a_suite_that_cannot_be_imported_is_said_and_ends_the_run(bringup, tmp_path):
    (tmp_path / "test_mine.py").write_text("import nowhere_to_be_found\n")
    done = bringup("run", "--suite", "test_mine.py", folder=tmp_path)
    assert done.status == 2
    assert "nowhere_to_be_found" in done.err
