"""Bug reports of the field about many GPUs in one machine: each is recognised, with its cause and the next step.

A test is called after its report. What somebody would mail is made up in the shape that the report quotes; what only a machine can
show runs the worker with the real bindings on a fake driver library.
"""

import pytest

from harness.devices.p2p import Contention, Damage, LinkKind, Pair, PeerGpu, Report
from harness.devices.resnet50 import Identity, RankGpu, Solo
from harness.devices.resnet50 import Report as Training
from harness.limits import Outcome, at_least
from harness.platform import P2p
from harness.procedures.p2p import judge_contention
from harness.procedures.places import Place
from harness.procedures.resnet50 import judge_straggler

LIMIT = "the limit of eight, system-wide, not broken hardware"


def told_of_limit(made, line):
    """What a program's output with a line about too many peers gives: no fault of the machine."""
    analysis = made.analysed({"log": f"starting up\n{line}\n"})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], ["peer-limit"])
    return made.told(analysis, "peer-limit")


def acs(bridge, controls):
    """``lspci -nnvvv`` of a switch with two GPUs, one port with these controls of its access control services."""
    off = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"

    def port(bdf, secondary, subordinate, kind, acs_control=""):
        lines = [
            f"{bdf} PCI bridge [0604]: A maker of switches [{bridge}] (rev 01) (prog-if 00 [Normal decode])",
            f"\tBus: primary={bdf[:2]}, secondary={secondary:02x}, subordinate={subordinate:02x}, sec-latency=0",
            f"\tCapabilities: [68] Express (v2) {kind}, MSI 00",
            "\t\tLnkCap:\tPort #1, Speed 8GT/s, Width x16, ASPM L1",
            "\t\tLnkSta:\tSpeed 8GT/s, Width x16",
        ]
        if acs_control:
            lines += [
                "\tCapabilities: [f24 v1] Access Control Services",
                "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+",
                f"\t\tACSCtl:\t{acs_control}",
            ]
        return "\n".join([*lines, "\tKernel driver in use: pcieport", "", ""])

    gpus = "".join(
        f"{bus}:00.0 3D controller [0302]: NVIDIA Corporation TU102GL [10de:1e78] (rev a1)\n"
        "\tSubsystem: NVIDIA Corporation [10de:13d8]\n"
        "\tCapabilities: [78] Express (v2) Endpoint, MSI 00\n\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM L1\n"
        "\t\tLnkSta:\tSpeed 8GT/s, Width x16\n\tKernel driver in use: nvidia\n\n"
        for bus in ("3d", "3e")
    )
    ports = (
        port("3a:00.0", 0x3B, 0x3E, "Root Port") + port("3b:00.0", 0x3C, 0x3E, "Upstream Port")
        + port("3c:00.0", 0x3D, 0x3D, "Downstream Port", controls) + port("3c:01.0", 0x3E, 0x3E, "Downstream Port", off)
    )  # fmt: skip
    return ports + gpus


def test_report_1_nccl_tests_324_ten_gpus_in_one_process_crash_with_711_though_peer_copies_are_off(made):
    line = "node1:1:1 [0] allocator.cc:79 NCCL WARN Cuda failure 711 'peer mapping resources exhausted'"
    text = told_of_limit(made, line)
    assert LIMIT in text
    assert "use one process a GPU" in text
    crashed = made.analysed({"nccl": made.nccl(10, one_process=True, rows=(), ended=False, after=[line, "Test NCCL failure 711"])})
    assert (made.faults(crashed), made.warnings(crashed)) == ([], ["peer-limit"])


@pytest.mark.slow
def test_report_2_nccl_356_more_than_ten_rtx_8000_get_too_many_peers_when_contexts_are_made(made, tested):
    assert LIMIT in told_of_limit(made, "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_TOO_MANY_PEERS: resources exhausted")
    found = tested("1x11")
    assert found.failed() == {}
    assert len(found.report.tried) == 110, "pair by pair they all work"


def test_report_3_nccl_241_an_x_server_holds_peers(made, tested):
    line = "Unable to enable peer access between device ordinals 0 and 9: CUDA_ERROR_TOO_MANY_PEERS"
    assert "another process (an X server) holds peers" in told_of_limit(made, line)
    xorg = "<processes><process_info><pid>2117</pid><type>G</type><process_name>Xorg</process_name></process_info></processes>"
    both = made.analysed({"log": line, "smi": made.smi(1, extra=xorg)})
    assert "may hold peers: Xorg (pid 2117, graphics) on GPU 0 (smi)" in made.told(both, "peer-limit")
    found = tested("1x9", "held:3>5")
    assert found.failed() == {}
    assert "gpu3: 3 of 8 peers can be enabled (error 711); held by Xorg (pid 2117)" in found.bench


