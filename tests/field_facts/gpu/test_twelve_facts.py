"""Twelve facts of the field about many GPUs in one machine, each shown by what the harness does with it."""

import importlib.util
import subprocess
import sys
from collections import Counter

import pytest

from harness.agent.p2p_schedule import schedule
from harness.clock import WallClock
from harness.devices.gpu import PeerStatus, read_inventory
from harness.devices.host import Host
from harness.devices.p2p import Damage
from harness.devices.resnet50 import Identity, RankGpu, Report, Solo, run_resnet50
from harness.limits import Outcome
from harness.live.local import LocalCommands
from harness.procedures.p2p_patterns import slow_pairs
from harness.procedures.places import Place
from harness.procedures.resnet50 import judge_hash

ENABLE_ALL = """
from harness.agent.cuda_driver import Cuda, CudaFailure
cuda = Cuda().open()
contexts = [cuda.call("cuDevicePrimaryCtxRetain", cuda.call("cuDeviceGet", index)) for index in range(10)]
cuda.call("cuCtxSetCurrent", contexts[0])
for number, other in enumerate(contexts[1:], 1):
    try:
        cuda.call("cuCtxEnablePeerAccess", other, 0)
    except CudaFailure as failure:
        print(number, failure.code)
        break
"""
"""What many programs do at their start, and what dies with the ninth peer."""


def test_fact_1_a_gpu_has_eight_peers_and_more_gpus_are_tested_pair_by_pair(machine, tested):
    program = [sys.executable, "-c", ENABLE_ALL]
    naive = subprocess.run(program, env=machine("1x10").environment, capture_output=True, text=True, check=True)
    assert naive.stdout == "9 711\n"
    found = tested("1x11")
    assert len(found.report.tried) == 110
    assert {(gpu.peers, gpu.stopped) for gpu in found.report.gpus} == {(8, 0)}
    assert found.failed() == {}


def test_fact_2_a_capability_yes_proves_nothing(machine, corrupt):
    said = read_inventory(machine("2x3", "dropped:0>4").host(), watch=0.1).peers[0, 4]
    assert (said.read, said.write) == (PeerStatus.OK, PeerStatus.OK)
    assert {pair.can for pair in corrupt.report.pairs} == {True}
    assert set(corrupt.failed()) == {("integrity", index) for index in range(6)}


def test_fact_3_a_bandwidth_proves_nothing_without_ceiling_and_the_figure_without_peer_access(made):
    impossible = made.p2p_sample(2, "NVIDIA RTX PRO 6000 Blackwell", enabled=103.88, disabled=50.0, both=None)
    assert made.faults(made.analysed({"sample": impossible})) == ["ceiling"]
    staged = made.p2p_sample(2, enabled=11.4, disabled=11.4, late=13.5)
    assert made.faults(made.analysed({"sample": staged})) == ["path"], "11.4 GB/s would pass any floor for Gen3 across a root port"
    assert made.faults(made.analysed({"sample": made.p2p_sample(2, enabled=11.4, disabled=9.9, late=2.0)})) == []


def test_fact_4_what_every_public_check_misses_is_caught_and_named(corrupt, made):
    assert {pair: corrupt.pair(*pair).wrong.damage for pair in ((5, 0), (4, 2), (3, 1))} == {
        (5, 0): Damage.MISROUTED, (4, 2): Damage.SHIFTED, (3, 1): Damage.SINGLE_BIT,
    }  # fmt: skip
    assert "the data of another GPU arrived (gpu2)" in corrupt.failed()["integrity", 5]
    passed = made.analysed({"nvbandwidth": made.nvbandwidth({"device_to_device_memcpy_write_ce": made.square(2, 12.0)})})
    assert "copies from the wrong GPU: nvbandwidth writes one pattern for all pairs, so it passes them" in made.gaps(passed)


