"""Results of GPU tests as other tools print them, made up line by line: no recording is in them. Loaded by the fixture ``made``."""

from __future__ import annotations

import json

from harness import locator
from harness.devices.gpu_reports.recognise import read_report
from harness.procedures.analysis.diagnosis import Severity
from harness.procedures.gpu_analysis.analysis import analyse_reports

RTX = "Quadro RTX 8000"


def cell(value, row, column):
    """A figure for a pair: a number for all, or a function of row and column."""
    return value(row, column) if callable(value) else value


def table(title, count, value, own, head="D\\D"):
    """One table of p2pBandwidthLatencyTest."""
    lines = [*([title] if title else []), f"   {head}" + "".join(f"{column:7d}" for column in range(count))]
    for row in range(count):
        cells = (own if row == column else cell(value, row, column) for column in range(count))
        lines.append(f"{row:6d} " + " ".join(f"{each:6.2f}" for each in cells))
    return "\n".join(lines)


def p2p_sample(count=4, name=RTX, *, enabled=12.5, reads=None, disabled=9.9, both=24.0, both_disabled=11.0, late=2.0,
               late_disabled=13.0, can=True, buses=None):  # fmt: skip
    """The whole output; a table whose figure is None is left out."""
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    for index in range(count):
        bus = (buses or [0x1A + index for index in range(count)])[index]
        lines.append(f"Device: {index}, {name}, pciBusID: {bus:x}, pciDeviceID: 0, pciDomainID:0")
    for row in range(count):
        for column in range(count):
            if row != column:
                word = "CAN" if cell(can, row, column) else "CANNOT"
                lines.append(f"Device={row} {word} Access Peer Device={column}")
    tables = (
        ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", disabled, 540.0),
        ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", enabled, 540.0),
        ("Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)", reads, 540.0),
        ("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)", both_disabled, 540.0),
        ("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", both, 540.0),
    )
    lines += [table(title, count, value, own) for title, value, own in tables if value is not None]
    for title, value in (
        ("P2P=Disabled Latency Matrix (us)", late_disabled),
        ("P2P=Enabled Latency (P2P Writes) Matrix (us)", late),
    ):
        if value is not None:
            lines += [table(title, count, value, 1.4, "GPU"), "", table("", count, 3.0, 2.5, "CPU")]
    return "\n".join(lines) + "\n"


def topo(classes, affinity="0-23"):
    """``nvidia-smi topo -m`` of rows of words, X on the diagonal."""
    heads = "".join(f"\tGPU{index}" for index in range(len(classes)))
    rows = [f"GPU{index}\t" + "\t".join(row) + f"\t{affinity}\t0" for index, row in enumerate(classes)]
    return "\n".join([f"{heads}\tCPU Affinity\tNUMA Affinity", *rows, "", "Legend:", "", "  X    = Self", ""])


def switches(*sizes, far="SYS"):
    """Rows for ``topo`` of GPUs below switches of these sizes."""
    own = [number for number, size in enumerate(sizes) for _ in range(size)]
    return [
        ["X" if one == other else "PIX" if own[one] == own[other] else far for other in range(len(own))] for one in range(len(own))
    ]


def topo_p2p(count, status):
    """``nvidia-smi topo -p2p r``; ``status`` a word, or a function of row and column."""
    rows = [["X" if row == column else cell(status, row, column) for column in range(count)] for row in range(count)]
    heads = "".join(f"\tGPU{index}" for index in range(count))
    return "\n".join([heads, *(f" GPU{index}\t" + "\t".join(row) for index, row in enumerate(rows)), "", "Legend:", ""])


def nvbandwidth(cases, before=""):
    """JSON of nvbandwidth: name to rows of figures (None is N/A), or to a status."""
    told = []
    for name, rows in cases.items():
        if isinstance(rows, str):
            told.append({"name": name, "status": rows})
        else:
            words = [["N/A" if value is None else f"{value}" for value in row] for row in rows]
            told.append({"name": name, "status": "Passed", "bandwidth_matrix": words})
    document = {"nvbandwidth": {"CUDA Runtime Version": 12070, "Driver Version": "565.02", "testcases": told}}
    return before + json.dumps(document, indent="\t")


