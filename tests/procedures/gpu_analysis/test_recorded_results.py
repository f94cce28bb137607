"""Results that other people recorded: each shows what its own repository, or the thread it is from, says that it shows."""

import json
import os
from pathlib import Path

import pytest

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.errors import UsageMistake
from harness.locator import find_platform
from harness.procedures.analysis.diagnosis import Severity

FIELD_DATA = os.environ.get("BRINGUP_FIELD_DATA", "")
ROOT = Path(FIELD_DATA) / "gpu"
LOGS = ROOT / "lambdal__lambda-tensorflow-benchmark" / "logs"
ISSUES = ROOT / "issues_transcribed"
pytestmark = pytest.mark.skipif(not FIELD_DATA, reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")

BROKEN = {
    "diag_PER_GPU_JSON.json": {"diagnostic"},
    "nccl_output_fail_bw.txt": {"refused"},
    "nccl_output_fail_oob.txt": {"wrong-values"},
    "nvidia-smi_topo_2.txt": {"can-access"},
    "dmesg-with-xid-119.log": {"xid-119"},
    "diagnosis_summary.json": {"superbench"},
    "diagnosis_summary.jsonl": {"superbench"},
    "diagnosis_summary.md": {"superbench"},
    "test_results.jsonl": {"superbench"},
}
NO_RESULTS = {"LICENSE", "PROVENANCE.md", "dcgm_diag_schema.json"}
SICK = [
    "Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs/syn-replicated-fp16-2gpus",
    "Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs/syn-replicated-fp16-4gpus",
    "Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs/syn-replicated-fp16-8gpus",
    "Platinum-Tesla_V100-SXM3-32GB_HP16_TF2_2.logs/syn-replicated-fp16-8gpus",
    "7742-4xA100-SXM4-40GB_TF2_3.logs/syn-replicated-fp16-4gpus",
    "7742-8xA100-SXM4-40GB_TF2_3.logs/syn-replicated-fp16-8gpus",
]
"""The six logs whose windows swing by 4.2 % and more: all of them several GPUs with fp16 and without XLA."""


def recorded(*names):
    """The files of these names, by name."""
    return {str(file.relative_to(ROOT)): file.read_bytes() for name in names for file in ROOT.rglob(name) if file.is_file()}


def log(folder, precision, gpus):
    (file,) = (LOGS / folder / f"syn-replicated-{precision}-{gpus}gpus").rglob("throughput/1")
    return {str(file.relative_to(ROOT)): file.read_bytes()}


def transcribed(name):
    return json.loads((ISSUES / name).read_text())


def by(rows):
    """A figure for a pair from rows, None where the rows end."""
    return lambda row, column: rows[row][column]


def test_every_recorded_result_is_healthy_or_shows_its_own_faults(made):
    seen = set()
    for file in sorted(ROOT.rglob("*")):
        if not file.is_file() or ISSUES in file.parents:
            continue
        if file.name in NO_RESULTS:
            with pytest.raises(UsageMistake):
                made.analysed({file.name: file.read_bytes()})
            continue
        name = str(file.relative_to(ROOT))
        expected = (
            {"resnet50.spread"} if any(sick in name and "throughput" in name for sick in SICK) else BROKEN.get(file.name, set())
        )
        assert set(made.faults(made.analysed({name: file.read_bytes()}))) == expected, name
        seen.add(file.name)
    assert seen >= BROKEN.keys()
    assert len(list(LOGS.rglob("throughput/1"))) == 42


@pytest.mark.parametrize(
    ("folder", "precision", "per_gpu", "share", "faults"),
    [
        ("Gold_6230-Quadro_RTX_8000_XLA_trt_TF1_15.logs", "fp16", 992, "97%", []),
        ("Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs", "fp16", 388, "53%", ["resnet50.spread", "resnet50.efficiency"]),
        ("Gold_6230-Quadro_RTX_8000_XLA_trt_TF1_15.logs", "fp32", 357, "96%", []),
        ("Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs", "fp32", 318, "97%", []),
    ],
)
def test_eight_rtx_8000_train_at_their_known_rates_with_the_right_findings(made, folder, precision, per_gpu, share, faults):
    analysis = made.analysed(log(folder, precision, 1) | log(folder, precision, 8), "lqd8360")
    alone, together = sorted(analysis.runs, key=lambda run: run.training.count)
    assert round(together.training.per_gpu) == per_gpu
    assert (alone.training.count, together.training.count) == (1, 8)
    (summary,) = [summary for summary in analysis.summaries if summary.heads[0] == "ResNet-50 training"]
    assert [row[4] for row in summary.rows if row[1] == "8"] == [share]
    assert made.faults(analysis) == faults
    assert made.warnings(analysis) == []
    is_judged = (precision, together.training.compiler) == ("fp16", "xla")
    assert ("baseline recorded, not judged" in made.gaps(analysis)) is not is_judged
    assert {device.name for device in together.reading.devices} == {"Quadro RTX 8000"}
    if faults:
        assert "fp16 without XLA" in made.told(analysis, "resnet50.efficiency")


def test_all_logs_of_one_machine_are_judged_together_each_with_its_own_software(made):
    files = {str(file.relative_to(ROOT)): file.read_bytes() for file in LOGS.rglob("throughput/1") if "RTX_8000" in str(file)}
    analysis = made.analysed(files, "lqd8360")
    assert len(analysis.runs) == 32
    failed = {
        (diagnosis.check, diagnosis.source.split("/")[2], diagnosis.source.split("/")[3])
        for diagnosis in analysis.of(Severity.FAIL)
    }
    bad = "Gold_6230-Quadro_RTX_8000_trt_TF1_15.logs"
    assert failed == {
        (check, bad, f"syn-replicated-fp16-{count}gpus")
        for check in ("resnet50.spread", "resnet50.efficiency")
        for count in (2, 4, 8)
    }


def test_notes_and_temperatures_beside_the_logs_are_read(made):
    folder = "Gold_6230-Quadro_RTX_8000_XLA_trt_TF1_15.logs"
    analysis = made.analysed(
        recorded(f"{folder}/metadata", f"{folder}/syn-replicated-fp16-8gpus/resnet50-512/thermal/1") | log(folder, "fp16", 8)
    )
    assert {run.report.identity.driver for run in analysis.runs} == {"440.82"}
    monitor = next(reading.monitor for reading in analysis.readings if reading.monitor is not None)
    assert len(monitor.temperatures) == 8
    assert all(60 <= degrees <= 75 for degrees in monitor.temperatures.values())


def test_all_gpus_reach_each_other_over_both_sockets(made):
    """Eight RTX 8000 on two Gold 6230: TensorFlow connects every pair."""
    (run,) = made.analysed(log("Gold_6230-Quadro_RTX_8000_XLA_trt_TF1_15.logs", "fp16", 8)).runs
    assert len(run.training.access) == 56
    assert set(run.training.access.values()) == {True}


def test_junk_before_nvbandwidth_s_json_changes_nothing(made):
    clean, dirty = (made.analysed(recorded(name)).readings[0] for name in
                    ("nvbandwidth_verboseFullOutput.json", "nvbandwidth_verboseFullOutputWithErrors.txt"))  # fmt: skip
    assert clean.host_rates == dirty.host_rates
    assert [rate.rate for rate in clean.host_rates] == [12.3964, 13.2001]
    assert clean.checks == dirty.checks


def test_the_dgx_2_s_places_are_those_of_a_recorded_one():
    (file,) = (Path(FIELD_DATA) / "pcie").rglob("nvidiaDGX2.xml")
    picture = merge(read_dump(file.name, file.read_bytes()))
    platform, _ = find_platform("dgx2")
    assert {slot.path for slot in platform.slots} == {function.path for function in picture.on_bus}
    assert {model.device for model in platform.models} == {function.id for function in picture.on_bus}


def test_a_skip_in_the_diagnostic_is_told_as_such(made):
    analysis = made.analysed(recorded("diag_PER_GPU_JSON.json"))
    assert "GPU 0, GPU 2, GPU 3 | Stress sm_stress: fail on 3 of 4" in made.told(analysis, "diagnostic")
    rates = {(rate.index, rate.to_gpu): rate.rate for rate in analysis.readings[0].host_rates}
    assert (len(rates), rates[0, False]) == (8, 13.08)
    assert "Hardware diagnostic on GPU 0, GPU 1, GPU 2, GPU 3: it was skipped" in made.gaps(analysis)


def test_the_node_with_a_slow_launch_stands_out_in_the_raw_results_too(made):
    """SuperBench's own diagnosis of these nodes refuses the first for its launch overhead and the third for a failed test."""
    analysis = made.analysed(recorded("test_results.jsonl"))
    assert made.told(analysis, "odd-rank").startswith("sb-validation-01 rank 0 | kernel-launch/event_overhead is 0.1")
    assert made.warnings(analysis) == ["odd-rank"]
    assert made.told(analysis, "superbench").startswith("sb-validation-03 | 1 benchmark ended with an error | mem-bw/return_code 1")


def test_six_collectives_of_eight_a100_are_read_to_their_last_size(made):
    analysis = made.analysed(recorded("nccl_all*.log", "nccl_broadcast.log", "nccl_reduce*.log"))
    runs = [reading.collective for reading in analysis.readings]
    assert len(runs) == 6
    assert {(len(run.rows), run.rows[-1].size, run.validated, run.ended) for run in runs} == {(34, 8 << 30, False, True)}
    assert max(run.rows[-1].best for run in runs) == 235.26


def test_eight_a100_over_nvlink_are_near_their_ceiling(made):
    files = recorded("p2pBandwidthLatencyTest_excerpt_1.txt", "nvidia-smi_topo_m_3.txt")
    analysis = made.analysed(files)
    (summary,) = [summary for summary in analysis.summaries if summary.rows[0][1] == "NV12"]
    assert summary.rows[0][-2:] == ("300", "91%")
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])


