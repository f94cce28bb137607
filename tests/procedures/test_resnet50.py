import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from harness.devices.resnet50 import AllReduce, Identity, Rank, RankGpu, Report, Solo, Telemetry, Transport, Window
from harness.limits import Outcome, at_least, at_most
from harness.platform import Floor, Resnet50
from harness.procedures.places import Place
from harness.procedures.resnet50 import (
    floor_for,
    judge_alone,
    judge_efficiency,
    judge_finite,
    judge_floor,
    judge_hash,
    judge_ranks,
    judge_spread,
    judge_straggler,
)

FLOOR = Floor(
    framework="tensorflow",
    precision="fp16",
    compiler="xla",
    batch=512,
    images_per_second_per_gpu={"at_least": 750, "marginal": 780},
)
IDENTITY = Identity("tensorflow", "fp16", "xla", 512, "synthetic", "535.183.01", {"tensorflow": "1.15.5"})
PLACES = {index: Place(f"slot{index}") for index in range(4)}
GPUS = tuple(RankGpu(index, index, f"0000:4{index}:00.0", f"GPU-{index}") for index in range(4))
SOLID = at_least(0.95)


def a_report(per_gpu=990.0, **fields):
    defaults = {
        "identity": IDENTITY,
        "gpus": GPUS,
        "solos": tuple(Solo(index, 1020.0 + index, "same", 7.7) for index in range(4)),
        "windows": tuple(Window(number, per_gpu * 4, 7.5) for number in range(1, 11)),
        "ranks": tuple(Rank(index, index, "equal") for index in range(4)),
        "allreduce": AllReduce(4, 1024, 0),
        "transport": Transport(p2p=4),
    }
    return Report(**(defaults | fields))


def solos(**changed):
    return tuple(replace(Solo(index, 1000.0, "same", 7.7), **changed.get(f"s{index}", {})) for index in range(4))


def outcomes(finding):
    return {taken.name: taken.outcome for taken in finding.measurements}


# the same bits


def test_the_majority_names_the_gpu_that_computes_differently():
    report = a_report(solos=solos(s2={"hash": "other"}))
    finding = judge_hash(report, PLACES, 2)
    assert outcomes(finding) == {"resnet50.hash": Outcome.FAIL}
    assert finding.explanation.startswith("slot2 computes differently: other where 3 of 4 GPUs have same")
    assert outcomes(judge_hash(report, PLACES, 0)) == {"resnet50.hash": Outcome.PASS}


def test_without_a_majority_nobody_is_trusted():
    report = a_report(solos=solos(s2={"hash": "other"}, s3={"hash": "other"}))
    for index in range(4):
        finding = judge_hash(report, PLACES, index)
        assert outcomes(finding) == {"resnet50.hash": Outcome.FAIL}
        assert "4 GPUs gave 2 different hashes and no majority" in finding.explanation


def test_a_gpu_without_a_solo_run_or_without_fellows_is_not_measured():
    assert "no solo run" in judge_hash(a_report(solos=()), PLACES, 0).unmeasured
    assert "no other GPU to compare with" in judge_hash(a_report(solos=solos()[:1]), PLACES, 0).unmeasured
    assert "no solo run" in judge_straggler(a_report(solos=(), untried="out of memory"), PLACES, 0, SOLID).unmeasured


# stragglers


def test_a_straggler_is_named_with_its_telemetry():
    report = a_report(solos=solos(s1={"rate": 900.0}), telemetry=(Telemetry(1, 180.0, 89, {"hw_thermal_slowdown": 0.7}),))
    finding = judge_straggler(report, PLACES, 1, SOLID)
    assert outcomes(finding)["resnet50.solo"] is Outcome.FAIL
    assert "slot1 is a straggler: 900 images/s alone, median 1000" in finding.explanation
    assert "180 W, 89 C, hw_thermal_slowdown 70%" in finding.explanation
    assert judge_straggler(report, PLACES, 0, SOLID).explanation == ""


# finite numbers


def test_the_first_gpu_whose_loss_was_no_number_is_named():
    ranks = tuple(Rank(index, index, "nan", 41 if index == 3 else 42) for index in range(4))
    windows = tuple(Window(number, 4000.0, 7.5 if number < 5 else None) for number in range(1, 11))
    finding = judge_finite(a_report(ranks=ranks, windows=windows), PLACES)
    assert outcomes(finding) == {
        "resnet50.windows-not-finite": Outcome.FAIL,
        "resnet50.ranks-not-finite": Outcome.FAIL,
        "resnet50.solos-not-finite": Outcome.PASS,
    }
    assert "first on slot3 at step 41; 3 GPUs followed" in finding.explanation
    assert "from window 5 on" in finding.explanation