def test_fact_5_pairs_across_sockets_of_skylake_and_later_are_allowed(made):
    """Eight RTX 8000 on two Gold 6230 show an all-yes matrix (lambdal/lambda-tensorflow-benchmark): OK and SYS are no fault."""
    files = {"p2p": made.topo_p2p(4, "OK"), "topo": made.topo(made.switches(2, 2)), "fp16": made.tf_log(4, [3900.0] * 6)}
    analysis = made.analysed(files)
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    assert set(analysis.runs[0].training.access.values()) == {True}
    old = made.topo_p2p(4, lambda row, column: "OK" if row // 2 == column // 2 else "TNS")
    told = made.told(made.analysed({"p2p": old, "topo": files["topo"]}), "can-access")
    assert "no peer access for 8 ordered pairs" in told
    assert "the GPUs are on different sockets of an old platform" in told


def test_fact_6_nothing_is_copied_under_a_translating_iommu_and_access_control_only_halves(translating, made):
    lines = translating("1x2", "DMA-FQ", "dropped:0>1").p2p()
    assert [line["kind"] for line in lines] == ["hello", "gpu", "gpu", "refused"]
    analysis = made.analysed({"sample": made.p2p_sample(2, enabled=12.5, both=12.8)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["both-ways"])
    assert "access control (ACS) sends the traffic up to the root complex" in made.told(analysis, "both-ways")


def test_fact_7_a_box_whose_pairs_are_perfect_alone_fails_when_several_write_at_once(tested):
    found = tested("2x4", "collapse:1")
    assert list(found.failed()) == [("contention", "switch1")]
    assert "reads stay healthy" in found.failed()["contention", "switch1"]
    assert slow_pairs(found.report) == ()
    assert len(found.report.tried) == 56


def test_fact_8_rounds_are_right_within_a_switch_and_wrong_across_an_uplink():
    """The circle's rounds put up to ten copies one way onto one uplink; the harness's steps never two."""

    def crowds(steps):
        ways = [Counter((a // 10, b // 10) for a, b in step if a // 10 != b // 10) for step in steps]
        return max(max(way.values(), default=0) for way in ways)

    ring = list(range(1, 20))
    circle = []
    for turn in range(19):
        row = [0, *ring[turn:], *ring[:turn]]
        circle.append([(row[place], row[19 - place]) for place in range(10)])
    assert len({frozenset(pair) for step in circle for pair in step}) == 190
    assert crowds(circle) > 4
    steps = schedule({gpu: (f"switch{gpu // 10}",) for gpu in range(20)})
    assert sum(map(len, steps)) == 380
    assert crowds(steps) == 1
    below = schedule(dict.fromkeys(range(20), ("one switch",)))
    assert (len(below), {len(step) for step in below}) == (19, {20})


@pytest.mark.parametrize(
    ("name", "xla", "per_gpu", "batch", "passes"),
    [
        ("fp16", True, 992, 512, True),
        ("fp16", False, 388, 512, None),
        ("fp32", True, 357, 256, None),
        ("fp16", True, 640, 512, False),
    ],
)
def test_fact_9_fifteen_thousand_images_are_a_question_of_the_software(made, name, xla, per_gpu, batch, passes):
    """750 of each of twenty: a floor for TensorFlow, fp16 and XLA; anything else is recorded and not judged."""
    analysis = made.analysed({name: made.tf_log(20, [20.0 * per_gpu] * 8, xla=xla, batch=batch)}, "lqd8360")
    assert ("resnet50.floor" in made.faults(analysis)) is (passes is False)
    assert ("baseline recorded, not judged" in made.gaps(analysis)) is (passes is None)


def test_fact_10_three_percent_of_spread_part_healthy_from_sick_runs(made):
    for spread, failed in ((0.1, False), (1.7, False), (4.2, True), (10.9, True)):
        rates = [1000.0, *(1000.0 * (1 + sign * spread / 200) for sign in (1, -1) * 4)]
        assert bool(made.faults(made.analysed({"fp16": made.tf_log(2, rates)}))) is failed, spread


def test_fact_11_a_loss_that_rises_is_no_alarm_and_one_that_is_no_number_is(made):
    rising = [7.48, 7.51, 7.47, 7.55, 7.60, 7.58]
    assert made.faults(made.analysed({"fp16": made.tf_log(2, [1000.0] * 6, losses=rising)})) == []
    broken = made.analysed({"fp16": made.tf_log(2, [1000.0] * 6, losses=[*rising[:4], "nan", "nan"])})
    assert made.faults(broken) == ["resnet50.nan"]


def test_fact_12_like_gpus_give_one_hash_and_the_majority_names_the_other():
    places = {index: Place(f"slot{index}") for index in range(20)}
    solos = tuple(Solo(index, 750.0, "odd" if index == 7 else "same", 1.0) for index in places)
    report = Report(Identity(), tuple(RankGpu(index, index, "", "") for index in places), solos)
    failed = {index: finding.explanation for index in places if (finding := judge_hash(report, places, index)).explanation}
    assert list(failed) == [7]
    assert "slot7 computes differently: odd where 19 of 20 GPUs have same" in failed[7]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_fact_12_real_training_on_the_processor_gives_one_hash_too():
    clock = WallClock()
    commands = LocalCommands(clock)
    try:
        options = ("--device", "cpu", "--size", "32", "--batch", "4", "--steps", "2")
        report = run_resnet50(Host(commands, clock, python=sys.executable), *options, windows=5, timeout=300)
    finally:
        commands.close()
    places = {gpu.index: Place(f"rank {gpu.rank}") for gpu in report.gpus}
    outcomes = {taken.outcome for index in places for taken in judge_hash(report, places, index).measurements}
    assert (len(report.solos), outcomes) == (2, {Outcome.PASS})
