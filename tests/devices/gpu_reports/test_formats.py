"""Each format by itself: what is read of it, and what is left out."""

import bz2
import gzip
import json
import lzma
import random

import pytest

from harness.devices.gpu_reports.facts import Quantity, Signature, Status, Tool
from harness.devices.gpu_reports.recognise import read_report
from harness.errors import UsageMistake


def read(text, name="file"):
    (reading,) = read_report(name, text.encode()).readings
    return reading


def test_every_table_of_the_p2p_sample_is_read_and_the_cpu_s_latencies_are_left_out(made):
    reading = read(made.p2p_sample(3, reads=11.0))
    assert reading.tool is Tool.P2P_SAMPLE
    assert [(device.index, device.name, device.address) for device in reading.devices][:2] == [
        (0, "Quadro RTX 8000", "0000:1a:00.0"),
        (1, "Quadro RTX 8000", "0000:1b:00.0"),
    ]
    kinds = [(grid.quantity, grid.peers, grid.way) for grid in reading.grids]
    assert kinds == [
        (Quantity.ONE_WAY, False, "write"), (Quantity.ONE_WAY, True, "write"), (Quantity.ONE_WAY, True, "read"),
        (Quantity.BOTH_WAYS, False, "write"), (Quantity.BOTH_WAYS, True, "write"), (Quantity.LATENCY, False, "write"),
        (Quantity.LATENCY, True, "write"),
    ]  # fmt: skip
    assert {len(grid.cells) for grid in reading.grids} == {6}
    assert set(reading.grid(Quantity.LATENCY, peers=True).cells.values()) == {2.0}
    assert set(reading.access.values()) == {True}


def test_a_table_that_was_cut_off_gives_the_rows_that_it_has(made):
    whole = made.p2p_sample(4, disabled=None, both=None, both_disabled=None, late=None, late_disabled=None)
    reading = read("\n".join(whole.splitlines()[:-2]))
    assert sorted(reading.grids[0].cells) == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]


def test_nvbandwidth_is_read_behind_warnings_with_braces_of_their_own(made):
    cases = {
        "device_to_device_memcpy_write_ce": made.square(3, lambda row, column: 10 * row + column),
        "device_to_device_memcpy_read_ce": made.square(3, lambda row, column: 100 + 10 * row + column),
        "device_to_device_latency_sm": made.square(3, 1200),
        "host_to_device_memcpy_ce": [[12.1, 12.2, 12.3]],
        "all_to_one_write_ce": [[11.0, 11.1, 11.2]],
        "one_to_all_read_ce": "Waived",
        "all_to_host_memcpy_ce": "Error: out of memory",
    }
    reading = read(made.nvbandwidth(cases, before="WARNING: garbage {\nWARNING: {{{}}}}}\n"))
    assert reading.tool is Tool.NVBANDWIDTH
    writes, reads = (reading.grid(Quantity.ONE_WAY, peers=True, way=way).cells for way in ("write", "read"))
    assert writes[0, 2] == 2.0
    assert reads[2, 0] == 102.0, "a row reads from its columns: the data goes the other way"
    assert reading.grid(Quantity.LATENCY, peers=True, way="read").cells[0, 1] == 1.2
    assert [(rate.index, rate.to_gpu, rate.rate) for rate in reading.host_rates][2] == (2, True, 12.3)
    assert [(crowd.index, crowd.way, crowd.rate) for crowd in reading.crowds][1] == (1, "write", 11.1)
    assert [check.status for check in reading.checks][-2:] == [Status.SKIP, Status.FAIL]


def test_a_pair_without_a_figure_in_nvbandwidth_has_no_peer_access(made):
    cases = {"device_to_device_memcpy_write_ce": made.square(3, lambda row, column: None if (row, column) == (0, 1) else 12.0)}
    reading = read(made.nvbandwidth(cases))
    assert reading.access == {(0, 1): False}
    assert (0, 1) not in reading.grids[0].cells


def test_nvbandwidth_s_text_is_read_as_its_json():
    text = """nvbandwidth Version: v0.6
Device 0: NVIDIA A40 (00000000:01:00)

Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     25.10
 1     25.20       N/A

SUM device_to_device_memcpy_write_ce 50.30

Waived:
Running host_device_latency_sm.
"""
    reading = read(text)
    assert reading.grids[0].cells == {(0, 1): 25.1, (1, 0): 25.2}
    assert [check.status for check in reading.checks] == [Status.PASS, Status.SKIP, Status.OTHER]