def test_report_4_llama_cpp_21883_a_loop_that_enables_all_pairs_aborts_before_it_works(made):
    text = told_of_limit(made, "ggml_cuda_init: CUDA error 711: peer mapping resources exhausted")
    assert "a program enables all pairs in one process" in text


@pytest.mark.parametrize(("ranks", "is_hinted"), [(10, True), (8, False)])
def test_report_5_cntk_1462_a_hang_with_more_than_nine_gpus_in_one_process_hints_at_the_limit(made, ranks, is_hinted):
    analysis = made.analysed({"nccl": made.nccl(ranks, one_process=True, rows=(), ended=False)})
    assert made.warnings(analysis) == ["hang"]
    assert ("with more than nine GPUs in one process" in made.told(analysis, "hang")) is is_hinted


def test_report_6_pytorch_84803_wrong_tensors_are_caught_and_the_state_of_the_iommu_is_told_before(translating, corrupt):
    refused = translating("1x2", "DMA", "zeros:0>1").p2p()[-1]
    assert "the IOMMU translates for 2 of 2 GPUs (DMA)" in refused["why"]
    assert "zeros arrived" in corrupt.failed()["integrity", 1]


def test_report_7_open_gpu_kernel_modules_1257_success_codes_and_a_clean_log_hide_nothing(corrupt):
    assert {(pair.can, pair.error) for pair in corrupt.report.pairs} == {(True, "")}
    assert corrupt.report.xids == ()
    assert "the writes were dropped: the target still holds what it held" in corrupt.failed()["integrity", 0]


def test_report_8_fideslib_28_enabling_breaks_and_disabling_heals(corrupt):
    assert corrupt.pair(0, 4).wrong.disabled_bad == 0
    assert "without peer access: clean, so it is the path (IOMMU, ACS, switch), not a memory" in corrupt.failed()["integrity", 0]


@pytest.mark.parametrize("stamp", ["[  812.100000] ", ""])
def test_report_9_unsloth_10613_a_dmar_fault_means_dropped_peer_writes(made, stamp):
    line = f"{stamp}DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0x3820 [fault reason 0x71]"
    analysis = made.analysed({"dmesg": line + "\n"})
    assert made.faults(analysis) == ["iommu"]
    text = made.told(analysis, "iommu")
    assert "peer writes are dropped" in text
    assert "iommu=pt" in text
    assert "NO_PASID" in text


def test_report_10_cuda_samples_48_the_iommu_is_looked_at_before_any_copy(translating, made):
    lines = translating("1x2", "DMA").p2p()
    assert not [line for line in lines if line["kind"] in ("pair", "baseline", "schedule")]
    fault = "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0020 address=0x9af]"
    assert "touch no peer copies before" in made.told(made.analysed({"log": fault}), "iommu")


