"""The verdict: harness before bench before product before incomplete, and nothing green that was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Blame
from harness.record.entries import CaseRecord
from harness.record.lines import CaseOutcome
from harness.record.verdict import Verdict, at_fault, conclude


def case(outcome: str, blame: str = "", *, information: bool = False, id: str = "pcie.width[jbogA/slot01]") -> CaseRecord:  # noqa: A002
    return CaseRecord(id, id.partition("[")[0], "pcie", CaseOutcome(outcome), blame=blame, information=information)


PASSED = case("passed")
PRODUCT = case("failed", "product")
BENCH = case("failed", "bench")
HARNESS = case("error", "harness")
BLOCKED = case("blocked")
UNMEASURED = case("not measured")
NOTHING = case("not applicable")


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([PASSED], Verdict("PASSED", "", 0)),
        ([PASSED, NOTHING], Verdict("PASSED", "", 0)),
        ([PASSED, PRODUCT], Verdict("FAILED", "product", 1)),
        ([PASSED, PRODUCT, BLOCKED], Verdict("FAILED", "product", 1)),
        ([PASSED, PRODUCT, UNMEASURED], Verdict("FAILED", "product", 1)),
        ([PASSED, BENCH], Verdict("BROKEN", "bench", 3)),
        ([PRODUCT, BENCH], Verdict("BROKEN", "bench", 3)),
        ([PRODUCT, BENCH, HARNESS], Verdict("HARNESS ERROR", "harness", 4)),
        ([HARNESS], Verdict("HARNESS ERROR", "harness", 4)),
        ([PASSED, UNMEASURED], Verdict("INCOMPLETE", "", 3)),
        ([PASSED, BLOCKED], Verdict("INCOMPLETE", "", 3)),
        ([NOTHING], Verdict("INCOMPLETE", "", 3)),
        ([], Verdict("INCOMPLETE", "", 3)),
    ],
)
def test_the_gravest_thing_that_happened_is_the_verdict(cases, verdict):
    assert conclude(cases) == verdict


def test_an_interrupted_run_says_so_and_keeps_the_blame_of_what_had_failed():
    assert conclude([PASSED], interrupted=True) == Verdict("INTERRUPTED", "", 130)
    assert conclude([PASSED, PRODUCT], interrupted=True) == Verdict("INTERRUPTED", "product", 130)
    assert conclude([], interrupted=True) == Verdict("INTERRUPTED", "", 130)


def test_what_the_platform_calls_optional_may_go_unmeasured():
    assert conclude([PASSED, UNMEASURED], optional=["pcie.width"]).word == "PASSED"
    assert conclude([PASSED, UNMEASURED], optional=["pcie.width[jbogA/slot01]"]).word == "PASSED"
    assert conclude([PASSED, UNMEASURED], optional=["pcie.width[jbogA/slot02]", "gpu.ecc"]).word == "INCOMPLETE"


def test_optional_excuses_neither_a_failure_nor_a_blocked_case():
    assert conclude([PASSED, PRODUCT], optional=["pcie.width"]).word == "FAILED"
    assert conclude([PASSED, BLOCKED], optional=["pcie.width"]).word == "INCOMPLETE"


def test_optional_cases_alone_do_not_make_a_pass():
    assert conclude([UNMEASURED], optional=["pcie.width"]).word == "INCOMPLETE"


def test_a_pass_for_information_lifts_nothing():
    assert conclude([replace(PASSED, information=True)]).word == "INCOMPLETE"
    assert conclude([PASSED, replace(PASSED, information=True)]).word == "PASSED"


def test_a_failure_for_information_counts_as_a_failure():
    assert conclude([PASSED, replace(PRODUCT, information=True)]) == Verdict("FAILED", "product", 1)


def test_a_stage_that_was_wanted_and_did_not_run_makes_the_run_incomplete():
    assert conclude([PASSED], not_run=["gpu"]).word == "INCOMPLETE"
    assert conclude([PASSED], not_run=["gpu"], optional=["gpu"]).word == "PASSED"
    assert conclude([PASSED, PRODUCT], not_run=["gpu"]).word == "FAILED"


@pytest.mark.parametrize(
    ("outcome", "blame", "fault"),
    [
        ("failed", "", Blame.PRODUCT),
        ("error", "", Blame.HARNESS),
        ("failed", "bench", Blame.BENCH),
        ("error", "product", Blame.PRODUCT),
        ("error", "usage", Blame.BENCH),
        ("failed", "the moon", Blame.HARNESS),
    ],
)
def test_the_blame_decides_and_not_whether_it_was_a_failure_or_an_error(outcome, blame, fault):
    assert at_fault(case(outcome, blame)) is fault


CASES = st.lists(
    st.builds(
        case,
        st.sampled_from(list(CaseOutcome)),
        st.sampled_from(["", "product", "bench", "harness"]),
        information=st.booleans(),
        id=st.sampled_from(["pcie.a", "pcie.b[jbogA/slot01]", "gpu.c"]),
    ),
    max_size=8,
)
BY_EXIT = {"PASSED": 0, "FAILED": 1, "INCOMPLETE": 3, "BROKEN": 3, "HARNESS ERROR": 4, "INTERRUPTED": 130}
GRAVITY = ["PASSED", "INCOMPLETE", "FAILED", "BROKEN", "HARNESS ERROR"]


@given(CASES, st.booleans(), st.sets(st.sampled_from(["pcie.a", "pcie.b", "gpu.c"])), st.sets(st.sampled_from(["gpu", "p2p"])))
def test_a_pass_means_that_something_passed_and_nothing_else_happened(cases, interrupted, optional, not_run):
    verdict = conclude(cases, interrupted=interrupted, optional=optional, not_run=not_run)
    assert verdict.exit == BY_EXIT[verdict.word]
    if verdict.word == "PASSED":
        assert not interrupted
        assert not not_run
        assert any(case.outcome == "passed" and not case.information for case in cases)
        assert all(
            case.outcome in ("passed", "not applicable", "waived") or (case.outcome == "not measured" and case.check in optional)
            for case in cases
        )


@given(CASES, CASES)
def test_the_order_of_cases_does_not_matter(first, second):
    assert conclude(first + second) == conclude(second + first)


@given(CASES, CASES)
def test_a_further_case_improves_a_verdict_only_by_being_the_first_to_pass(cases, more):
    before, after = conclude(cases), conclude(cases + more)
    better = GRAVITY.index(after.word) < GRAVITY.index(before.word)
    assert not better or (before.word == "INCOMPLETE" and not any(c.outcome == "passed" and not c.information for c in cases))


@given(CASES)
def test_leaving_out_what_passed_for_information_changes_nothing(cases):
    kept = [case for case in cases if not (case.information and case.outcome == "passed")]
    assert conclude(kept) == conclude(cases)
