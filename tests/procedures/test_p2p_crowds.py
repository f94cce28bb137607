"""Both ways at once, shifts and loopback: what a report without them, or with a part of them missing, is judged to say."""

from dataclasses import replace

import pytest

from harness.devices.p2p import Damage, LinkKind, Loopback, Pair, PeerGpu, Redirect, Report, Shift, Wrong
from harness.limits import Outcome, at_least, exactly
from harness.procedures.p2p_both import judge_both
from harness.procedures.p2p_loopback import judge_loopback
from harness.procedures.p2p_shifts import judge_shifts
from harness.procedures.places import Place

PLACES = {0: Place("A1", "jbogA"), 1: Place("A2", "jbogA"), 2: Place("B1", "jbogB")}
GPUS = tuple(PeerGpu(index, f"0000:4{index}:00.0", "", group="up-a" if index < 2 else "up-b") for index in PLACES)
RATIO, NO_BAD = at_least(1.2), exactly(0, "B")


def a_report(**fields):
    pairs = [Pair(a, b, True, LinkKind.PCIE, 12.0, 9.9, 2.0, 3.0, 64, 0, both=23.0) for a in PLACES for b in PLACES if a != b]
    return Report(**({"gpus": GPUS, "pairs": tuple(pairs)} | fields))


def with_both(value, *, among):
    """The pair 0 -> 1 with another sum, and the rest of the report with ``among``."""
    report = a_report()
    pairs = [replace(pair, both=value if {pair.source, pair.target} == {0, 1} else among) for pair in report.pairs]
    return replace(report, pairs=tuple(pairs))


def outcomes(measurements):
    return [taken.outcome for taken in measurements]


@pytest.mark.parametrize(
    ("both", "outcome"), [(23.0, Outcome.PASS), (14.5, Outcome.PASS), (14.0, Outcome.FAIL), (None, Outcome.NOT_MEASURED)]
)
def test_both_ways_are_compared_with_the_slower_one_alone(both, outcome):
    report = with_both(both, among=23.0)
    measurements, lines = judge_both(report.pair(0, 1), report, PLACES, RATIO)
    assert outcomes(measurements) == [outcome]
    assert bool(lines) == (outcome is Outcome.FAIL)


def test_a_pair_is_told_once_and_a_report_that_tried_none_says_nothing():
    report = a_report()
    assert judge_both(report.pair(1, 0), report, PLACES, RATIO) == ((), ())
    report = with_both(None, among=None)
    assert judge_both(report.pair(0, 1), report, PLACES, RATIO) == ((), ())


def test_ports_that_redirect_are_named_where_both_directions_share_a_line():
    report = replace(with_both(12.1, among=23.0), redirects=(Redirect("0000:3e:00.0", ("RR", "CR"), (0,)),))
    _, (line,) = judge_both(report.pair(0, 1), report, PLACES, RATIO)
    assert line.startswith("A1 -> A2: 12.1 GB/s both ways at once, 12 and 12 one way")
    assert line.endswith("access control on the way: 0000:3e:00.0 RR/CR")


def shifts(*figures):
    return tuple(Shift(by, "up-a", copies, write, read) for by, copies, write, read in figures)


def test_the_worst_shift_is_judged_and_the_picture_of_all_is_shown():
    report = a_report(shifts=shifts((1, 1, 10.0, 10.0), (2, 2, 0.8, 11.0), (3, 2, 11.0, 11.0)))
    (measured,), (line,) = judge_shifts(report, PLACES, "jbogA", at_least(0.5))
    assert measured.outcome is Outcome.FAIL
    assert "worst at +2: 0.8 and 11 GB/s for 2 GPUs at once" in measured.note
    assert line.endswith("+1 10/10, +2 0.8/11, +3 11/11")


def test_one_copy_alone_across_an_uplink_is_no_crowd():
    report = a_report(shifts=shifts((1, 1, 1.0, 10.0)))
    assert judge_shifts(report, PLACES, "jbogA", at_least(0.5)) == ((), ())
    assert judge_shifts(a_report(), PLACES, "jbogA", at_least(0.5)) == ((), ())


def test_a_shift_without_a_figure_is_not_measured():
    report = a_report(shifts=shifts((1, 2, None, 10.0), (2, 2, 11.0, 11.0)))
    (measured,), _ = judge_shifts(report, PLACES, "jbogA", at_least(0.5))
    assert (measured.outcome, measured.note) == (Outcome.NOT_MEASURED, "no figures of +1")


def test_wrong_bytes_within_a_gpu_are_its_own():
    wrong = Wrong(Damage.SINGLE_BIT, "write", 128, 128, 4)
    finding = judge_loopback(a_report(loopbacks=(Loopback(0, 300.0, 1024, 4, wrong),)), PLACES, 0, NO_BAD)
    assert outcomes(finding.measurements) == [Outcome.FAIL, Outcome.PASS]
    assert "class single bit, first at offset 0x80, last at 0x80" in finding.explanation


def test_copies_within_a_gpu_say_that_they_are_no_peer_to_peer_copies():
    finding = judge_loopback(a_report(loopbacks=(Loopback(0, 300.0, 1024, 0),)), PLACES, 0, NO_BAD)
    assert outcomes(finding.measurements) == [Outcome.PASS, Outcome.PASS]
    assert all("no link, no peer" in taken.note for taken in finding.measurements)


@pytest.mark.parametrize(
    ("loopbacks", "why"), [((), "the worker copied nothing within it"), ((Loopback(0, untried="it hung"),), "it hung")]
)
def test_a_gpu_without_a_loopback_is_not_measured(loopbacks, why):
    assert judge_loopback(a_report(loopbacks=loopbacks), PLACES, 0, NO_BAD).unmeasured == f"A1: {why}"