def test_a_solo_run_that_was_no_number_is_named():
    finding = judge_finite(a_report(solos=solos(s1={"bad_step": 3, "loss": None})), PLACES)
    assert finding.explanation == "alone: slot1 at step 3"


def test_a_rising_loss_is_no_fault():
    windows = tuple(Window(number, 4000.0, 7.4 + 0.1 * number) for number in range(1, 11))
    assert set(outcomes(judge_finite(a_report(windows=windows), PLACES)).values()) == {Outcome.PASS}


# floors


def test_the_total_is_judged_by_the_floor_of_as_many_gpus_as_are_present():
    finding = judge_floor(a_report(per_gpu=760.0), PLACES, [FLOOR], 4)
    assert [str(taken.limit) for taken in finding.measurements] == [">= 3000 images/s", ">= 750 images/s"]
    assert outcomes(finding) == {"resnet50.total": Outcome.MARGINAL, "resnet50.median": Outcome.MARGINAL}


def test_gpus_that_took_no_part_do_not_lower_the_floor():
    finding = judge_floor(a_report(per_gpu=990.0, gpus=GPUS[:3], windows=(Window(1, 2900.0, 7.5),)), PLACES, [FLOOR], 4)
    assert outcomes(finding) == {"resnet50.total": Outcome.FAIL, "resnet50.median": Outcome.PASS}
    assert "only 3 of the 4 GPUs present took part (slot0, slot1, slot2)" in finding.explanation


def test_all_gpus_evenly_slow_points_to_the_software_and_shows_both_identities():
    finding = judge_floor(a_report(per_gpu=630.0, solos=solos(s0={"rate": 1004.0})), PLACES, [FLOOR], 4)
    assert outcomes(finding) == {"resnet50.total": Outcome.FAIL, "resnet50.median": Outcome.FAIL}
    assert "identity of this run and of the floor are the same: tensorflow fp16 xla batch 512" in finding.explanation
    assert "even on all 4 (solo runs within 0.4% of each other): the software path, not a part" in finding.explanation


def test_one_slow_gpu_points_to_that_gpu():
    finding = judge_floor(a_report(per_gpu=630.0, solos=solos(s2={"rate": 640.0})), PLACES, [FLOOR], 4)
    assert "uneven: slowest alone is slot2 with 640 of 1000 images/s" in finding.explanation


@pytest.mark.parametrize("other", [{"framework": "pytorch"}, {"precision": "amp"}, {"compiler": "none"}, {"batch": 256}])
@pytest.mark.parametrize("per_gpu", [300.0, 2000.0])
def test_another_identity_is_recorded_and_never_judged(other, per_gpu):
    finding = judge_floor(a_report(per_gpu=per_gpu, identity=replace(IDENTITY, **other)), PLACES, [FLOOR], 4)
    assert set(outcomes(finding).values()) == {Outcome.RECORDED}
    assert finding.unmeasured.startswith("baseline recorded, not judged")
    assert "floors are known for: tensorflow fp16 xla batch 512" in finding.unmeasured


def test_a_run_without_windows_is_not_measured():
    empty = a_report(windows=(), ranks=(), allreduce=None, untried="fewer than two GPUs")
    for finding in (
        judge_floor(empty, PLACES, [FLOOR], 4),
        judge_efficiency(empty, at_least(0.85)),
        judge_finite(empty, PLACES),
        judge_ranks(empty, PLACES),
    ):
        assert finding.unmeasured == "fewer than two GPUs"


# scaling and spread


def test_bad_scaling_shows_the_transport():
    finding = judge_efficiency(a_report(per_gpu=800.0, transport=Transport(shm=4)), at_least(0.85))
    assert outcomes(finding) == {"resnet50.efficiency": Outcome.FAIL}
    assert "0 P2P, 4 SHM, 0 NET; most go through host memory" in finding.explanation
    assert judge_efficiency(a_report(per_gpu=980.0), at_least(0.85)).explanation == ""


@pytest.mark.parametrize(("swing", "outcome"), [(0.008, Outcome.PASS), (0.03, Outcome.FAIL)])
def test_a_rate_that_swings_fails(swing, outcome):
    windows = tuple(Window(number, 4000.0 * (1 + (swing if number % 2 else -swing)), 7.5) for number in range(10))
    assert outcomes(judge_spread(a_report(windows=windows), at_most(3, "%"))) == {"resnet50.spread": outcome}


def test_a_spread_takes_five_windows():
    finding = judge_spread(a_report(windows=a_report().windows[:4]), at_most(3, "%"))
    assert finding.unmeasured == "a spread takes 5 windows, there are 4"


# ranks