# figures and topologies from threads, written as their tools print them

NOTHING = {"disabled": None, "enabled": None, "both": None, "both_disabled": None, "late": None, "late_disabled": None}


def test_two_rtx_4090_whose_enabled_equals_disabled_in_every_table_are_staged(made):
    told = transcribed("host_staged_2x4090_gen4.json")
    assert told["expected_harness_verdict"].startswith("FAIL capability")
    text = made.p2p_sample(
        2, "NVIDIA GeForce RTX 4090", can=False, disabled=by(told["unidirectional_p2p_disabled"]),
        enabled=by(told["unidirectional_p2p_enabled_writes"]), both=by(told["bidirectional_p2p_enabled"]),
        both_disabled=by(told["bidirectional_p2p_disabled"]), late=by(told["latency_enabled_gpu_us"]),
        late_disabled=by(told["latency_disabled_gpu_us"]),
    )  # fmt: skip
    analysis = made.analysed({"sample": text})
    assert made.faults(analysis) == ["can-access", "path"]
    assert "2 of 2 ordered pairs staged through the host" in made.told(analysis, "path")


def test_eight_rtx_2080_ti_without_peer_access_are_said_to_be_staged(made):
    told = transcribed("nccl-tests_117_8x2080Ti_no_p2p.json")
    assert told["expected_harness_verdict"].startswith("FAIL capability")
    matrix, late = by(told["last_bandwidth_matrix_before_latency"]), by(told["latency_p2p_disabled_gpu_us"])
    tables = {"both": matrix, "both_disabled": matrix, "late": late, "late_disabled": late}
    analysis = made.analysed({"sample": made.p2p_sample(8, "GeForce RTX 2080 Ti", can=False, **(NOTHING | tables))})
    assert made.faults(analysis) == ["can-access", "path"]
    assert "56 ordered pairs; the figures that stand for them went through the host" in made.told(analysis, "can-access")