def square(count, value):
    """Rows of one figure with N/A on the diagonal."""
    return [[None if row == column else cell(value, row, column) for column in range(count)] for row in range(count)]


def nccl(ranks=8, *, devices=None, rows=((1 << 20, 9.0), (1 << 28, 11.0)), wrong=0, ended=True, validation=1, one_process=False,
         after=(), refused=""):  # fmt: skip
    """all_reduce_perf; ``rows`` are bytes and bus bandwidth."""
    lines = [
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 minBytes 1 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20 validation: {validation} graph: 0",
        "#", "# Using devices",
    ]  # fmt: skip
    for rank, device in enumerate(devices or range(ranks)):
        pid = 100 if one_process else 100 + rank
        lines.append(f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on    node1 device {device:2d} [0000:{0x1A + device:02x}:00] {RTX}")
    lines += [
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)",
    ]
    count = "N/A" if not validation else str(wrong)
    for size, rate in rows:
        figures = f"   100.0  {rate:6.2f}  {rate:6.2f}  {count:>5}"
        lines.append(f"{size:12d}  {size // 4:12d}     float     sum      -1 {figures} {figures}")
    lines += after
    if ended:
        lines += [
            f"# Out of bounds values : {2 * wrong} {'FAILED' if wrong else 'OK'}",
            f"# Avg bus bandwidth    : 10.5{f' {refused}' if refused else ''}",
            "#",
        ]
    return "\n".join(lines) + "\n"


def tf_log(gpus, rates, *, xla=True, batch=512, losses=None, name=RTX, total=True, version="1.15"):
    """tf_cnn_benchmarks: ``rates`` are those of the first ten steps and of each ten after; lines are means over all so far."""
    listed = ", ".join(f"'/gpu:{index}'" for index in range(gpus))
    lines = [
        f"TensorFlow:  {version}", "Model:       resnet50", "Dataset:     imagenet (synthetic)", "Mode:        training",
        f"Batch size:  {gpus * batch} global", f"{batch} per device", "Num batches: 100", f"Devices:     [{listed}]",
        "Variables:   replicated", "AllReduce:   nccl", "==========",
    ]  # fmt: skip
    stamp = "2026-11-01 10:00:00.000000: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1"
    for row in range(gpus):
        lines.append(f"{stamp}199] {row}:   " + " ".join("N" if row == column else "Y" for column in range(gpus)))
    for index in range(gpus):
        lines.append(
            f"{stamp}325] Created TensorFlow device (/job:localhost/replica:0/task:0/device:GPU:{index} with 45882 MB memory) "
            f"-> physical GPU (device: {index}, name: {name}, pci bus id: 0000:{0x1A + index:02x}:00.0, compute capability: 7.5)"
        )
    lines += ["Running warm up"]
    lines += [f"{stamp}: Compiled cluster using XLA!  This line is logged at most once."] if xla else []
    lines += ["Done warm up", "Step\tImg/sec\ttotal_loss"]
    seconds = 0.0
    for number, rate in enumerate(rates):
        loss = (losses or [7.5] * len(rates))[number]
        if number == 0:
            lines.append(f"1\timages/sec: {rate:.1f} +/- 0.0 (jitter = 0.0)\t{loss}")
        seconds += 10 / rate
        mean = 10 * (number + 1) / seconds
        lines.append(f"{10 * (number + 1)}\timages/sec: {mean:.3f} +/- 1.0 (jitter = 2.0)\t{loss}")
    if total:
        rule = "-" * 64
        lines += [rule, f"total images/sec: {10 * len(rates) / seconds:.2f}", rule]
    return "\n".join(lines) + "\n"


