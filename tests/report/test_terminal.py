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
    text = show(on_fire, width=160)
    (row,) = (line.split() for line in text.splitlines() if line.startswith("pcie "))
    assert row == ["pcie", "degraded", "18", "2", "1", "-", "-"]
    assert "    pcie      pcie.count: 18 of 20 GPUs are there; lost: jbogB/slot07\n" in text


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


def test_what_is_not_applicable_has_a_column_of_its_own(on_fire):
    (row,) = (line.split() for line in show(on_fire).splitlines() if line.startswith("gpu "))
    assert row == ["gpu", "open", "17", "-", "1", "1", "1"]


@pytest.fixture
def unlucky(healthy):
    """Nothing came of any stage behind bmc."""
    outcomes = {"bios": CaseOutcome.BLOCKED, "boot": CaseOutcome.NOT_APPLICABLE, "pcie": CaseOutcome.NOT_MEASURED}

    def ends(case):
        outcome = CaseOutcome.FAILED if case.stage == "gpu" else outcomes.get(case.stage, case.outcome)
        return replace(case, outcome=outcome, message="BLOCKED by bmc.auth" if outcome is CaseOutcome.BLOCKED else "")

    return replace(healthy, cases=tuple(ends(case) for case in healthy.cases if case.stage != "p2p"))


def test_no_gate_is_open_where_nothing_passed(unlucky):
    gates = {line.split()[0]: " ".join(line.split()[1:-5]) for line in show(unlucky).splitlines()[4:13] if line.count("  ") > 2}
    expected = {"bmc": "open", "bios": "blocked", "boot": "nothing ran", "pcie": "none passed", "gpu": "none passed"}
    assert {stage: gates[stage] for stage in (*expected, "p2p")} == {**expected, "p2p": "nothing ran"}


def test_a_blocked_stage_says_by_what(unlucky):
    assert "    bios  BLOCKED by bmc.auth\n" in show(unlucky)


LONG = """jbogB/slot07 is lost at its link
    chain   expected 20 > fabric says 20 > uplinks up 20 > links up 19 > buses assigned 19 > enumerated 19
    next    reseat the card in the slot; swap it with a good neighbour and see whether the fault moves with it or stays
and a sentence that is longer than any console of eighty or sixty columns has room for, so that it is broken"""


@pytest.fixture
def lost(healthy):
    """A link is lost, and the message has wide lines."""
    case = CaseRecord("pcie.chain-link[jbogB/slot07]", "pcie.chain-link", "pcie", CaseOutcome.FAILED, "jbogB/slot07", message=LONG)
    slots = tuple(f"jbog{chassis}/slot{number:02d}" for chassis in "AB" for number in range(1, 11))
    stages = tuple(replace(stage, lost=slots) if stage.stage == "pcie" else stage for stage in healthy.stages)
    return replace(healthy, cases=(*healthy.cases, case), stages=stages)


@pytest.mark.parametrize("width", [80, 60])
def test_what_wraps_stays_in_the_column_where_its_value_began(lost, width):
    lines = show(lost, width=width).splitlines()
    chain = next(at for at, line in enumerate(lines) if line.startswith("        chain   expected"))
    until = next(at for at, line in enumerate(lines) if line.startswith("        next    reseat"))
    assert until - chain > 1
    assert all(line.startswith(" " * 16) and line[16] != " " for line in lines[chain + 1 : until])
    sentence = next(at for at, line in enumerate(lines) if line.startswith("    and a sentence"))
    assert lines[sentence + 1].startswith("      ")
    assert lines[sentence + 1][6] != " "
    assert flat(LONG) in flat("\n".join(lines))


@pytest.mark.parametrize("width", [80, 60])
def test_names_of_cases_and_slots_are_whole_and_all_there(lost, width):
    text = show(lost, width=width)
    words = text.replace(",", " ").replace(":", " ").split()
    assert words.count("pcie.chain-link[jbogB/slot07]") == 2
    assert words.count("jbogA/slot01") == words.count("jbogB/slot10") == 1
    assert "more characters" not in text


DUMP = """KeyError: 'nokey' (test_b.py:15)

    def test_it(slot):
{middle}
>       facts["nokey"]
E       KeyError: 'nokey'

test_b.py:15: KeyError"""


def test_an_unforeseen_exception_shows_its_line_and_the_end_of_its_dump_once(healthy):
    dump = DUMP.format(middle="\n".join(f"        step{number}" for number in range(50)))
    cases = tuple(
        replace(case, outcome=CaseOutcome.ERROR, blame="harness", message=dump) if case.check == "gpu.ecc" else case
        for case in healthy.cases
    )
    text = show(replace(healthy, cases=cases))
    assert text.count("    KeyError: 'nokey' (test_b.py:15)\n") == 3
    assert text.count("    test_b.py:15: KeyError\n") == 1
    assert text.count('>       facts["nokey"]') == 1
    assert "step40" not in text
    assert "more lines in report.html" in text
    assert "    gpu  gpu.ecc[jbogA/slot01]: KeyError: 'nokey' (test_b.py:15)\n" in text


def test_a_long_list_is_cut_between_names_and_counts_the_rest(healthy):
    cases = tuple(
        CaseRecord(f"pcie.x[{name}]", "pcie.x", "pcie", CaseOutcome.FAILED, message="m")
        for name in (f"chassis{number:03d}/slot01" for number in range(200))
    )
    text = flat(show(replace(healthy, cases=cases)))
    shown = text.partition("and the same check for ")[2].partition(" more")[0]
    names, _, more = shown.rpartition(" and ")
    assert len(names.split(", ")) + int(more) == 197
    assert all(name.endswith("/slot01]") for name in names.split(", "))