def test_a_rank_with_other_parameters_and_wrong_sums_is_named():
    ranks = tuple(Rank(index, 3 - index, "astray" if index == 1 else "equal") for index in range(4))
    finding = judge_ranks(a_report(ranks=ranks, allreduce=AllReduce(4, 1024, 7, (1,))), PLACES)
    assert outcomes(finding) == {
        "resnet50.ranks": Outcome.PASS,
        "resnet50.parameter-hashes": Outcome.FAIL,
        "resnet50.wrong-sums": Outcome.FAIL,
    }
    assert "parameters differ on slot2 (rank 1) from those of 3 other ranks" in finding.explanation
    assert "7 wrong sums on slot2" in finding.explanation


# recorded logs

LOGS = Path(os.environ.get("BRINGUP_FIELD_DATA", "/nonexistent")) / "gpu/lambdal__lambda-tensorflow-benchmark/logs"
recorded = pytest.mark.skipif(not LOGS.is_dir(), reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")
STEP = re.compile(r"^(\d+)\timages/sec: ([\d.]+) ", re.MULTILINE)
XLA = "Gold_6230-Quadro_RTX_8000_XLA_trt_TF1_15.logs"
NO_XLA = "Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs"


def test_a_rank_that_says_nothing_at_the_end_is_not_a_pass():
    finding = judge_ranks(a_report(ranks=tuple(Rank(index, index, "equal") for index in range(3))), PLACES)
    assert "rank 3 did not say" in finding.unmeasured


def test_an_all_reduce_over_fewer_ranks_than_gpus_fails():
    finding = judge_ranks(a_report(allreduce=AllReduce(3, 1024, 0)), PLACES)
    assert outcomes(finding)["resnet50.ranks"] is Outcome.FAIL


def test_a_solo_run_that_ends_without_a_loss_is_named_even_if_no_step_is():
    finding = judge_finite(a_report(solos=solos(s2={"loss": None})), PLACES)
    assert outcomes(finding)["resnet50.solos-not-finite"] is Outcome.FAIL
    assert "slot2 ended without a finite loss" in finding.explanation


def windows_of(log):
    """The ten-step windows; the log prints the mean over all steps so far."""
    seen = [(int(step), float(rate)) for step, rate in STEP.findall(log.read_text())]
    rates = [(b - a) / (b / vb - a / va) for (a, va), (b, vb) in pairwise(seen[1:])]
    return tuple(Window(number, rate, 7.5) for number, rate in enumerate(rates, 1))


def log_of(folder, count, precision="fp16", batch=512):
    return LOGS / folder / f"syn-replicated-{precision}-{count}gpus" / f"resnet50-{batch}" / "throughput" / "1"


def eight(folder, compiler):
    (alone,) = {window.rate for window in windows_of(log_of(folder, 1))[:1]}
    return Report(
        identity=Identity("tensorflow", "fp16", compiler, 512),
        gpus=tuple(RankGpu(index, index, f"0000:{index:02x}:00.0", "") for index in range(8)),
        solos=tuple(Solo(index, alone) for index in range(8)),
        windows=windows_of(log_of(folder, 8)),
        transport=Transport(p2p=8),
    )


@recorded
def test_eight_healthy_rtx_8000_pass_floor_scaling_and_spread():
    report = eight(XLA, "xla")
    assert report.total == pytest.approx(7934, rel=0.01)
    assert set(outcomes(judge_floor(report, {}, [FLOOR], 8)).values()) == {Outcome.PASS}
    assert set(outcomes(judge_efficiency(report, at_least(0.85))).values()) == {Outcome.PASS}
    assert set(outcomes(judge_spread(report, at_most(3, "%"))).values()) == {Outcome.PASS}


@recorded
def test_eight_rtx_8000_without_xla_scale_badly_swing_and_have_no_floor():
    report = eight(NO_XLA, "none")
    assert set(outcomes(judge_efficiency(report, at_least(0.85))).values()) == {Outcome.FAIL}
    assert set(outcomes(judge_spread(report, at_most(3, "%"))).values()) == {Outcome.FAIL}
    assert "not judged" in judge_floor(report, {}, [FLOOR], 8).unmeasured


@recorded
def test_three_percent_separate_recorded_healthy_runs_from_sick_ones():
    spreads = {str(log.relative_to(LOGS)): Report(windows=windows_of(log)).spread for log in LOGS.rglob("throughput/1")}
    sick = {name for name, spread in spreads.items() if spread > 3.0}
    assert len(spreads) > 30
    assert all("fp16" in name and "XLA" not in name and "-1gpus" not in name for name in sick)
    assert all(spread <= 1.7 or spread >= 4.2 for spread in (round(spread, 1) for spread in spreads.values()))


# a machine without a platform


def test_a_solo_run_that_was_no_number_is_named_even_where_nothing_else_was_tried():
    report = a_report(solos=solos(s1={"bad_step": 3, "loss": None}), windows=(), ranks=(), untried="alone, rank 1 ...")
    finding = judge_finite(report, PLACES)
    assert outcomes(finding)["resnet50.solos-not-finite"] is Outcome.FAIL
    assert finding.explanation == "alone: slot1 at step 3"
    assert judge_finite(a_report(windows=(), ranks=(), untried="why"), PLACES).unmeasured == "why"


def test_a_gpu_that_does_not_learn_one_batch_by_heart_is_named():
    report = a_report(solos=solos(s0={"first_loss": 8.0, "loss": 7.1}, s1={"first_loss": 8.0, "loss": 7.3}))
    finding = judge_finite(report, PLACES)
    assert outcomes(finding)["resnet50.solos-not-learning"] is Outcome.FAIL
    assert finding.explanation.startswith("alone: slot1 does not learn one fixed batch: its loss went from 8 to 7.3")
    assert "slot0" not in finding.explanation


def test_two_ranks_that_differ_have_no_majority():
    report = a_report(gpus=GPUS[:2], ranks=(Rank(0, 0, "a"), Rank(1, 1, "b")), allreduce=AllReduce(2, 1024, 0))
    finding = judge_ranks(report, PLACES)
    assert outcomes(finding)["resnet50.parameter-hashes"] is Outcome.FAIL
    assert finding.explanation.startswith(
        "2 ranks ended with 2 different sets of parameters, and no majority says which is right\n"
    )


@pytest.mark.parametrize("different", [{"size": 64}, {"device": "cpu"}])
def test_a_floor_is_for_full_images_on_gpus_only(different):
    assert floor_for(IDENTITY, [FLOOR]) is FLOOR
    assert floor_for(replace(IDENTITY, **different), [FLOOR]) is None


def test_gpus_without_a_platform_are_judged_by_every_rule_and_named_by_index_and_address():
    report = a_report(solos=solos(s2={"hash": "other"}, s1={"rate": 900.0}))
    found = dict(judge_alone(report, Resnet50(floor=())))
    names = [f"GPU {index} (0000:4{index}:00.0)" for index in range(4)]
    singles = ("resnet50.nan", "resnet50.ranks", "resnet50.efficiency", "resnet50.spread", "resnet50.floor")
    assert set(found) == {*(f"resnet50.{check} {name}" for name in names for check in ("hash", "straggler", "watched")), *singles}
    assert [check for check, finding in found.items() if finding.explanation] == [
        f"resnet50.hash {names[2]}",
        f"resnet50.straggler {names[1]}",
    ]
    assert "recorded, not judged" in found["resnet50.floor"].unmeasured


def test_ranks_on_a_processor_are_not_judged_by_their_speed():
    report = a_report(identity=replace(IDENTITY, device="cpu"), solos=solos(s1={"rate": 100.0}))
    found = dict(judge_alone(report, Resnet50(floor=(FLOOR,))))
    assert set(found) == {
        "resnet50.hash rank 0", "resnet50.hash rank 1", "resnet50.hash rank 2", "resnet50.hash rank 3",
        "resnet50.nan", "resnet50.ranks", "resnet50.floor",
    }  # fmt: skip
    assert not [finding for finding in found.values() if finding.explanation]


def test_one_device_is_compared_with_nobody():
    report = a_report(gpus=GPUS[:1], solos=solos()[:1], ranks=(), allreduce=None, untried="one device alone")
    found = dict(judge_alone(report, Resnet50(floor=())))
    watched = "resnet50.watched GPU 0 (0000:40:00.0)"
    assert set(found) == {"resnet50.nan", "resnet50.ranks", "resnet50.spread", "resnet50.floor", watched}
    assert found["resnet50.ranks"].unmeasured == "one device alone"


def test_parameters_are_compared_even_where_the_sums_were_not_checked():
    equal = judge_ranks(a_report(allreduce=None, untried="inside its graph"), PLACES)
    assert outcomes(equal) == {"resnet50.ranks": Outcome.PASS, "resnet50.parameter-hashes": Outcome.PASS}
    assert equal.unmeasured == "inside its graph"
    ranks = (*(Rank(index, index, "equal") for index in range(3)), Rank(3, 3, "astray"))
    odd = judge_ranks(a_report(allreduce=None, ranks=ranks), PLACES)
    assert odd.explanation.splitlines() == [
        "parameters differ on slot3 (rank 3) from those of 3 other ranks",
        "data was lost or changed on the way (p2p.integrity), or in a GPU's own arithmetic (resnet50.hash, gpu.ecc)",
    ]
