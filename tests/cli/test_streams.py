"""Closed, full and abandoned standard streams, and a working folder that is gone: one line, and never a failed product's 1."""

from __future__ import annotations

import os
import subprocess

import pytest

LISTINGS = ["--help", "lab faults", "report r1"]


@pytest.fixture
def one_line():
    def check(done, status):
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
        assert done.stderr.startswith("bringup: ")
        return done.stderr

    return check


@pytest.mark.parametrize("command", LISTINGS)
def test_a_full_disk_behind_standard_output_is_one_line(shell, recorded, one_line, command):
    assert "No space left on device" in one_line(shell(f'"${{bringup[@]}}" {command} >/dev/full'), 2)


@pytest.mark.parametrize("command", ["--help", "run"])
def test_a_closed_standard_output_is_one_line_and_nothing_is_run(shell, recorded, one_line, command, tmp_path):
    assert "standard output is closed" in one_line(shell(f'"${{bringup[@]}}" {command} >&-'), 2)
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["r1"]


@pytest.mark.parametrize("command", LISTINGS)
def test_a_reader_that_goes_away_is_no_failure_of_the_product(program, recorded, tmp_path, command):
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [*program, *command.split()], stdout=theirs, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False, timeout=120
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "2>/dev/full"])
def test_a_mistake_keeps_its_status_where_nobody_can_be_told(shell, closed):
    assert shell(f'"${{bringup[@]}}" report nothing {closed}').returncode == 2


def test_closed_streams_do_not_lend_their_numbers_to_files_of_the_run(shell, tmp_path):
    done = shell('"${bringup[@]}" run --stage bmc <&- 2>&-')
    assert done.returncode == 0
    assert "PASSED" in done.stdout
    lines = (tmp_path / "reports" / "latest" / "results.jsonl").read_text().splitlines()
    assert all(line.startswith('{"seq":') for line in lines)
    assert '"verdict":"PASSED"' in lines[-1]


@pytest.mark.parametrize("command", ["run", "bench new x", "tape check"])
def test_a_working_folder_that_is_gone_is_one_line(shell, one_line, command):
    done = shell(f'mkdir gone && cd gone && rmdir ../gone && "${{bringup[@]}}" {command}')
    assert "the working folder is gone" in one_line(done, 2)


def test_what_nobody_foresaw_ends_with_the_status_of_the_harness(shell):
    prelude = "from harness.cli import commands; commands.app = lambda: {}[1]; from harness.cli import main; main()"
    done = shell(f'python3=${{bringup[0]}}; "$python3" -c "{prelude}"')
    assert done.returncode == 4
    assert "a fault of the harness itself" in done.stderr
