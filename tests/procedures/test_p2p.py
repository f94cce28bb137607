import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.devices.gpu import Gpu, Peering, PeerStatus
from harness.devices.p2p import (
    TOO_MANY_PEERS,
    Alone,
    Contention,
    Damage,
    Holder,
    LinkKind,
    LoadedLink,
    Pair,
    PeerGpu,
    Report,
    Wedged,
    Wrong,
    Xid,
)
from harness.limits import Outcome, at_least, at_most, exactly
from harness.platform import Link, P2p, Slot
from harness.procedures.p2p import (
    DIRECT,
    HINDERED,
    STAGED,
    judge_budget,
    judge_contention,
    judge_integrity,
    judge_link,
    judge_path,
    judge_watchdog,
    path_of,
)
from harness.procedures.p2p_missing import missing_from, why_no_contention
from harness.procedures.p2p_patterns import common_ground, slow_pairs
from harness.procedures.places import Place, find_places, index_of

RULES = P2p()
NO_BAD = exactly(0, "B")
PLACES = {index: Place(f"{'AB'[index // 3]}{index % 3}", f"jbog{'AB'[index // 3]}") for index in range(6)}
GPUS = tuple(
    PeerGpu(index, f"0000:4{index}:00.0", f"GPU-{index}", group="AB"[index // 3], iommu="none", peers=8) for index in range(6)
)


def good_pair(source, target, **fields):
    near = source // 3 == target // 3
    base = Pair(source, target, True, LinkKind.PCIE, 12.5 if near else 10.0, 9.9 if near else 11.4, 2.0, 3.0, checked=1024, bad=0)
    return replace(base, **fields)


def a_report(changed=(), **fields):
    pairs = {(a, b): good_pair(a, b) for a in range(6) for b in range(6) if a != b}
    pairs |= {(pair.source, pair.target): pair for pair in changed}
    return Report(**({"gpus": GPUS, "pairs": tuple(pairs.values())} | fields))


def outcomes(finding):
    return {taken.outcome for taken in finding.measurements}


def bad_pair(source, target, damage=Damage.DROPPED, **fields):
    wrong = Wrong(damage, "write", 64, 127, 64, disabled_bad=0)
    return good_pair(source, target, bad=64, wrong=replace(wrong, **fields))


def staged_pair(source, target):
    return good_pair(source, target, enabled=11.0, disabled=11.0, write_us=13.5)


# places


def test_places_follow_the_uuid_and_not_the_order():
    slots = [Slot(name=name, path="pci0000:3a/00.0", uplink="up") for name in ("first", "second")]
    gpus = {"first": Gpu(0, "0000:40:00.0", uuid="GPU-1"), "second": Gpu(1, "0000:41:00.0", uuid="GPU-0")}
    places = find_places(GPUS[:3], gpus, slots)
    assert [place.slot for place in places.values()] == ["second", "first", "0000:42:00.0"]
    assert (places[0].uplink, places[2].uplink) == ("up", "")
    assert (index_of(places, "first"), index_of(places, "nowhere")) == (1, None)


def test_a_worker_without_uuids_is_placed_by_address():
    gpus = {"first": Gpu(7, "0000:40:00.0", uuid="GPU-9")}
    assert find_places([replace(GPUS[0], uuid="")], gpus, [])[0].slot == "first"


# peers


def test_eight_peers_are_enough_and_711_at_the_ninth_is_the_limit():
    report = a_report(gpus=tuple(replace(gpu, stopped=TOO_MANY_PEERS) for gpu in GPUS))
    finding = judge_budget(report, PLACES, 8)
    assert outcomes(finding) == {Outcome.PASS}
    assert {taken.note for taken in finding.measurements} == {"error 711 at the next one: the limit of peers, not a fault"}
    assert (finding.explanation, finding.bench) == ("", "")


def test_a_small_machine_needs_no_more_peers_than_it_has_other_gpus():
    assert outcomes(judge_budget(a_report(gpus=tuple(replace(gpu, peers=5) for gpu in GPUS)), PLACES, 8)) == {Outcome.PASS}


def test_peers_that_a_process_holds_are_the_bench_s_fault_and_it_is_named():
    short = (replace(GPUS[0], peers=3, stopped=TOO_MANY_PEERS), *GPUS[1:])
    finding = judge_budget(a_report(gpus=short, holders=(Holder(0, 2117, "Xorg"),)), PLACES, 8)
    assert Outcome.FAIL not in outcomes(finding)
    assert "A0: 3 of 5 peers can be enabled (error 711); held by Xorg (pid 2117)" in finding.bench
    assert finding.explanation == ""


def test_too_few_peers_that_nobody_holds_are_the_product_s_fault():
    finding = judge_budget(a_report(gpus=(replace(GPUS[0], peers=3, stopped=217), *GPUS[1:])), PLACES, 8)
    assert Outcome.FAIL in outcomes(finding)
    assert "A0: 3 of 5 peers can be enabled (error 217)" in finding.explanation


# wedged copies


def test_a_gpu_that_fell_off_the_bus_fails_and_its_partner_does_not():
    untried = [Pair(4, other, untried="GPU 4 fell off the bus") for other in range(4)]
    report = a_report(untried, wedged=(Wedged(1, 4, 30.0, culprit=4),), xids=(Xid(4, "0000:44:00.0", 79, "fallen off the bus"),))
    finding = judge_watchdog(report, PLACES, 4)
    assert finding.measurements[0].value == "Xid 79, wedged"
    assert "A1 -> B1: the copy did not end in 30 s and was killed" in finding.explanation
    assert "Xid 79 on B1: fallen off the bus" in finding.explanation
    assert "26 pairs went on, 4 were not tried" in finding.explanation
    assert outcomes(judge_watchdog(report, PLACES, 1)) == {Outcome.PASS}


def test_both_ends_of_a_wedged_copy_are_suspect_where_no_error_names_one():
    report = a_report(wedged=(Wedged(1, 4, 30.0, reaped=False),))
    for index in (1, 4):
        finding = judge_watchdog(report, PLACES, index)
        assert outcomes(finding) == {Outcome.FAIL}
        assert "the killed process stays: the host has to be rebooted" in finding.explanation
    assert outcomes(judge_watchdog(report, PLACES, 0)) == {Outcome.PASS}


# wrong bytes


@pytest.mark.parametrize("damage", list(Damage))
def test_wrong_bytes_fail_and_the_class_says_what_became_of_them(damage):
    finding = judge_integrity(a_report([bad_pair(0, 4, damage)]), PLACES, 0, NO_BAD)
    failed = [taken for taken in finding.measurements if taken.outcome is Outcome.FAIL]
    assert [(taken.part.slot, taken.value) for taken in failed] == [("A0 -> B1", 64)]
    assert finding.explanation.startswith("DATA CORRUPTION A0 -> B1: do not use")
    assert f"class {damage.value}" in finding.explanation
    assert "64 wrong bytes of 1024, first at offset 0x40, last at 0x7f" in finding.explanation


def test_a_misrouted_copy_names_the_gpu_whose_data_came():
    finding = judge_integrity(a_report([bad_pair(0, 4, Damage.MISROUTED, of=5)]), PLACES, 0, NO_BAD)
    assert "the data of another GPU arrived (B2)" in finding.explanation


def test_the_copy_without_peer_access_tells_path_from_memory():
    path = judge_integrity(a_report([bad_pair(0, 4)]), PLACES, 0, NO_BAD).explanation
    memory = judge_integrity(a_report([bad_pair(0, 4, disabled_bad=64)]), PLACES, 0, NO_BAD).explanation
    unknown = judge_integrity(a_report([bad_pair(0, 4, disabled_bad=None)]), PLACES, 0, NO_BAD).explanation
    assert "so it is the path" in path
    assert "suspect the memory" in memory
    assert "not tried without peer access" in unknown


def test_only_the_source_of_a_bad_pair_fails():
    report = a_report([bad_pair(0, 4)])
    assert outcomes(judge_integrity(report, PLACES, 4, NO_BAD)) == {Outcome.PASS}
    assert "the other way: clean" in judge_integrity(report, PLACES, 0, NO_BAD).explanation
    assert "1 corrupt pair in all, 29 clean: the way leads over the uplinks of jbogA and jbogB" in (
        judge_integrity(report, PLACES, 0, NO_BAD).explanation
    )


def test_a_pair_that_is_clean_alone_and_corrupt_in_company_fails():
    pair = replace(bad_pair(0, 4), alone=Alone(10.0, 11.0, 0))
    finding = judge_integrity(a_report([pair]), PLACES, 0, NO_BAD)
    assert Outcome.FAIL in outcomes(finding)
    assert "alone: 0 wrong bytes" in finding.explanation


def test_a_copy_that_compared_nothing_is_not_measured():
    finding = judge_integrity(a_report([good_pair(0, 4, checked=0)]), PLACES, 0, NO_BAD)
    missing = [taken for taken in finding.measurements if taken.outcome is Outcome.NOT_MEASURED]
    assert [taken.note for taken in missing] == ["nothing was compared"]


def test_a_copy_that_ended_with_an_error_fails_and_711_does_not():
    failed = Pair(0, 4, error="CUDA_ERROR_LAUNCH_FAILED", error_code=719)
    limit = Pair(0, 5, error="CUDA_ERROR_TOO_MANY_PEERS", error_code=TOO_MANY_PEERS)
    finding = judge_integrity(a_report([failed, limit]), PLACES, 0, NO_BAD)
    by_part = {taken.part.slot: taken.outcome for taken in finding.measurements}
    assert (by_part["A0 -> B1"], by_part["A0 -> B2"]) == (Outcome.FAIL, Outcome.NOT_MEASURED)
    assert finding.explanation == "A0 -> B1: the copy failed: CUDA_ERROR_LAUNCH_FAILED"


def test_a_gpu_without_any_copy_is_not_measured():
    report = a_report([Pair(0, other, untried="it fell off the bus") for other in range(1, 6)])
    assert judge_integrity(report, PLACES, 0, NO_BAD).unmeasured == "A0: no copy from it: it fell off the bus"
    assert judge_path(report, PLACES, 0, RULES).unmeasured == "A0: no copy from it: it fell off the bus"


# the way taken


@pytest.mark.parametrize(
    ("enabled", "disabled", "write_us", "path"),
    [
        (11.0, 11.0, 13.5, STAGED),  # 11 GB/s passes any floor of 9 to 11
        (11.5, 11.0, 9.0, STAGED),
        (11.6, 11.0, 13.5, DIRECT),  # clearly faster with peer access
        (10.0, 11.4, 2.5, DIRECT),  # slower than through the host, and yet direct: between sockets
        (145.0, 11.4, 9.8, DIRECT),  # DGX-2 reads take 9.2 to 10.3 us
        (1.0, 9.9, 1.7, HINDERED),  # well below what even the host's memory gives: no topology explains that
        (4.9, 10.0, 1.7, HINDERED),
        (5.0, 10.0, 1.7, DIRECT),
        (None, 11.0, 13.5, None),
        (11.0, 11.0, None, None),
    ],
)
def test_staging_takes_both_the_comparison_and_the_latency(enabled, disabled, write_us, path):
    assert path_of(good_pair(0, 1, enabled=enabled, disabled=disabled, write_us=write_us), RULES) == path


def test_a_hindered_copy_fails_with_both_figures_and_where_to_look():
    found = judge_path(a_report([good_pair(0, 1, enabled=1.0, disabled=9.9)]), PLACES, 0, RULES)
    assert [measured.value for measured in found.measurements if measured.outcome is Outcome.FAIL] == [HINDERED]
    assert "less than half of what the same copy does through the host's memory" in found.explanation


def test_staged_copies_name_their_common_end():
    finding = judge_path(a_report([staged_pair(0, target) for target in range(1, 6)]), PLACES, 0, RULES)
    assert Outcome.FAIL in outcomes(finding)
    assert "A0 -> A1: staged through the host: 11 GB/s with, 11 GB/s without peer access, write 13.5 us" in finding.explanation
    assert "and 4 more from A0" in finding.explanation
    assert "5 staged pairs in all: all from A0: its sending side (5 of 5 targets)" in finding.explanation


def test_a_copy_above_its_links_ceiling_did_not_happen_as_timed():
    finding = judge_path(a_report([good_pair(0, 1, enabled=103.88)]), PLACES, 0, RULES)
    assert "A0 -> A1: 103.88 GB/s over pcie (<= 15.75 GB/s): it did not happen as timed" in finding.explanation


def test_an_nvlink_pair_has_the_ceiling_of_nvlink():
    bridged = good_pair(0, 1, enabled=47.0, link=LinkKind.NVLINK)
    assert outcomes(judge_path(a_report([bridged]), PLACES, 0, RULES)) == {Outcome.PASS}
    assert Outcome.FAIL in outcomes(judge_path(a_report([replace(bridged, enabled=60.0)]), PLACES, 0, RULES))


def test_a_pair_measured_alone_is_judged_by_that():
    pair = replace(staged_pair(0, 1), alone=Alone(12.5, 9.9, 0))
    assert outcomes(judge_path(a_report([pair]), PLACES, 0, RULES)) == {Outcome.PASS}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (PeerStatus.TOPOLOGY_NOT_SUPPORTED, "different sockets"),
        (PeerStatus.DISABLED_BY_REGKEY, "module option"),
        (PeerStatus.OK, ""),
    ],
)
def test_a_pair_without_peer_access_fails_with_the_driver_s_reason(status, said):
    report = a_report([good_pair(0, 1, can=False)])
    finding = judge_path(report, PLACES, 0, RULES, {("A0", "A1"): Peering(status, status)})
    assert Outcome.FAIL in outcomes(finding)
    assert "A0 -> A1: the driver says that peer access is not possible" in finding.explanation
    assert said in finding.explanation