def test_columns_of_nccl_tests_are_counted_from_the_right(made):
    run = read(made.nccl(2, wrong=3)).collective
    assert (run.name, len(run.ranks), run.validated, run.wrong, run.average, run.ended) == (
        "all_reduce_perf",
        2,
        True,
        6,
        10.5,
        True,
    )
    assert [(row.size, row.best, row.wrong) for row in run.rows] == [(1 << 20, 9.0, 6), (1 << 28, 11.0, 6)]
    assert (run.ranks[1].device.index, run.ranks[1].device.address) == (1, "0000:1b:00.0")


def test_older_tables_of_nccl_tests_without_some_columns_are_read():
    text = (
        "# nThread 1 nGpus 8 minBytes 1 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 validation: 0\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "host:1:1 [0] NCCL INFO Launch mode Parallel\n"
        "          64             2   float            86.83    0.00    0.00    N/A    85.77    0.00    0.25    N/A\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 58.6481\n"
    )
    run = read(text).collective
    assert [(row.size, row.best, row.wrong) for row in run.rows] == [(64, 0.25, None)]
    assert run.validated is False


def test_a_log_of_tf_cnn_benchmarks_gives_identity_devices_steps_and_total(made):
    text = made.tf_log(2, [100.0] * 4, batch=256)
    training = read(text, "logs/syn-replicated-fp16-2gpus/1").training
    assert (training.model, training.version, training.precision, training.compiler) == ("resnet50", "1.15", "fp16", "xla")
    assert (training.batch, training.count, training.data, training.reduce) == (256, 2, "synthetic", "nccl")
    assert [step.number for step in training.steps] == [1, 10, 20, 30, 40]
    assert (training.total, training.per_gpu) == (100.0, 50.0)
    assert training.access == {(0, 1): True, (1, 0): True}
    assert read(text).training.precision == "", "nothing tells it"
    assert read(f"python tf_cnn_benchmarks.py --use_fp16=True\n{text}").training.precision == "fp16"


def test_a_loss_that_is_no_number_is_none(made):
    training = read(made.tf_log(1, [100.0] * 3, losses=[7.5, "nan", "inf"])).training
    assert [step.loss for step in training.steps] == [7.5, 7.5, None, None]


@pytest.mark.parametrize("old", [True, False])
def test_both_forms_of_the_dcgm_diagnostic_are_read(made, old):
    reading = read(made.dcgm({"memory": ["PASS", "FAIL(bad cell)", "SKIP(no ECC)"]}, old=old))
    assert [(check.part, check.status, check.words) for check in reading.checks] == [
        ("GPU 0", Status.PASS, ""), ("GPU 1", Status.FAIL, "bad cell (error 7)"), ("GPU 2", Status.SKIP, "no ECC (error 7)"),
    ]  # fmt: skip


def test_superbench_s_copies_are_read_by_copy_engine_where_that_was_tried():
    text = (
        "gpu0_to_gpu1_write_by_sm 20.0\ngpu0_to_gpu1_write_by_dma 22.5\ngpu0_and_gpu1_write_by_dma 44.0\n"
        "cpu_to_gpu0_by_dma_under_numa0 12.0\ngpu_all_to_gpu1_write_by_sm 11.0\ngpu0_to_gpu0_by_sm 600.0\n"
    )
    reading = read(text)
    assert reading.grid(Quantity.ONE_WAY, peers=True).cells == {(0, 1): 22.5}
    assert reading.grid(Quantity.BOTH_WAYS, peers=True).cells == {(0, 1): 44.0}
    assert (reading.host_rates[0].rate, reading.crowds[0].rate) == (12.0, 11.0)


def test_superbench_s_results_diagnosis_and_samples_are_told_apart(made):
    assert read(made.superbench(mem__return_code=0, mem__bw=12.5)).tool is Tool.SUPERBENCH
    details = "x/y:0_miss,x/z(VAL: 1, B/L: 2)"
    accepted = {"index": "a", "diagnosis/accept": True, "diagnosis/category": "N/A", "diagnosis/issue_details": "N/A", "x/y": 1.0}
    refused = {"index": "b", "diagnosis/accept": False, "diagnosis/category": "Mem", "diagnosis/issue_details": details}
    judged = [accepted, refused]
    reading = read(json.dumps(judged, indent=4))
    assert reading.tool is Tool.SUPERBENCH_DIAGNOSIS
    assert {node.node: (node.category, len(node.issues)) for node in reading.nodes} == {"a": ("", 0), "b": ("Mem", 2)}
    samples = [{"time": "t", "gpu_temperature:0": 40 + number, "gpu_corrected_ecc:0": number} for number in range(3)]
    monitor = read("\n".join(json.dumps(sample) for sample in samples)).monitor
    assert (monitor.samples, monitor.temperatures, monitor.corrected) == (3, {0: 42}, {0: (0, 2)})