def dcgm(results, *, old=False):
    """DCGM diag: test name to statuses by GPU, with words in brackets behind a status: ``FAIL(why)``."""
    tests = []
    for name, statuses in results.items():
        told = []
        for gpu, status in enumerate(statuses):
            word, _, why = status.rstrip(")").partition("(")
            part = {"gpu_ids": str(gpu)} if old else {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu}
            warnings = [{"warning": why, "error_id": 7, "error_category": 1, "error_severity": 2}] if why else []
            told.append({**part, "status": word, **({"warnings": warnings} if warnings else {})})
        tests.append({"name": name, "results": told, "test_summary": {"status": "?"}})
    root = "DCGM GPU Diagnostic" if old else "DCGM Diagnostic"
    return json.dumps(
        {root: {"test_categories": [{"category": "Hardware", "tests": tests}]}, "metadata": {"version": "4.1.0"}}, indent=4
    )


def smi(count, *, name=RTX, device="1E3010DE", memory="48601 MiB", extra="", generation=3, width=16):
    """``nvidia-smi -q -x``; ``extra`` goes into every GPU."""
    gpus = "".join(
        f'<gpu id="00000000:{0x1A + index:02X}:00.0"><product_name>{name}</product_name><serial>SN{index}</serial>'
        f"<pci><pci_device_id>{device}</pci_device_id><pci_gpu_link_info><pcie_gen><max_link_gen>{generation}</max_link_gen>"
        f"<current_link_gen>1</current_link_gen></pcie_gen><link_widths><max_link_width>{width}x</max_link_width>"
        f"<current_link_width>{width}x</current_link_width></link_widths></pci_gpu_link_info></pci>"
        f"<fb_memory_usage><total>{memory}</total></fb_memory_usage>{extra}</gpu>"
        for index in range(count)
    )
    return (
        f"<nvidia_smi_log><driver_version>535.104</driver_version><attached_gpus>{count}</attached_gpus>{gpus}</nvidia_smi_log>\n"
    )


def burn(verdicts, work, errors=None):
    """gpu-burn: a line of progress and the verdicts."""
    done = " - ".join(f"{each} ({each} Gflop/s)" for each in work)
    wrong = " - ".join(errors or ["0"] * len(work))
    heat = " - ".join("38 C" for _ in work)
    rows = "".join(f"\tGPU {index}: {verdict}\n" for index, verdict in enumerate(verdicts))
    first = "50.0%  proc'd: 0 (0 Gflop/s)   errors: 0   temps: 30 C"
    return f"{first}\n99.0%  proc'd: {done}   errors: {wrong}   temps: {heat} \n\nTested {len(work)} GPUs:\n{rows}"


def superbench(**metrics):
    """A line of SuperBench's results; double underscores stand for slashes."""
    return json.dumps({"node": "node-1", **{name.replace("__", "/"): value for name, value in metrics.items()}}) + "\n"


def analysed(texts, platform=None):
    """The analysis of files, by name: a text or bytes each."""
    readings, harvests = [], []
    for name, text in texts.items():
        found = read_report(name, text if isinstance(text, bytes) else text.encode())
        readings += found.readings
        harvests += found.harvests
    return analyse_reports(readings, harvests, None if platform is None else locator.find_platform(platform)[0])


def faults(analysis):
    """The checks that fail, worst first."""
    return [diagnosis.check for diagnosis in analysis.of(Severity.FAIL)]


def warnings(analysis):
    """The checks that warn."""
    return [diagnosis.check for diagnosis in analysis.of(Severity.WARN)]


def told(analysis, check):
    """All words of the diagnoses of one check."""
    found = [each for each in analysis.diagnoses if each.check == check]
    return "\n".join(
        " | ".join((each.where, each.what, each.quote, *each.then, each.cause, each.do, each.source)) for each in found
    )


def gaps(analysis):
    """What could not be told, as lines."""
    return "\n".join(str(unread) for unread in analysis.unread)
