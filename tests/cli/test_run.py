"""What ``bringup run`` and ``bringup report`` do where their page or their reports find no place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli import run as cli
from harness.cli.report import report_again
from harness.errors import BenchError, UsageMistake
from harness.plugin.settings import Settings
from harness.record.verdict import Verdict

BROKEN = "run --bench model-lqd8360 --live --fault bmc.identity --stage bmc"


def last_line(tmp_path):
    return json.loads((tmp_path / "reports" / "latest" / "results.jsonl").read_text().splitlines()[-1])


@pytest.mark.parametrize(("command", "status", "verdict"), [("run --stage bmc", 0, "PASSED"), (BROKEN, 3, "BROKEN")])
def test_a_reader_that_goes_away_ends_neither_the_run_nor_its_reports(shell, tmp_path, command, status, verdict):
    done = shell(f'"${{bringup[@]}}" {command} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}')
    assert done.returncode == status
    assert last_line(tmp_path)["verdict"] == verdict
    assert (tmp_path / "reports" / "latest" / "report.html").is_file()
    assert (tmp_path / "reports" / "latest" / "junit.xml").is_file()
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize(("command", "status", "verdict"), [("run --stage bmc", 2, "PASSED"), (BROKEN, 3, "BROKEN")])
def test_a_full_disk_behind_standard_output_leaves_verdict_and_hand_over_on_standard_error(
    shell, tmp_path, command, status, verdict
):
    done = shell(f'"${{bringup[@]}}" {command} >/dev/full')
    assert done.returncode == status
    assert done.stderr.startswith(f"bringup: standard output takes nothing: No space left on device; {verdict}: ")
    assert "nothing was left on the machine; report: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "reports" / "latest" / "report.html").is_file()


def test_a_dumb_terminal_sees_no_escape_codes(shell, program, tmp_path):
    script = tmp_path / "call.sh"
    script.write_text("exec " + " ".join(f"'{word}'" for word in program) + " run --stage bmc\n")
    done = shell(f"TERM=dumb script -qec 'bash {script}' /dev/null </dev/null")
    assert done.returncode == 0
    assert "PASSED" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_report_that_cannot_be_written_is_shown_and_ends_with_two(shell, recorded):
    (recorded / "junit.xml").mkdir()
    done = shell('"${bringup[@]}" report r1')
    assert done.returncode == 2
    assert done.stdout.startswith("FAILED: the product's fault")
    assert "bmc.identity failed (product)" in done.stdout
    assert "junit.xml: cannot write the report" in done.stderr
    assert done.stderr.count("\n") == 1


@dataclass
class Ended:
    """A run as ``launch`` returns it."""

    folder: Path | None
    verdict: Verdict | None
    interrupted: bool = False


@pytest.fixture
def end_with(monkeypatch):
    """Let the next run end like this."""

    def replace(ended):
        monkeypatch.setattr("harness.plugin.launch.launch", lambda settings: ended)
        return cli.run_and_report(Settings())

    return replace


@pytest.mark.parametrize(("status", "exits"), [(0, 4), (1, 1), (3, 3)])
def test_reports_that_cannot_be_written_hide_no_verdict(end_with, recorded, monkeypatch, capsys, status, exits):
    def refuse(folder):
        raise BenchError("junit.xml: cannot write the report: full")

    monkeypatch.setattr("harness.report.files.write_reports", refuse)
    assert end_with(Ended(recorded, Verdict("X", "", status))) == exits
    shown = capsys.readouterr()
    assert "bmc.identity failed (product)" in shown.out
    assert "report:" not in shown.out
    assert shown.err == "bringup: junit.xml: cannot write the report: full\n"


def test_a_run_that_was_interrupted_twice_shows_what_there_is(end_with, recorded, capsys):
    record = recorded / "results.jsonl"
    record.write_text("".join(record.read_text().splitlines(keepends=True)[:-1]))
    assert end_with(Ended(recorded, None, interrupted=True)) == 130
    assert "UNFINISHED" in capsys.readouterr().out


def test_a_run_that_was_interrupted_before_it_began_says_that_nothing_was_touched(end_with, capsys):
    assert end_with(Ended(None, None, interrupted=True)) == 130
    assert capsys.readouterr().err == "bringup: interrupted before the run began: nothing was touched\n"


def test_a_page_can_be_asked_for_again_and_an_unknown_run_is_a_mistake(recorded, capsys):
    report_again("r1", recorded.parent)
    assert f"report: {recorded / 'report.html'}" in capsys.readouterr().out
    with pytest.raises(UsageMistake, match="no run 'r2'"):
        report_again("r2", recorded.parent)
