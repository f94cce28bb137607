"""What made-up results show, by the rules of the stages; and what looks bad and is not."""

import pytest

from harness.devices.gpu_reports.facts import Device, Reading, Tool
from harness.limits import Outcome
from harness.locator import find_platform
from harness.procedures.gpu_analysis.ceilings import nvlink_ceiling, part_of, pcie_ceiling


def test_a_healthy_machine_has_no_fault_and_no_warning(made):
    files = {
        "sample": made.p2p_sample(4, reads=11.5),
        "topo": made.topo(made.switches(2, 2)),
        "p2p": made.topo_p2p(4, "OK"),
        "smi": made.smi(4),
        "nccl": made.nccl(4),
        "fp16-1": made.tf_log(1, [1000.0] * 10),
        "fp16-4": made.tf_log(4, [3900.0] * 10),
        "dcgm": made.dcgm({"memory": ["PASS"] * 4}),
        "burn": made.burn(["OK"] * 4, [100] * 4),
    }
    analysis = made.analysed(files)
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    assert {reading.source for reading in analysis.readings} == {"sample", "nccl", "fp16-1", "fp16-4", "dcgm", "burn"}


# ceilings


@pytest.mark.parametrize(
    ("generation", "width", "most"), [(1, 16, 4.0), (3, 16, 15.75), (3, 8, 7.88), (4, 16, 31.5), (5, 16, 63.0)]
)
def test_the_ceiling_of_a_pcie_link_follows_from_generation_and_width(generation, width, most):
    assert pcie_ceiling(generation, width) == pytest.approx(most, rel=0.001)


def test_the_ceiling_over_nvlink_counts_the_links_of_the_pair():
    assert (nvlink_ceiling("NV6", "Tesla V100"), nvlink_ceiling("NV12", "A100"), nvlink_ceiling("NV18", "GB200")) == (150, 300, 900)
    assert nvlink_ceiling("PIX", "Tesla V100") is None


@pytest.mark.parametrize(
    ("name", "generation", "nvlink"),
    [
        ("Quadro RTX 8000", 3, 50), ("Quadro RTX 6000", 3, 50), ("NVIDIA RTX 6000 Ada Generation", 4, 0),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 5, 0), ("NVIDIA H100 PCIe", 5, 300),
        ("NVIDIA H100 80GB HBM3", 5, 450),
        ("Tesla V100-SXM3-32GB", 3, 150), ("Tesla V100-PCIE-32GB", 3, 0), ("NVIDIA GeForce RTX 4090", 4, 0),
    ],
)  # fmt: skip
def test_a_gpu_s_name_tells_what_its_links_are(name, generation, nvlink):
    part = part_of(name)
    assert (part.generation, part.nvlink) == (generation, nvlink)


def test_a_cell_above_the_link_s_ceiling_is_invalid_and_not_excellent(made):
    fast = made.p2p_sample(2, "NVIDIA RTX PRO 6000 Blackwell Server Edition", enabled=103.88, disabled=50.0, both=None, late=None)
    analysis = made.analysed({"sample": fast})
    assert made.faults(analysis) == ["ceiling"]
    assert "103.88 GB/s where the link can carry <= 63.0" in made.told(analysis, "ceiling")
    assert "writes that do not land cost no time" in made.told(analysis, "ceiling")


def test_a_pair_with_a_bridge_may_be_faster_than_pcie(made):
    over = made.p2p_sample(2, enabled=46.0, both=90.0)
    assert made.faults(made.analysed({"sample": over})) == [], "this card can have a bridge, and nothing tells that it has none"
    bridged = {"sample": over, "topo": made.topo([["X", "NV2"], ["NV2", "X"]])}
    assert made.faults(made.analysed(bridged)) == []
    plain = {"sample": over, "topo": made.topo([["X", "PIX"], ["PIX", "X"]])}
    assert made.faults(made.analysed(plain)) == ["ceiling"]


def test_a_platform_s_ceiling_stands_above_what_a_name_tells(made):
    over = {"sample": made.p2p_sample(2, enabled=46.0, both=90.0)}
    analysis = made.analysed(over, "lqd8360")
    assert made.faults(analysis) == []
    assert "right only where an NVLink bridge joins these two" in made.told(analysis, "ceiling")
    assert made.faults(made.analysed({"sample": made.p2p_sample(2, enabled=60.0, both=None)}, "lqd8360")) == ["ceiling"]