def test_three_rtx_4090_with_a_patched_driver_pass(made):
    told = transcribed("tinygrad_6_3x4090_gen4_p2p.json")
    assert told["expected_harness_verdict"].startswith("PASS")
    tables = {"both": by(told["bidirectional_p2p_enabled"]), "both_disabled": by(told["bidirectional_p2p_disabled"])}
    analysis = made.analysed({"sample": made.p2p_sample(3, "NVIDIA GeForce RTX 4090", **(NOTHING | tables))})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    (summary,) = analysis.summaries
    assert [row[-2:] for row in summary.rows if row[0].endswith("with peer access")] == [("63.02", "66%")], (
        "the expectation beside it"
    )


def test_eight_a40_with_bridges_pass_in_three_tiers(made):
    told = transcribed("nccl-tests_74_8xA40_bidirectional.json")
    assert told["expected_harness_verdict"].startswith("PASS pairwise")
    rows = told["bidirectional_p2p_enabled_first_rows"]
    text = made.p2p_sample(8, "NVIDIA A40", **(NOTHING | {"both_disabled": by(told["bidirectional_p2p_disabled"])}))
    head = made.table("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", 8, lambda row, column: rows[row % 3][column], 565.0)
    text += "\n".join(head.splitlines()[:5]) + "\n"
    classes = [
        ["X" if a == b else "NV4" if a // 2 == b // 2 else "NODE" if a // 4 == b // 4 else "SYS" for b in range(8)]
        for a in range(8)
    ]
    analysis = made.analysed({"sample": text, "topo": made.topo(classes)})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])


