"""JUnit: valid for junit-10, the same cases whatever happened, and every reason where a dashboard looks for it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, Record, RunInfo
from harness.record.lines import CaseOutcome
from harness.report.junit import OUTPUT_LIMIT, render_junit

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit-10.xsd")))
STATES = ["healthy", "on_fire", "interrupted", "killed"]


def parse(record: Record) -> etree._Element:
    """The rendering as a tree that the schema accepts and whose counts are true."""
    root = etree.fromstring(render_junit(record).encode())
    SCHEMA.assertValid(root)
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{element}"))
        assert float(suite.get("time")) == pytest.approx(sum(float(case.get("time")) for case in suite.findall("testcase")))
    for attribute in ("tests", "failures", "errors"):
        assert int(root.get(attribute)) == sum(int(suite.get(attribute)) for suite in root)
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    return root


def find(root: etree._Element, name: str) -> etree._Element:
    """The one case of that name."""
    (case,) = (case for case in root.iter("testcase") if case.get("name") == name)
    return case


@pytest.mark.parametrize("state", STATES)
def test_the_rendering_is_valid_whatever_happened(state, request):
    assert parse(request.getfixturevalue(state)).tag == "testsuites"


def test_hostile_texts_leave_it_valid(hostile):
    root = parse(hostile)
    assert len(list(root.iter("testcase"))) > 60


def test_the_set_of_cases_is_the_same_whatever_happened(request):
    sets = []
    for state in STATES:
        root = parse(request.getfixturevalue(state))
        sets.append(sorted((case.get("classname"), case.get("name")) for case in root.iter("testcase")))
    assert sets[0] == sets[1] == sets[2] == sets[3]
    assert len(sets[0]) == 66


def test_suites_are_the_stages_in_order_and_the_verdict_is_the_last(healthy):
    root = parse(healthy)
    assert [suite.get("name") for suite in root] == ["bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50", "bringup"]
    assert [(case.get("classname"), case.get("name")) for case in root[-1].findall("testcase")] == [("bringup", "verdict")]
    assert find(root, "pcie.width[jbogA/slot03]").get("classname") == "bringup.pcie"


def test_the_first_element_says_verdict_and_source(healthy, on_fire):
    assert parse(healthy).get("name").startswith("PASSED")
    assert "a simulated machine (model); no machine was touched" in parse(healthy).get("name")
    assert "LIVE on hardware" in parse(on_fire).get("name")


def test_product_is_a_failure_and_bench_and_harness_are_errors(on_fire):
    root = parse(on_fire)
    product, bench, harness = (find(root, name) for name in ("pcie.count", "p2p.write[jbogA/slot09]", "resnet50.total"))
    assert product.find("failure").get("type") == "product"
    assert product.find("failure").get("message") == "18 of 20 GPUs are there"
    assert "first link that lost them: downstream port 07" in product.find("failure").text
    assert (bench.find("error").get("type"), bench.find("error").get("message")) == ("bench", "BENCH: nothing answers at 10.0.0.1")
    assert (harness.find("error").get("type"), harness.find("error").get("message")) == ("harness", "HARNESS: KeyError: 'total'")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("pcie.width[jbogB/slot07]", "BLOCKED by pcie.count"),
        ("gpu.ecc[jbogA/slot05]", "NOT MEASURED: NVML says not supported"),
        ("gpu.ecc[jbogB/slot01]", "NOT APPLICABLE: ECC is off"),
    ],
)
def test_a_skipped_case_says_why_in_its_message_and_in_its_content(on_fire, case, reason):
    skipped = find(parse(on_fire), case).find("skipped")
    assert (skipped.get("message"), skipped.text) == (reason, reason)


def test_a_planned_case_that_never_came_is_skipped(killed):
    skipped = find(parse(killed), "resnet50.total").find("skipped")
    assert skipped.text == "NOT RUN: the run ended before it"


@pytest.mark.parametrize("plan", [True, False])
def test_a_stage_not_run_is_skipped_with_its_reason(tell, plan):
    root = parse(tell(not_run=("gpu", "p2p", "resnet50"), plan=plan))
    expected = "gpu.ecc[jbogA/slot01]" if plan else "gpu.stage"
    assert find(root, expected).find("skipped").text == "NOT RUN: the platform has no [gpu] table"
    assert find(root, "pcie.count").find("skipped") is None


def test_without_a_plan_every_stage_that_was_wanted_still_has_a_case(tell):
    root = parse(tell(plan=False, stops_after="bmc.identity", end=None))
    assert [suite.get("tests") for suite in root] == ["1"] * 8
    assert find(root, "p2p.stage").find("skipped").get("message") == "NOT RUN: the run ended before it"


@pytest.mark.parametrize(
    ("end", "element", "kind"),
    [
        (("PASSED", "", 0), None, None),
        (("FAILED", "product", 1), "failure", "product"),
        (("BROKEN", "bench", 3), "error", "bench"),
        (("HARNESS ERROR", "harness", 4), "error", "harness"),
        (("INCOMPLETE", "", 3), "error", "incomplete"),
        (("INTERRUPTED", "", 130), "error", "interrupted"),
        (None, "error", "unfinished"),
    ],
)
def test_the_verdict_case_is_green_only_if_the_run_passed(tell, end, element, kind):
    verdict = find(parse(tell(end=end)), "verdict")
    found = [child for child in verdict if child.tag != "system-out"]
    assert [(child.tag, child.get("type")) for child in found] == ([(element, kind)] if element else [])
    assert "hand-over: Nothing was left on the machine." in verdict.find("system-out").text


def test_a_damaged_record_has_no_green_verdict(healthy):
    verdict = find(parse(replace(healthy, damage=("line 7 is no JSON object",))), "verdict")
    assert "line 7 is no JSON object" in verdict.find("error").text


def test_measurement_lines_come_before_attachments_in_one_system_out(on_fire):
    (output,) = find(parse(on_fire), "pcie.width[jbogA/slot03]").findall("system-out")
    assert output.text.splitlines() == [
        "jbogA/slot03 pcie.width = 8 lanes  [16 lanes]  FAIL",
        "[[ATTACHMENT|evidence/console.log]]",
        "[[ATTACHMENT|evidence/lspci.txt]]",
    ]


def test_a_passing_case_shows_its_numbers_too(healthy):
    assert find(parse(healthy), "pcie.width[jbogB/slot10]").find("system-out").text == (
        "jbogB/slot10 pcie.width = 16 lanes  [16 lanes]  PASS"
    )


def test_a_case_for_information_says_so(on_fire):
    assert "for information" in find(parse(on_fire), "gpu.ecc[jbogA/slot01]").find("system-out").text


def test_a_name_that_stands_twice_is_made_unique(healthy):
    twice = replace(healthy, cases=(*healthy.cases, healthy.cases[0], healthy.cases[0]))
    names = {case.get("name") for case in parse(twice)[0].findall("testcase")}
    assert names == {"bmc.identity", "bmc.identity (2)", "bmc.identity (3)"}


def one_case(measurements: int, attachments: int, *, width: int = 100) -> Record:
    """A record of one case with many measurements, one of which, in the middle, failed."""
    values = [
        MeasurementRecord(f"m{at}-" + "é" * width, 1, outcome=Outcome.FAIL if at == measurements // 2 else Outcome.PASS, case="p.c")
        for at in range(measurements)
    ]
    paths = tuple(f"evidence/{at}-{'x' * width}.log" for at in range(attachments))
    case = CaseRecord("p.c", "p.c", "p", CaseOutcome.FAILED, blame="product", message="y" * 500_000, attachments=paths)
    return Record(RunInfo(stages=("p",)), cases=(case,), measurements=tuple(values))


def test_output_stays_below_its_limit_says_what_is_left_out_and_keeps_violated_limits():
    case = find(parse(one_case(5_000, 3)), "p.c")
    output = case.find("system-out").text
    assert OUTPUT_LIMIT * 0.9 < len(output.encode()) <= OUTPUT_LIMIT
    lines = output.splitlines()
    shown = [line for line in lines if line.startswith("m")]
    assert f"... {5_000 - len(shown)} more measurements in results.jsonl" in lines
    assert sum("FAIL" in line for line in shown) == 1
    assert [line for line in lines if "ATTACHMENT" in line] == lines[-3:]
    assert len(case.find("failure").text.encode()) <= OUTPUT_LIMIT
    assert "500000 bytes in all, see results.jsonl" in case.find("failure").text
    assert len(case.find("failure").get("message")) < 2_000


def test_endless_attachments_leave_room_for_measurements():
    output = find(parse(one_case(50, 5_000)), "p.c").find("system-out").text
    assert len(output.encode()) <= OUTPUT_LIMIT
    assert "m25-" in output
    assert "more attachments in results.jsonl" in output


def test_a_single_endless_line_is_cut():
    output = find(parse(one_case(1, 0, width=1_000_000)), "p.c").find("system-out").text
    assert len(output.encode()) <= OUTPUT_LIMIT
    assert "more characters in results.jsonl" in output


def test_facts_are_properties_of_suites_only_and_the_machine_cannot_overrule_the_run(tell):
    root = parse(tell(facts={"service_tag": "MODEL01", "bios": "2.12.2", "source": "hardware", "mode": "live"}))
    properties = {entry.get("name"): entry.get("value") for entry in root[0].iterfind("properties/property")}
    assert properties["source"] == "model"
    assert properties["mode"] == "replay"
    assert (properties["bench"], properties["platform"], properties["bios"]) == ("model-lqd8360", "lqd8360", "2.12.2")
    assert root.findall(".//testcase/properties") == []


def test_no_text_from_the_machine_can_have_a_file_attached(hostile):
    for case in parse(hostile).iter("testcase"):
        output = case.findtext("system-out") or ""
        assert "[[ATTACHMENT|/etc" not in output
        assert output.count("[[") == (0 if case.get("name") == "verdict" else len(hostile.cases[0].attachments))


@pytest.mark.parametrize("path", ["/etc/shadow", "../../id_rsa", "evidence/../../x", "a]] [[ATTACHMENT|/etc/passwd", ""])
def test_an_attachment_outside_the_folder_of_the_run_is_no_marker(healthy, path):
    record = replace(healthy, cases=(replace(healthy.cases[0], attachments=(path, "evidence/ok.log")), *healthy.cases[1:]))
    lines = find(parse(record), "bmc.identity").find("system-out").text.splitlines()
    assert "[[ATTACHMENT|evidence/ok.log]]" in lines
    assert all(line.count("[[") == 1 and "[[ATTACHMENT|/" not in line for line in lines if "ATTACHMENT" in line)


@pytest.mark.parametrize("took", [float("nan"), float("inf"), -1.0, 1e9, 0.0004])
def test_any_duration_is_a_valid_one(healthy, took):
    assert parse(replace(healthy, cases=(replace(healthy.cases[0], took=took), *healthy.cases[1:]))) is not None


def test_random_subsets_of_a_run_stay_valid(on_fire):
    chance = random.Random(7)
    for _ in range(20):
        cases = tuple(case for case in on_fire.cases if chance.random() < 0.5)
        assert len(list(parse(replace(on_fire, cases=cases)).iter("testcase"))) == 66