def test_a_pair_well_below_its_like_is_noted_and_not_failed():
    finding = judge_path(a_report([good_pair(0, 1, enabled=6.0)]), PLACES, 0, RULES)
    assert outcomes(finding) == {Outcome.PASS}
    noted = [taken.part.slot for taken in finding.measurements if "well below its like" in taken.note]
    assert noted == ["A0 -> A1"]


def test_a_missing_figure_is_not_measured():
    finding = judge_path(a_report([good_pair(0, 1, write_us=None)]), PLACES, 0, RULES)
    assert Outcome.NOT_MEASURED in outcomes(finding)


# links under load


def test_a_link_that_stays_slow_under_load_fails_and_its_row_and_column_are_named():
    slow = [good_pair(a, b, enabled=3.2) for a in range(6) for b in range(6) if a != b and 2 in (a, b)]
    report = a_report(slow, links=(LoadedLink(2, 1, 16, 500, 0, 100.0),))
    finding = judge_link(report, PLACES, 2, Link(generation=3, width=16), at_most(8, "/min"))
    assert [taken.outcome for taken in finding.measurements] == [Outcome.FAIL, Outcome.PASS, Outcome.PASS]
    assert "A2 under load: Gen1 x16" in finding.explanation
    assert "10 slow pairs, median 3.2 GB/s where all pairs have 10: all copies from and to A2: its link" in finding.explanation


