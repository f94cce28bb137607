"""The terminal page: headline first, nothing wider than the console, every word there without colour."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, Record
from harness.record.lines import CaseOutcome
from harness.report.headline import headline
from harness.report.terminal import render_terminal


def show(record: Record, *, width: int = 80, page: Path | None = None, encoding: str = "utf-8", terminal: bool = False) -> str:
    """What a console of that width shows."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(
        file=file,
        width=width,
        force_terminal=terminal,
        no_color=None if terminal else True,
        color_system="standard" if terminal else None,
    )
    render_terminal(record, console, page=page)
    return raw.getvalue().decode(encoding)


def flat(text: str) -> str:
    """The words of a page, however they are broken into lines."""
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 120, 60])
@pytest.mark.parametrize("state", ["healthy", "on_fire", "interrupted", "killed"])
def test_no_line_is_wider_than_the_console(state, width, request):
    lines = show(request.getfixturevalue(state), width=width).splitlines()
    assert max(len(line) for line in lines) <= width


def test_hostile_texts_neither_widen_the_page_nor_act_on_the_terminal(hostile):
    text = show(hostile)
    assert all(ord(character) >= 32 or character == "\n" for character in text)
    assert "\u202e" not in text
    assert max(len(line) for line in text.split("\n")) <= 80


def test_the_headline_comes_first(on_fire):
    assert flat(show(on_fire)).startswith(flat(headline(on_fire)))


def test_stages_show_their_gate_counts_and_first_failure(on_fire):
    (row,) = (line.split() for line in show(on_fire, width=160).splitlines() if line.startswith("pcie "))
    assert row[:6] == ["pcie", "degraded", "18", "2", "1", "-"]
    assert " ".join(row[6:]) == "pcie.count: 18 of 20 GPUs are there; lost: jbogB/slot07"


def test_violated_limits_come_before_marginal_ones(on_fire):
    text = show(on_fire)
    assert text.index("8 lanes") < text.index("11.5 GB/s")
    rows = [line.split() for line in text.splitlines() if line.rstrip().endswith((" FAIL", " MARGINAL"))]
    assert rows[0][:1] + rows[0][-1:] == ["jbogA/slot03", "FAIL"]
    assert {row[-1] for row in rows} == {"FAIL", "MARGINAL"}


def test_a_name_too_long_for_its_column_is_folded_and_never_cut(healthy):
    stage, name = "s" * 50, "n" * 150
    measurement = MeasurementRecord(name, 1, limit="2", outcome=Outcome.FAIL, case=f"{stage}.c")
    case = CaseRecord(f"{stage}.c", f"{stage}.c", stage, CaseOutcome.FAILED, message="m")
    text = show(replace(healthy, cases=(case,), measurements=(measurement,)))
    assert "…" not in text
    assert text.count("n") >= 150


def test_a_case_that_was_not_measured_stands_there_once(on_fire):
    silent = MeasurementRecord("gpu.ecc.volatile", None, case="gpu.ecc[jbogA/slot05]", note="not supported")
    text = show(replace(on_fire, measurements=(*on_fire.measurements, silent)))
    assert "gpu.ecc.volatile" not in text
    assert text.count("gpu.ecc[jbogA/slot05]: ") == 1


def test_what_was_not_measured_is_listed_with_its_reason(on_fire):
    text = show(on_fire)
    assert "gpu.ecc[jbogA/slot05]: NVML says not supported" in text
    assert "p2p.write[jbogB/slot09]: p2p.write.jbogA/slot01" in text


def test_the_message_of_a_failed_check_is_shown_indented_and_as_it_is(on_fire):
    assert (
        "pcie.count failed (product)\n"
        "    18 of 20 GPUs are there\n"
        "      chassis jbogB: 10 -> 8\n"
        "      first link that lost them: downstream port 07\n"
    ) in show(on_fire)


def test_brackets_in_a_name_are_not_taken_for_markup(on_fire):
    assert "pcie.width[jbogA/slot03]" in show(on_fire)


def test_hand_over_and_report_are_the_last_lines(on_fire):
    last = show(on_fire, page=Path("reports/r1/report.html")).splitlines()[-2:]
    assert last == ["JID_123 Scheduled: applies at the next reboot by anyone; undo: bringup ...", "report: reports/r1/report.html"]


def test_a_page_that_was_not_written_is_not_named(healthy):
    assert "report:" not in show(healthy)


def test_many_cases_of_one_check_show_three_messages_and_all_names(healthy):
    cases = tuple(
        replace(case, outcome=CaseOutcome.FAILED, blame="product", message=f"broken: {case.id}")
        if case.check == "gpu.ecc"
        else case
        for case in healthy.cases
    )
    text = show(replace(healthy, cases=cases))
    assert "gpu.ecc failed (product, 20 cases)" in text
    assert sum(line.startswith("    broken: gpu.ecc") for line in text.splitlines()) == 3
    assert all(case.id in flat(text) for case in cases if case.check == "gpu.ecc")


def test_a_long_message_says_how_much_more_there_is(healthy):
    case = CaseRecord("boot.x", "boot.x", "boot", CaseOutcome.FAILED, blame="product", message="\n".join(map(str, range(100))))
    assert "    ... 60 more lines in report.html" in show(replace(healthy, cases=(case,)))


def test_a_terminal_gets_colour_and_everything_else_gets_the_same_words(on_fire):
    coloured = show(on_fire, terminal=True)
    assert "\x1b[1;31m" in coloured
    assert "\x1b" not in show(on_fire)


def test_no_color_is_obeyed(on_fire, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in show(on_fire, terminal=True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_console_that_knows_few_characters_still_shows_the_page(on_fire, encoding):
    record = replace(on_fire, cases=(CaseRecord("a.b", "a.b", "a", CaseOutcome.FAILED, message="48601 MiB ± 1 % ✗ 漢"),))
    text = show(record, encoding=encoding)
    assert "HARNESS ERROR" in text
    assert "\\u6f22" in text


def test_a_damaged_record_says_what_is_damaged(healthy):
    assert "damaged record: line 7 is no JSON object" in show(replace(healthy, damage=("line 7 is no JSON object",)))