def test_eight_h100_pass_with_the_ceiling_beside_their_figures(made):
    told = transcribed("h100_nccl1264_8gpu.json")
    first = told["unidirectional_p2p_enabled_writes_first_row"][0]
    text = made.p2p_sample(8, "NVIDIA H100 80GB HBM3", **(NOTHING | {"disabled": by(told["unidirectional_p2p_disabled"])}))
    head = made.table("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", 8, lambda _, column: first[column], 2500.0)
    text += "\n".join(head.splitlines()[:3]) + "\n"
    analysis = made.analysed({"sample": text, "topo": made.topo([["X" if a == b else "NV18" for b in range(8)] for a in range(8)])})
    assert (made.faults(analysis), made.warnings(analysis)) == ([], [])
    assert any(row[-2:] == ("450", "84%") for summary in analysis.summaries for row in summary.rows)


def test_two_rtx_5090_have_no_peer_access_because_of_their_kind(made):
    rows = transcribed("topo_p2p_gns_2x5090.json")["matrix"]
    analysis = made.analysed({"topo": made.topo_p2p(2, by(rows))})
    assert made.faults(analysis) == ["can-access"]
    assert "this kind of GPU has none" in made.told(analysis, "can-access")


def test_pairs_below_one_switch_that_hang_point_to_acs_and_a_cold_start(made):
    told = transcribed("nccl_667_topology_hang.json")
    assert "TIMEOUT on pair (0,1) and (2,3) only" in told["expected_harness_verdict"]
    pairs = [(one, other) for one in range(4) for other in range(one + 1, 4)]
    hung = {"ended": False, "rows": ()}
    files = {f"pair-{pair}": made.nccl(2, devices=pair, **(hung if pair in ((0, 1), (2, 3)) else {})) for pair in pairs}
    analysis = made.analysed(files | {"topo": made.topo(told["matrix"])})
    assert made.faults(analysis) == ["hang"]
    text = made.told(analysis, "hang")
    assert text.startswith("GPU 0 and GPU 1 (PXB), GPU 2 and GPU 3 (PIX) |")
    assert "ACS" in text
    assert "VT-d" in text
    assert "cold" in text


def test_every_transcribed_error_line_is_known(made):
    """Those of gpu-burn and Xids have readers of their own, and llama.cpp's tells its code only."""
    for signature in transcribed("error_signatures.json"):
        line = {
            "xid": "[   10.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
            "llama_10gpu": "ggml_cuda_init: CUDA error 711",
            "gpu_burn_faulty_exit0": made.burn(["FAULTY"], [10]),
            "gpu_burn_no_work_ok": made.burn(["OK"], [0]),
            "gpu_burn_died": made.burn(["OK"], [10], ["-7 (DIED!)"]),
        }.get(signature["id"], signature["match"] + " 3b:00.0")
        analysis = made.analysed({"line": line})
        is_limit = signature.get("code") == 711 or "peer" in signature["id"]
        assert (made.faults(analysis) == []) is is_limit, signature["id"]
        assert made.faults(analysis) or made.warnings(analysis) == ["peer-limit"], signature["id"]