def test_a_link_that_replays_under_load_fails():
    report = a_report(links=(LoadedLink(2, 3, 16, 500, 100, 100.0),))
    finding = judge_link(report, PLACES, 2, Link(generation=3, width=16), at_most(8, "/min"))
    assert [taken.outcome for taken in finding.measurements] == [Outcome.PASS, Outcome.PASS, Outcome.FAIL]


@pytest.mark.parametrize("links", [(), (LoadedLink(2, 3, 16, 0),)])
def test_a_link_without_samples_is_not_measured(links):
    finding = judge_link(a_report(links=links), PLACES, 2, Link(generation=3, width=16), at_most(8, "/min"))
    assert "no sample of its link under load" in finding.unmeasured


# contention


def test_writes_that_collapse_in_company_fail_and_reads_stay_healthy():
    report = a_report(
        contention=(Contention("A", (0, 1), (3, 4), 10.0, 0.7, 9.5, 9.3), Contention("B", (3, 4), (0, 1), 10, 9.8, 9, 9))
    )
    finding = judge_contention(report, PLACES, "jbogA", at_least(0.5))
    assert [taken.outcome for taken in finding.measurements] == [Outcome.FAIL, Outcome.PASS]
    assert "jbogA: writes collapse under contention: 0.7 GB/s for 2 GPUs at once, 10 GB/s for one pair alone" in finding.explanation
    assert "posted writes of several GPUs block each other" in finding.explanation
    assert outcomes(judge_contention(report, PLACES, "jbogB", at_least(0.5))) == {Outcome.PASS}


