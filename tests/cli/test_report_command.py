"""``bringup report``: a record that is not whole is no result, and several runs are compared."""

from __future__ import annotations

import pytest

from harness.cli.report import compare_runs, print_report, report_again
from harness.errors import UsageMistake
from harness.record.ledger import Ledger


@pytest.fixture
def write(tmp_path):
    """Write a run's record, whole or cut short."""

    def make(name, *, bios="2.12.2", ended=True):
        ledger = Ledger(tmp_path / name / "results.jsonl", str)
        ledger.write(
            "run", id=name, started="2026-11-30T12:00:00+00:00", mode="live", source="hardware", bench="r640-07", stages=["bmc"]
        )
        ledger.write("identity", facts={"service_tag": "ABC1234", "system": "PowerEdge R640", "bios": bios})
        ledger.write("case", case="bmc.auth", check="bmc.auth", stage="bmc", outcome="passed")
        if ended:
            ledger.write("end", verdict="PASSED", exit=0)
        ledger.close()
        return name

    return make


def test_a_whole_record_is_rendered_with_status_0(write, tmp_path, capsys):
    assert report_again(write("whole"), tmp_path) == 0
    assert "report:" in capsys.readouterr().out


def test_an_unfinished_record_is_rendered_and_not_called_done(write, tmp_path, capsys):
    assert report_again(write("cut", ended=False), tmp_path) == 3
    shown = capsys.readouterr()
    assert "UNFINISHED" in shown.out
    assert "this is no whole record, UNFINISHED" in shown.err
    assert (tmp_path / "cut" / "report.html").is_file()


@pytest.mark.parametrize("form", ["html", "junit", "csv", "md"])
def test_an_unfinished_record_in_another_form_is_not_called_done_either(write, tmp_path, capsys, form):
    assert print_report([write("cut", ended=False)], tmp_path, form, None) == 3
    assert "no whole record" in capsys.readouterr().err
    assert print_report([write("whole")], tmp_path, form, None) == 0


def test_two_runs_are_compared_on_the_terminal_and_on_a_page(write, tmp_path, capsys):
    assert compare_runs([write("before"), write("after", bios="2.21.2")], tmp_path) == 0
    out = capsys.readouterr().out
    assert "2 runs of the machine ABC1234" in out
    assert "bios: 2.12.2 -> 2.21.2" in out
    assert f"report: {tmp_path / 'comparison.html'}" in out
    assert "2.21.2" in (tmp_path / "comparison.html").read_text()


def test_a_comparison_with_an_unfinished_run_says_so(write, tmp_path, capsys):
    assert print_report([write("before"), write("cut", ended=False)], tmp_path, "html", None) == 3
    shown = capsys.readouterr()
    assert shown.out.startswith("<!DOCTYPE html>")
    assert str(tmp_path / "cut") in shown.err
    assert not (tmp_path / "comparison.html").exists()


def test_a_form_for_one_run_is_refused_for_two_before_anything_is_written(write, tmp_path):
    with pytest.raises(UsageMistake, match="--format csv takes one run"):
        print_report([write("before"), write("after")], tmp_path, "csv", None)
    with pytest.raises(UsageMistake, match="no run 'nothing'"):
        compare_runs(["before", "nothing"], tmp_path)
    assert not (tmp_path / "comparison.html").exists()


def test_a_comparison_that_cannot_be_written_is_one_line(write, tmp_path):
    names = [str(tmp_path / write("before")), str(tmp_path / write("after"))]
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageMistake, match="cannot write the report"):
        compare_runs(names, tmp_path / "file")


def test_a_form_is_written_whole_to_a_file(write, tmp_path, capsys):
    target = tmp_path / "collector" / "r640-07.prom"
    assert print_report([write("whole")], tmp_path, "prometheus", target) == 0
    assert 'bringup_run_verdict{bench="r640-07"' in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["r640-07.prom"]
    assert capsys.readouterr().out == ""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageMistake, match="cannot write the report"):
        print_report([write("again")], tmp_path, "prometheus", tmp_path / "file" / "x.prom")


def test_what_is_no_qualification_says_why(write, tmp_path):
    with pytest.raises(UsageMistake, match="this run is no qualification: stages were not run to their end: bmc, bios"):
        print_report([write("whole")], tmp_path, "qualification", None)