def test_the_link_that_nvidia_smi_tells_stands_above_what_a_name_tells(made):
    files = {"sample": made.p2p_sample(2, "an unknown card", enabled=12.5, both=None), "smi": made.smi(2, name="", width=8)}
    assert made.faults(made.analysed(files)) == ["ceiling"]


def test_without_any_word_on_the_links_nothing_is_judged_against_a_ceiling(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, "an unknown card", enabled=9000.0, both=None)})
    assert made.faults(analysis) == []
    assert "what the links can carry: no file names the GPUs or their links" in made.gaps(analysis)


# the path


def test_copies_as_fast_as_through_the_host_and_late_are_staged(made):
    analysis = made.analysed({"sample": made.p2p_sample(4, enabled=11.0, disabled=11.0, late=13.0)})
    assert made.faults(analysis) == ["path"]
    assert "12 of 12 ordered pairs staged through the host" in made.told(analysis, "path")
    assert "11 GB/s with, 11 GB/s without peer access, write latency 13 us" in made.told(analysis, "path")


def test_one_gpu_s_staged_copies_are_told_as_one_thing(made):
    analysis = made.analysed(
        {
            "sample": made.p2p_sample(
                4, enabled=lambda row, _: 10.0 if row == 2 else 12.5, late=lambda row, _: 13.0 if row == 2 else 2.0
            )
        }
    )
    assert made.faults(analysis) == ["path"]
    assert "all from GPU 2 (0000:1c:00.0): its sending side (3 of 3 targets)" in made.told(analysis, "path")


def test_late_reads_over_nvswitch_are_no_staging(made):
    files = {
        "sample": made.p2p_sample(
            16, "Tesla V100-SXM3-32GB", enabled=145.57, disabled=10.0, both=270.0, both_disabled=20.0, late=2.5
        )
    }
    assert made.faults(made.analysed(files, "dgx2")) == []
    assert made.warnings(made.analysed(files, "dgx2")) == []
    assert made.faults(made.analysed(files, "lqd8360")) == ["ceiling"], "the same figures on PCIe did not happen"


def test_as_fast_without_a_latency_is_a_question_and_no_verdict(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, enabled=11.0, disabled=11.0, late=None, both=None)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["path"])
    assert "the latency of writes: not in the file" in made.gaps(analysis)


def test_slower_than_through_the_host_is_told_with_both_figures(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, "NVIDIA A40", enabled=9.9, disabled=22.0, both=18.0)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["slower"])
    assert "9.9 GB/s with, 22 GB/s without peer access" in made.told(analysis, "slower")


def test_slower_than_through_the_host_across_host_bridges_is_only_noted(made):
    """Gen3 through the root complex gives 9 to 11 GB/s, and staged copies between sockets were seen at 11.4."""
    across = made.p2p_sample(4, enabled=lambda row, column: 12.5 if row // 2 == column // 2 else 10.2, disabled=11.2, both=None)
    analysis = made.analysed({"sample": across, "topo": made.topo(made.switches(2, 2))})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    assert "these pairs lie across host bridges" in made.told(analysis, "slower")


def test_a_tool_that_has_tables_of_both_ways_only_is_judged_by_their_halves(made):
    only = {"disabled": None, "enabled": None, "late": None, "late_disabled": None}
    analysis = made.analysed({"sample": made.p2p_sample(2, "NVIDIA GeForce RTX 4090", both=41.4, both_disabled=25.8, **only)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])


def test_a_pair_that_the_driver_rules_out_fails_with_the_driver_s_reason(made):
    analysis = made.analysed({"topo": made.topo_p2p(2, "GNS")})
    assert made.faults(analysis) == ["can-access"]
    assert "gpu not supported (this kind of GPU has none)" in made.told(analysis, "can-access")
    assert made.told(analysis, "can-access").endswith("topo")


def test_figures_of_pairs_without_peer_access_are_told_to_be_the_host_s(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, can=False, enabled=9.9, late=13.0)})
    assert made.faults(analysis) == ["can-access", "path"]
    assert "the figures that stand for them went through the host" in made.told(analysis, "can-access")


# patterns


def test_both_ways_no_faster_than_one_points_to_access_control(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, enabled=12.5, both=13.0)})
    assert made.warnings(analysis) == ["both-ways"]
    assert "ACS" in made.told(analysis, "both-ways")