def test_an_uplink_without_a_trial_is_not_measured():
    untried = a_report(contention=(Contention("A", (0, 1), untried="one switch only"),))
    finding = judge_contention(untried, PLACES, "jbogA", at_least(0.5))
    assert outcomes(finding) == {Outcome.NOT_MEASURED}
    assert {taken.note for taken in finding.measurements} == {"one switch only"}
    assert "did not try it" in judge_contention(untried, PLACES, "jbogB", at_least(0.5)).unmeasured


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        (("jbogA", "jbogB"), "jbogA: 1 GPU behind it"),
        (("jbogA", "jbogA", "jbogB"), "jbogA: no other uplink has two GPUs behind it"),
        (("jbogB", "jbogB"), "jbogA: 0 GPUs behind it"),
        (("jbogA", "jbogA", "jbogB", "jbogB"), ""),
    ],
)
def test_contention_takes_two_gpus_behind_each_of_two_uplinks(behind, why):
    places = {index: Place(f"slot{index}", uplink) for index, uplink in enumerate(behind)}
    assert why_no_contention(places, "jbogA").startswith(why)
    assert bool(why_no_contention(places, "jbogA")) == bool(why)


# patterns


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(0, 4)], "the way leads over the uplinks of jbogA and jbogB"),
        ([(0, 1)], "both below one switch, jbogA"),
        ([(0, 1), (0, 4)], "all from A0: its sending side (2 of 5 targets)"),
        ([(1, 0), (4, 0)], "all to A0: its receiving side (2 of 5 sources)"),
        ([(0, n) for n in range(1, 6)] + [(n, 0) for n in range(1, 6)], "all copies from and to A0: its link"),
        ([(0, 1), (4, 0)], "all from or to A0"),
        ([(0, 3), (1, 4), (5, 2)], "all across the uplinks of jbogA and jbogB"),
        ([(0, 1), (1, 2), (2, 0)], "all below one switch, jbogA"),
        ([(0, 1), (3, 4), (5, 2)], "no part in common among 3 pairs"),
    ],
)
def test_what_pairs_have_in_common_names_the_part(pairs, said):
    report = a_report()
    assert common_ground([good_pair(*pair) for pair in pairs], report, PLACES) == said


