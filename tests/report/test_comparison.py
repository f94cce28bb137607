"""Several runs beside each other: parts, firmware, outcomes, values beyond noise, and nothing where nothing changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lxml import html

from harness.limits import Outcome
from harness.part import Part
from harness.record.entries import MeasurementRecord
from harness.record.lines import CaseOutcome
from harness.report.comparison import compare, render_comparison, tell

SLOTS = [f"jbogA/slot{number:02d}" for number in range(1, 11)]


def measured(record, values, name="p2p.bandwidth", outcome=Outcome.PASS):
    listed = [
        MeasurementRecord(name, value, "GB/s", outcome=outcome, part=Part(slot, serial=f"S{slot[-2:]}"))
        for slot, value in zip(SLOTS, values, strict=True)
    ]
    return replace(record, measurements=tuple(listed))


def whats(differences):
    return [difference.what for difference in differences]


@pytest.fixture
def steady(healthy):
    return measured(healthy, [12.0 + number / 100 for number in range(10)])


def test_a_run_compared_with_itself_differs_in_nothing(on_fire):
    comparison = compare([on_fire, on_fire])
    assert not any(differences for _, _, differences in comparison.sections)
    assert comparison.compared == 400
    assert comparison.is_one_machine
    assert "every case ended alike" in tell(comparison)


def test_the_usual_change_from_run_to_run_is_no_difference(steady):
    again = measured(steady, [12.0 + number / 100 + (0.1 if number % 2 else -0.1) for number in range(10)])
    assert compare([steady, again]).measurements == ()


def test_one_part_that_moved_out_of_the_others_is_named(steady):
    again = measured(steady, [12.1] * 6 + [9.0] + [12.1] * 3)
    (difference,) = compare([steady, again]).measurements
    assert difference.what == "jbogA/slot07 p2p.bandwidth"
    assert difference.values == ("12.06 GB/s", "9 GB/s")
    assert difference.remark == "run 2: -25.4%"


def test_all_parts_that_moved_together_are_told_once(steady):
    again = measured(steady, [(12.0 + number / 100) * 0.8 for number in range(10)])
    (difference,) = compare([steady, again]).measurements
    assert difference.what == "p2p.bandwidth, all 10"
    assert "together -20.0%" in difference.remark


def test_a_value_from_or_to_nothing_is_a_difference_whatever_the_noise(steady):
    clean, dirty = measured(steady, [0] * 10, "p2p.bad-bytes"), measured(steady, [0] * 9 + [4096], "p2p.bad-bytes")
    assert whats(compare([clean, dirty]).measurements) == ["jbogA/slot10 p2p.bad-bytes"]


def test_a_limit_that_is_violated_now_is_marked_worse_and_comes_first(steady):
    again = measured(steady, [12.1] * 6 + [9.0] + [12.1] * 3, outcome=Outcome.FAIL)
    found = compare([steady, again]).measurements
    assert found[0].is_worse
    assert found[0].values[1].endswith("✗")
    assert "WORSE jbogA/slot07" in tell(compare([steady, again]))


def test_a_part_that_moved_is_followed_by_its_serial_number(steady):
    swapped = list(steady.measurements)
    swapped[2] = replace(swapped[2], part=Part(SLOTS[2], serial="S05"))
    swapped[4] = replace(swapped[4], part=Part(SLOTS[4], serial="NEW"))
    found = compare([steady, replace(steady, measurements=tuple(swapped))]).parts
    assert [(each.what, each.values, each.remark) for each in found] == [
        ("jbogA/slot03 serial", ("S03", "S05"), "moved here from jbogA/slot05"),
        ("jbogA/slot05 serial", ("S05", "NEW"), "another part"),
    ]


def test_between_units_serial_numbers_say_nothing(steady):
    other = replace(
        steady,
        identity=dict(steady.identity) | {"service_tag": "OTHER"},
        measurements=tuple(replace(each, part=replace(each.part, serial="X", model="RTX 6000")) for each in steady.measurements),
    )
    first = replace(
        steady, measurements=tuple(replace(each, part=replace(each.part, model="RTX 8000")) for each in steady.measurements)
    )
    comparison = compare([first, other])
    assert not comparison.is_one_machine
    assert "different machines: MODEL01, OTHER" in comparison.subject
    assert whats(comparison.parts) == [f"{slot} model" for slot in SLOTS]


def test_a_machine_that_was_not_identified_is_not_taken_for_the_same(steady):
    unknown = replace(steady, identity={})
    assert not compare([unknown, unknown]).is_one_machine


def test_firmware_that_changed_is_told(steady):
    updated = replace(
        steady,
        identity=dict(steady.identity) | {"bios": "2.21.2"},
        exhibits={"firmware": {"rows": [], "others": [["NIC", "22.31"]]}},
    )
    found = compare([steady, updated]).firmware
    assert [(each.what, each.values) for each in found] == [("bios", ("2.12.2", "2.21.2")), ("NIC", ("", "22.31"))]


def test_cases_that_ended_otherwise_are_told_by_check_the_worse_first(healthy):
    broken = {
        "pcie.width[jbogA/slot03]": CaseOutcome.FAILED,
        "gpu.ecc[jbogA/slot03]": CaseOutcome.BLOCKED,
        "p2p.write[jbogA/slot03]": CaseOutcome.BLOCKED,
    }
    later = replace(healthy, cases=tuple(replace(case, outcome=broken.get(case.id, case.outcome)) for case in healthy.cases))
    found = compare([healthy, later, healthy]).outcomes
    assert [(each.what, each.values, each.remark, each.is_worse) for each in found] == [
        ("pcie.width", ("passed", "failed", "passed"), "jbogA/slot03", True),
        ("gpu.ecc, p2p.write", ("passed", "blocked", "passed"), "jbogA/slot03", False),
    ]


def test_the_page_of_a_comparison_holds_what_the_terminal_says_and_escapes_it(steady):
    hostile = replace(steady, identity=dict(steady.identity) | {"bios": "<script>alert(1)</script>"})
    text = render_comparison(compare([steady, hostile]))
    assert text.count("<script") == 1
    page = html.document_fromstring(text)
    assert "<script>alert(1)</script>" in page.xpath("//h2[text()='Firmware and identity']/following::table[1]")[0].text_content()
    assert "src=" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_a_part_that_was_away_for_one_run_is_told_with_that_run(steady):
    gone = replace(steady, measurements=tuple(each for each in steady.measurements if each.part.serial != "S07"))
    found = compare([steady, gone, steady]).parts
    assert [(each.what, each.values, each.remark) for each in found] == [
        ("jbogA/slot07 serial", ("S07", "", "S07"), "not seen in run 2")
    ]