def test_a_low_row_and_column_are_that_gpu_s_link(made):
    low = made.p2p_sample(4, enabled=lambda row, column: 3.0 if 2 in (row, column) else 12.5, disabled=None, both=None)
    analysis = made.analysed({"sample": low, "topo": made.topo(made.switches(4))})
    assert made.warnings(analysis) == ["low"]
    assert made.told(analysis, "low").startswith("GPU 2 (0000:1c:00.0) | 6 ordered pairs at 3 GB/s where all have")
    assert "its link" in made.told(analysis, "low")


def test_pairs_across_sockets_are_compared_with_their_like_only(made):
    tiers = made.p2p_sample(4, enabled=lambda row, column: 12.5 if row // 2 == column // 2 else 8.0, disabled=None, both=None)
    assert made.warnings(made.analysed({"sample": tiers, "topo": made.topo(made.switches(2, 2))})) == []
    assert made.warnings(made.analysed({"sample": tiers})) == [], "without a topology no such pattern is called a fault"


def test_a_slow_pair_across_names_both_sides(made):
    slow = made.p2p_sample(
        4,
        enabled=lambda row, column: 2.0 if {row, column} == {0, 3} else 12.5 if row // 2 == column // 2 else 10.0,
        disabled=None,
        both=None,
    )
    analysis = made.analysed({"sample": slow, "topo": made.topo(made.switches(2, 2))})
    assert made.warnings(analysis) == ["low"]
    assert "all across the uplinks of the switch of GPU 0 and the switch of GPU 2" in made.told(analysis, "low")


def test_one_way_slower_than_the_other_is_told(made):
    uneven = made.p2p_sample(2, enabled=lambda row, column: 10.5 if row == 0 else 12.5, both=None)
    analysis = made.analysed({"sample": uneven})
    assert made.warnings(analysis) == ["asymmetric"]
    assert "10.5 against 12.5 GB/s" in made.told(analysis, "asymmetric")


def test_many_at_once_that_lose_most_of_the_rate_collapse(made):
    cases = {
        "device_to_device_memcpy_write_ce": made.square(4, 52.0),
        "device_to_device_memcpy_read_ce": made.square(4, 50.0),
        "all_to_one_write_ce": [[53.0, 7.0, 53.0, 53.0]],
        "all_to_one_read_ce": [[50.0, 49.0, 50.0, 50.0]],
    }
    analysis = made.analysed({"bandwidth": made.nvbandwidth(cases)})
    assert made.faults(analysis) == ["contention"]
    assert "GPU 1 | writes collapse when all GPUs use it at once: 7 GB/s in all, 52 for one pair alone" in made.told(
        analysis, "contention"
    )


def test_indexes_of_cuda_are_translated_by_addresses(made):
    """CUDA's first GPU is the fastest, nvidia-smi's the one with the lowest address."""
    classes = [["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]]
    sample = made.p2p_sample(3, buses=[0x1C, 0x1A, 0x1B])
    analysis = made.analysed({"sample": sample, "topo": made.topo(classes)})
    rows = next(summary for summary in analysis.summaries if summary.source == "sample").rows
    machine_pairs = {row[1]: row[2] for row in rows if "latency" in row[0]}
    assert machine_pairs == {"PIX": "2", "SYS": "4"}
    low = made.p2p_sample(
        3, buses=[0x1C, 0x1A, 0x1B], enabled=lambda row, column: 2.0 if 0 in (row, column) else 12.5, disabled=None, both=None
    )
    told = made.analysed({"sample": low, "topo": made.topo(classes)})
    assert made.warnings(told) == [], "the far GPU is nvidia-smi's third, and all far pairs are alike"


def test_copies_to_the_host_above_the_card_s_own_link_are_invalid(made):
    fast = made.nvbandwidth({"host_to_device_memcpy_ce": [[12.3, 24.6]]})
    files = {"bandwidth": fast, "smi": made.smi(2)}
    analysis = made.analysed(files)
    assert made.faults(analysis) == ["ceiling"]
    assert made.told(analysis, "ceiling").startswith(
        "GPU 1 (0000:1b:00.0) | 24.6 GB/s from the host, where its link can carry <= 15.7"
    )
    assert made.faults(made.analysed({"bandwidth": fast})) == [], "nothing tells what the link is"


# collectives


def test_wrong_values_of_a_collective_fail(made):
    analysis = made.analysed({"nccl": made.nccl(8, wrong=2)})
    assert made.faults(analysis) == ["wrong-values"]
    assert "do not use" in made.told(analysis, "wrong-values")


def test_a_bandwidth_that_the_tool_refuses_fails(made):
    assert made.faults(made.analysed({"nccl": made.nccl(8, refused="FAILED")})) == ["refused"]


def test_values_that_were_not_compared_are_not_called_right(made):
    analysis = made.analysed({"nccl": made.nccl(8, validation=0)})
    assert made.faults(analysis) == []
    assert "whether its values were right: they were not compared" in made.gaps(analysis)


def test_an_error_line_fails_and_is_quoted(made):
    analysis = made.analysed(
        {"nccl": made.nccl(8, ended=False, after=["node1: Test NCCL failure common.cu:958 'unhandled cuda error'"])}
    )
    assert made.faults(analysis) == ["failed"]
    assert "common.cu:958" in made.told(analysis, "failed")


# training


@pytest.mark.parametrize(("spread", "failed"), [(1.7, []), (4.2, ["resnet50.spread"])])
def test_windows_of_public_logs_fall_on_either_side_of_three_percent(made, spread, failed):
    rates = [4000.0, *(4000.0 * (1 + sign * spread / 200) for sign in (1, -1, 1, -1, 1, -1))]
    assert made.faults(made.analysed({"fp16": made.tf_log(4, rates)})) == failed


def test_scaling_needs_the_log_of_one_gpu_with_the_same_software(made):
    eight = made.tf_log(8, [3100.0] * 8, xla=False)
    analysis = made.analysed({"fp16-8": eight, "fp16-1-xla": made.tf_log(1, [1000.0] * 8)})
    assert made.faults(analysis) == []
    assert "scaling: no log of one GPU with the same software" in made.gaps(analysis)
    analysis = made.analysed({"fp16-8": eight, "fp16-1": made.tf_log(1, [728.0] * 8, xla=False)})
    assert made.faults(analysis) == ["resnet50.efficiency"]
    assert "53% of perfect scaling" in made.told(analysis, "resnet50.efficiency")
    assert "the software path, not a part" in made.told(analysis, "resnet50.efficiency")


def test_a_floor_is_for_its_own_software_only(made):
    good, bad = made.tf_log(8, [7933.0] * 8), made.tf_log(8, [5000.0] * 8)
    assert made.faults(made.analysed({"fp16": good}, "lqd8360")) == []
    assert made.faults(made.analysed({"fp16": bad}, "lqd8360")) == ["resnet50.floor"]
    unknown = made.analysed({"fp32": bad}, "lqd8360")
    assert made.faults(unknown) == []
    assert "baseline recorded, not judged: 5000 images/s with tensorflow fp32 xla batch 512" in made.gaps(unknown)
    untold = made.analysed({"log": bad}, "lqd8360")
    assert made.faults(untold) == []
    assert "the precision: the log does not say it" in made.gaps(untold)


def test_a_log_without_its_end_is_told(made):
    analysis = made.analysed({"fp16": made.tf_log(12, [4000.0] * 4, total=False)})
    assert made.warnings(analysis) == ["cut-off"]
    assert "after step 40" in made.told(analysis, "cut-off")
    assert "more than nine GPUs" in made.told(analysis, "cut-off")


def test_the_dgx_2_is_sixteen_gpus_without_the_limit_of_eight_peers():
    platform, _ = find_platform("dgx2")
    assert (len(platform.slots), platform.p2p.peers) == (16, 15)
    assert platform.p2p.ceiling.judge(145.57) is Outcome.PASS
    assert platform.p2p.ceiling.judge(151.0) is Outcome.FAIL


def test_the_dgx_2_has_floors_of_its_own(made):
    assert made.faults(made.analysed({"fp32": made.tf_log(16, [6500.0] * 8, batch=128)}, "dgx2")) == []
    assert made.faults(made.analysed({"fp32": made.tf_log(16, [4000.0] * 8, batch=128)}, "dgx2")) == ["resnet50.floor"]


# other tools' verdicts


def test_a_skipped_diagnostic_is_no_pass_and_no_fault(made):
    analysis = made.analysed({"dcgm": made.dcgm({"memory": ["PASS", "SKIP(no ECC)"], "targeted_power": ["Not Run", "Skip"]})})
    assert made.faults(analysis) == []
    assert "Hardware memory on GPU 1: it was skipped: no ECC (error 7); a skip is no pass" in made.gaps(analysis)
    assert "Hardware targeted_power on GPU 0, GPU 1: it was skipped: no reason given" in made.gaps(analysis)


def test_a_failed_diagnostic_names_its_gpus_and_words(made):
    analysis = made.analysed({"dcgm": made.dcgm({"pcie": ["PASS", "FAIL(too many replays)", "FAIL(also)"]})})
    assert made.faults(analysis) == ["diagnostic"]
    assert made.told(analysis, "diagnostic").startswith("GPU 1, GPU 2 | Hardware pcie: fail on 2 of 3 | too many replays (error 7)")


def test_a_warning_of_a_diagnostic_is_a_warning(made):
    analysis = made.analysed({"dcgm": made.dcgm({"pcie": ["PASS", "WARN(a replay)"]})})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["diagnostic"])


def test_a_gpu_without_a_verdict_of_gpu_burn_is_told(made):
    analysis = made.analysed({"burn": made.burn(["OK"], [100, 100])})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["burn"])
    assert made.told(analysis, "burn").startswith("GPU 1 | gpu-burn came to no verdict on it")


@pytest.mark.parametrize(("kind", "faults", "warnings"), [("uncorrected", ["ecc"], []), ("corrected", [], ["ecc"])])
def test_memory_errors_among_samples_are_told_by_gpu(made, kind, faults, warnings):
    samples = "".join(f'{{"time": "t{count}", "gpu_temperature:0": 40, "gpu_{kind}_ecc:0": {count}}}\n' for count in (0, 2, 5))
    analysis = made.analysed({"monitor": samples})
    assert (made.faults(analysis), made.warnings(analysis)) == (faults, warnings)
    assert made.told(analysis, "ecc").startswith("GPU 0 | 5 ")


def test_a_fabric_that_is_not_set_up_asks_for_the_fabric_manager(made):
    analysis = made.analysed({"log": "cuInit: CUDA error 802: system not yet initialized\n"})
    assert made.faults(analysis) == ["fabric-manager"]
    assert "nvidia-fabricmanager" in made.told(analysis, "fabric-manager")


def test_superbench_s_return_codes_are_believed(made):
    assert made.faults(made.analysed({"results": made.superbench(mem__return_code=0)})) == []
    assert made.faults(made.analysed({"results": made.superbench(mem__return_code=1)})) == ["superbench"]


def test_one_rank_far_from_others_that_agree_is_named(made):
    metrics = {f"launch__overhead:{rank}": 0.1 if rank == 3 else 0.006 for rank in range(8)}
    analysis = made.analysed({"results": made.superbench(launch__return_code=0, **metrics)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["odd-rank"])
    assert made.told(analysis, "odd-rank").startswith("node-1 rank 3 | launch/overhead is 0.1, and 0.006 in the middle of 8 ranks")
    uneven = {f"launch__overhead:{rank}": 1.0 + rank for rank in range(8)}
    assert made.warnings(made.analysed({"results": made.superbench(**uneven)})) == []


# several files


def test_findings_of_nvidia_smi_and_the_kernel_log_come_along_with_their_sources(made):
    extra = "<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>"
    log = "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, pid=1, GPU has fallen off the bus.\n"
    analysis = made.analysed({"smi": made.smi(1, extra=extra), "dmesg": log, "sample": made.p2p_sample(2)})
    assert {diagnosis.source for diagnosis in analysis.diagnoses if diagnosis.severity.value == "FAIL"} == {"smi", "dmesg"}


def test_a_platform_counts_and_weighs_what_nvidia_smi_lists(made):
    assert made.faults(made.analysed({"smi": made.smi(20)}, "lqd8360")) == []
    assert made.faults(made.analysed({"smi": made.smi(18)}, "lqd8360")) == ["count"]
    assert made.faults(made.analysed({"smi": made.smi(20, device="1EB810DE")}, "lqd8360")) == ["identity"] * 20
    assert made.faults(made.analysed({"smi": made.smi(20, memory="45556 MiB")}, "lqd8360")) == [], "with ECC on"
    assert made.faults(made.analysed({"smi": made.smi(20, memory="24000 MiB")}, "lqd8360")) == ["memory"] * 20


def test_a_reading_of_nothing_is_judged_as_nothing(made):
    from harness.procedures.gpu_analysis.analysis import analyse_reports

    analysis = analyse_reports([Reading(Tool.P2P_SAMPLE, "x", devices=(Device(0),))], [])
    assert made.faults(analysis) == []
    assert "bandwidth between GPUs: no table of it is there" in made.gaps(analysis)


def test_of_reads_and_writes_the_status_that_is_not_ok_counts(made):
    for first, second in (("OK", "CNS"), ("CNS", "OK")):
        analysis = made.analysed({"r": made.topo_p2p(2, first), "w": made.topo_p2p(2, second)})
        assert made.faults(analysis) == ["can-access"]