def test_slow_pairs_are_slow_among_their_like():
    report = a_report(
        [good_pair(0, 1, enabled=9.0), good_pair(0, 3, enabled=9.0)]
    )  # 9 is little below one switch, and enough across
    assert [(pair.source, pair.target) for pair in slow_pairs(report)] == [(0, 1)]


# recorded matrices

ISSUES = Path(os.environ.get("BRINGUP_FIELD_DATA", "/nonexistent")) / "gpu/issues_transcribed"
recorded = pytest.mark.skipif(not ISSUES.is_dir(), reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")


def matrix_pairs(enabled, disabled, latency):
    size = len(enabled)
    return [
        Pair(a, b, enabled=enabled[a][b], disabled=disabled[a][b], write_us=latency[a][b] if latency else 1.0)
        for a in range(size) for b in range(size) if a != b
    ]  # fmt: skip


@recorded
def test_two_rtx_4090_without_peer_access_are_recognised_as_staged():
    told = json.loads((ISSUES / "host_staged_2x4090_gen4.json").read_text())
    pairs = matrix_pairs(
        told["unidirectional_p2p_enabled_writes"], told["unidirectional_p2p_disabled"], told["latency_enabled_gpu_us"]
    )
    assert {path_of(pair, RULES) for pair in pairs} == {STAGED}


@recorded
def test_eight_rtx_2080_ti_that_cannot_access_peers_are_recognised_as_staged():
    told = json.loads((ISSUES / "nccl-tests_117_8x2080Ti_no_p2p.json").read_text())
    matrix, latency = told["last_bandwidth_matrix_before_latency"], told["latency_p2p_disabled_gpu_us"]
    pairs = matrix_pairs(matrix, matrix, latency)
    assert {path_of(pair, RULES) for pair in pairs} == {STAGED}
    assert len(pairs) == 56


@recorded
def test_three_rtx_4090_with_peer_access_are_recognised_as_direct():
    told = json.loads((ISSUES / "tinygrad_6_3x4090_gen4_p2p.json").read_text())
    pairs = matrix_pairs(told["bidirectional_p2p_enabled"], told["bidirectional_p2p_disabled"], None)
    assert {path_of(pair, RULES) for pair in pairs} == {DIRECT}


def test_a_copy_that_was_not_made_or_not_compared_in_full_is_missing() -> None:
    whole = tuple(good_pair(0, target, checked=1 << 20) for target in PLACES if target != 0)
    assert missing_from(a_report(pairs=whole, size=1 << 20), PLACES, 0) == ()
    one_less = missing_from(a_report(pairs=whole[1:], size=1 << 20), PLACES, 0)
    assert len(one_less) == 1
    assert "the worker says nothing of it" in one_less[0]
    short = tuple(good_pair(0, target, checked=1) for target in PLACES if target != 0)
    assert all("only 1 of 1048576 bytes" in text for text in missing_from(a_report(pairs=short, size=1 << 20), PLACES, 0))


def test_a_bandwidth_of_nothing_is_a_failure() -> None:
    finding = judge_path(a_report([replace(good_pair(0, 4), enabled=0.0)]), PLACES, 0, RULES)
    assert Outcome.FAIL in outcomes(finding)
    assert "cannot have been measured" in finding.explanation