def test_report_11_cuda_samples_390_a_bandwidth_above_the_link_is_invalid(made, tested):
    fast = made.p2p_sample(2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", enabled=103.88, disabled=55.0, both=None)
    text = made.told(
        made.analysed({"sample": fast, "log": "Verification error @ element 1: val = 0.000000, ref = 4.000000"}), "ceiling"
    )
    assert "103.88 GB/s where the link can carry <= 63.0" in text
    assert "compare bytes before anything else" in text
    assert "it did not happen as timed" in tested("1x2", "impossible:0>1").failed()["path", 0]


def test_report_12_nvbandwidth_34_a_pattern_that_does_not_match_gets_its_pair_offset_and_bits(made, corrupt):
    line = "ASSERT in expression: Invalid value when checking the pattern at 0x7f1c3a002b80, offset 11136/67108864"
    text = made.told(made.analysed({"log": line}), "wrong-bytes")
    assert "it does not say between which GPUs" in text
    assert "offset 11136" in text
    wrong = corrupt.pair(3, 1).wrong
    assert (wrong.damage, wrong.first) == (Damage.SINGLE_BIT, wrong.last)


def test_report_13_nccl_257_a_sample_that_passes_clears_no_path(made):
    analysis = made.analysed({"sample": made.p2p_sample(4), "nccl": made.nccl(4, rows=(), ended=False)})
    assert made.warnings(analysis) == ["hang"]
    assert "whether every byte arrives unchanged, by pair and offset: no tool here" in made.gaps(analysis)


def test_report_14_nccl_667_pairs_below_one_switch_hang_and_those_across_do_not(made):
    classes = [["X", "PXB", "SYS", "SYS"], ["PXB", "X", "SYS", "SYS"], ["SYS", "SYS", "X", "PIX"], ["SYS", "SYS", "PIX", "X"]]
    pairs = [(one, other) for one in range(4) for other in range(one + 1, 4)]
    hung = {"ended": False, "rows": ()}
    files = {f"pair{pair}": made.nccl(2, devices=pair, **(hung if pair in ((0, 1), (2, 3)) else {})) for pair in pairs}
    analysis = made.analysed(files | {"topo": made.topo(classes)})
    assert made.faults(analysis) == ["hang"]
    text = made.told(analysis, "hang")
    assert "GPU 0 and GPU 1 (PXB), GPU 2 and GPU 3 (PIX)" in text
    assert "power the machine off and on (cold)" in text
    files["pair(0, 2)"] = made.nccl(2, devices=(0, 2), **hung)
    assert made.faults(made.analysed(files | {"topo": made.topo(classes)})) == [], "one across that hangs too is another story"


def test_report_15_nccl_2079_access_control_on_a_bridge_is_named_by_bridge_and_bits(made):
    """ACSCtl 0x001d is SrcValid, ReqRedir, CmpltRedir and UpstreamFwd."""
    analysis = made.analysed(
        {"lspci": acs("1022:1483", "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-")}
    )
    text = made.told(analysis, "acs")
    assert "3c:00.0" in text
    assert "ACSCtl 0x001d" in text


def test_report_16_nccl_199_a_hang_that_is_only_slow_is_told_apart(made):
    analysis = made.analysed({"nccl": made.nccl(4, rows=((1 << 10, 0.01), (1 << 22, 0.02)), ended=False)})
    assert made.faults(analysis) == ["crawl"]
    assert "at 0.02 GB/s: extremely slow, not hung" in made.told(analysis, "crawl")
    assert "ACS" in made.told(analysis, "crawl")


@pytest.mark.slow
def test_report_17_nccl_606_a_pair_that_hangs_costs_its_own_time_limit_only(tested):
    found = tested("1x4", "wedged:0>1")
    assert set(found.failed()) == {("watchdog", 0), ("watchdog", 1)}
    assert "gpu0 -> gpu1: the copy did not end in 2 s and was killed" in found.failed()["watchdog", 0]
    assert found.pair(2, 3).best_enabled
    assert found.pair(3, 2).worst_bad == 0


def test_report_18_nccl_814_peer_copies_slower_than_through_the_host_are_told_with_both(made):
    analysis = made.analysed({"sample": made.p2p_sample(2, "NVIDIA GeForce RTX 4090", enabled=9.9, disabled=22.0, both=18.5)})
    assert made.warnings(analysis) == ["slower"]
    assert "9.9 GB/s with, 22 GB/s without peer access" in made.told(analysis, "slower")
    assert "root complex" in made.told(analysis, "slower")


@pytest.mark.slow
def test_report_19_nccl_tests_74_good_pairs_and_slow_collectives_need_the_stage_of_many_at_once(tested, made):
    classes = [["X" if a == b else "NV4" if a // 2 == b // 2 else "NODE" for b in range(4)] for a in range(4)]
    sample = made.p2p_sample(
        4,
        "NVIDIA A40",
        enabled=lambda a, b: 50.5 if a // 2 == b // 2 else 25.0,
        both=lambda a, b: 101.0 if a // 2 == b // 2 else 50.0,
    )
    fine = made.analysed({"sample": sample, "topo": made.topo(classes)})
    assert (made.faults(fine), made.warnings(fine)) == ([], [])
    assert list(tested("2x4", "collapse:1").failed()) == [("contention", "switch1")]


def test_report_20_aikitoria_6_the_bridge_s_own_bits_count_and_not_the_bios(made):
    """The BIOS said that ACS was off; the bridge of the PLX switch, which it does not manage, had it on."""
    on = made.analysed(
        {"lspci": acs("10b5:8747", "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-")}
    )
    off = made.analysed(
        {"lspci": acs("10b5:8747", "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-")}
    )
    assert made.told(on, "acs")
    assert made.told(off, "acs") == ""


def test_report_21_rtx6kpro_writes_that_collapse_while_reads_stay_point_to_posted_writes():
    gpus = tuple(PeerGpu(index, f"0000:4{index}:00.0", "", group="AB"[index // 2]) for index in range(4))
    places = {index: Place(f"gpu{index}", f"switch{'AB'[index // 2]}") for index in range(4)}
    pairs = tuple(Pair(a, b, link=LinkKind.PCIE, enabled=52.0) for a in range(4) for b in range(4) if a != b)
    crowd = Contention("A", (0, 1), (2, 3), write_alone=52.0, write_together=7.0, read_alone=50.0, read_together=49.0)
    finding = judge_contention(Report(gpus, pairs, contention=(crowd,)), places, "switchA", P2p().contention_ratio)
    assert {taken.name: taken.outcome for taken in finding.measurements} == {
        "p2p.contention.write": Outcome.FAIL, "p2p.contention.read": Outcome.PASS,
    }  # fmt: skip
    assert "posted writes of several GPUs block each other in a switch or root port" in finding.explanation


def test_report_22_nccl_893_the_one_gpu_that_makes_all_others_wait_is_named():
    places = {index: Place(f"slot{index}") for index in range(8)}
    solos = tuple(Solo(index, 700.0 if index == 5 else 1000.0) for index in places)
    report = Training(Identity(), tuple(RankGpu(index, index, "", "") for index in places), solos)
    late = [index for index in places if judge_straggler(report, places, index, at_least(0.95)).explanation]
    assert late == [5]


def test_report_23_tensorflow_105552_no_number_between_certain_gpus_is_a_question_of_the_pair(made, corrupt):
    broken = made.tf_log(2, [900.0] * 6, losses=[7.5, 7.5, "nan", "nan", "nan", "nan"])
    text = made.told(made.analysed({"fp16-2": broken, "fp16-1": made.tf_log(1, [470.0] * 6)}), "resnet50.nan")
    assert "compare bytes of every pair (the p2p stage)" in text
    verify = made.analysed({"log": "Verification error @ element 0: val = nan, ref = 0.000000"})
    assert made.faults(verify) == ["wrong-bytes"]
    assert corrupt.failed()["integrity", 2].startswith("DATA CORRUPTION gpu2 -> gpu3: do not use")


def test_report_24_pytorch_85334_power_and_a_swap_are_named_for_a_gpu_that_drops_out(made):
    nan = made.analysed({"fp16": made.tf_log(2, [900.0] * 6, losses=[7.5, "nan", "nan", "nan", "nan", "nan"])})
    assert "power cables; swap two cards and see what follows" in made.told(nan, "resnet50.nan")
    log = "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, pid=1, GPU has fallen off the bus.\n"
    reason = "clocks_throttle_reason_hw_power_brake_slowdown"
    brake = f"<clocks_throttle_reasons><{reason}>Active</{reason}></clocks_throttle_reasons>"
    analysis = made.analysed({"dmesg": log, "smi": made.smi(1, extra=brake)})
    assert made.faults(analysis)
    assert "power brake" in made.told(analysis, "throttle")
    assert "power" in " ".join(each.do + each.cause for each in analysis.diagnoses).lower()


def test_report_25_pytorch_180500_a_rate_is_compared_within_one_software_only(made):
    slow = made.tf_log(8, [5600.0] * 8, version="2.10")
    analysis = made.analysed({"fp32": slow}, "lqd8360")
    assert made.faults(analysis) == []
    assert "tensorflow fp32 xla batch 512, synthetic data, driver unknown (tensorflow 2.10); floors are known for" in made.gaps(
        analysis
    )
    assert made.faults(made.analysed({"fp16": slow}, "lqd8360")) == ["resnet50.floor"]
    other = made.analysed({"fp16-8": slow, "fp16-1": made.tf_log(1, [1000.0] * 8)})
    assert "scaling: no log of one GPU with the same software" in made.gaps(other), "another version's rate is no yardstick"


def test_report_26_gpu_burn_12_and_14_a_verdict_needs_proof_of_work_and_faulty_is_a_fault(made):
    analysis = made.analysed({"burn": made.burn(["OK", "FAULTY", "OK", "OK"], [100, 100, 0, 90], ["0", "9", "0", "-81 (DIED!)"])})
    assert made.faults(analysis) == ["burn"] * 3
    text = made.told(analysis, "burn")
    assert "GPU 1 | gpu-burn found wrong results; its exit status says nothing of it" in text
    assert "GPU 2 | gpu-burn calls it OK and had computed nothing on it" in text
    assert "GPU 3 | the process that burned it died" in text
    assert "GPU 0" not in text


def test_report_27_dcgm_55_a_skip_is_never_a_pass(made):
    analysis = made.analysed({"dcgm": made.dcgm({"targeted_power": ["SKIP(not supported)"] * 2, "memory": ["PASS", "PASS"]})})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    assert "Hardware targeted_power on GPU 0, GPU 1: it was skipped: not supported (error 7); a skip is no pass" in made.gaps(
        analysis
    )
    (summary,) = analysis.summaries
    assert ("Hardware", "targeted_power", "2 skip") in summary.rows