def test_gpu_burn_s_verdicts_come_with_the_work_that_was_done(made):
    burns = read(made.burn(["OK", "FAULTY", "OK"], [100, 90, 0], ["0", "12", "-3 (DIED!)"])).burns
    assert [(each.verdict, each.work, each.died) for each in burns] == [("OK", 100, False), ("FAULTY", 90, False), ("OK", 0, True)]


def test_known_lines_are_counted_wherever_they_stand():
    limit = "node1: Cuda failure 711 'peer mapping resources exhausted'"
    text = f"x\n{limit}\nagain: Cuda failure 711\nDMAR: [DMA Write NO_PASID] x\n"
    signs = {sign.signature: sign.count for sign in read(text).signs}
    assert signs == {Signature.TOO_MANY_PEERS: 2, Signature.IOMMU: 1}


def test_processes_are_read_from_both_forms_of_nvidia_smi(made):
    info = "<process_info><pid>{}</pid>\n<type>{}</type><process_name>{}</process_name></process_info>"
    xml = made.smi(
        2, extra=f"<processes>{info.format(2117, 'G', '/usr/lib/xorg/Xorg')}{info.format(99, 'C', 'python3')}</processes>"
    )
    (reading,) = read_report("mail", xml.encode()).readings
    assert [(each.index, each.pid, each.name, each.kind) for each in reading.processes] == [
        (index, *rest) for index in (0, 1) for rest in ((2117, "/usr/lib/xorg/Xorg", "graphics"), (99, "python3", "compute"))
    ]
    table = "| Processes:      |\n|    3   N/A  N/A      2117      G   /usr/lib/xorg/Xorg                 45MiB |\n"
    (old, new) = (read(text).processes for text in (table.replace("N/A  N/A ", ""), table))
    assert old == new
    assert (new[0].index, new[0].pid, new[0].name, new[0].kind) == (3, 2117, "/usr/lib/xorg/Xorg", "graphics")


def test_nvidia_smi_and_its_tables_come_through_the_readers_of_dumps(made):
    found = read_report("mail", (made.smi(2) + made.topo(made.switches(2))).encode())
    assert [harvest.format.value for harvest in found.harvests] == ["nvidia-smi -q -x", "nvidia-smi topo"]
    assert found.readings == ()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_packed_files_are_unpacked(made, pack):
    (reading,) = read_report("mail.gz", pack(made.p2p_sample().encode())).readings
    assert reading.summary == "6 tables of 4 GPUs"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"once upon a time\n", "nothing in it is known; known are: p2pBandwidthLatencyTest"),
        (b"\x1f\x8b\x08\x00damaged", "the packed file is"),
        (b'{"nvbandwidth": {"testcases": [', "nothing in it is known"),
        (b'{"DCGM Diagnostic": 5}', "nothing in it is known"),
        (b"\x00\xff" * 500, "nothing in it is known"),
    ],
)
def test_what_nobody_can_read_is_one_line(data, words):
    with pytest.raises(UsageMistake, match=words) as caught:
        read_report("file", data)
    assert str(caught.value).startswith("file: ")
    assert "\n" not in str(caught.value)


def test_copies_by_kernels_count_where_the_copy_engine_was_not_tried(made):
    both = {"device_to_device_memcpy_write_ce": made.square(2, 12.0), "device_to_device_memcpy_write_sm": made.square(2, 10.0)}
    assert read(made.nvbandwidth(both)).grids[0].cells[0, 1] == 12.0
    del both["device_to_device_memcpy_write_ce"]
    assert read(made.nvbandwidth(both)).grids[0].cells[0, 1] == 10.0


def test_a_packed_file_that_was_cut_off_says_so(made):
    dice = random.Random(3)
    noise = "".join(f"{dice.random()}\n" for _ in range(20000))
    packed = gzip.compress((made.p2p_sample() + noise).encode())
    whole, cut = (read_report("mail.gz", data).readings[0] for data in (packed, packed[: len(packed) * 3 // 4]))
    assert whole.unread == ()
    assert [unread.what for unread in cut.unread] == ["mail.gz: the end of the file"]
    joined = gzip.compress(made.p2p_sample().encode()) + gzip.compress(made.nccl().encode())
    assert len(read_report("mail.gz", joined).readings) == 2
