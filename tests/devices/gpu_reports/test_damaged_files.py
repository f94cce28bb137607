"""Results that were cut off, corrupted or mixed: one clear line, or what can still be told; never anything else, and soon."""

import gzip
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.devices.gpu_reports.recognise import read_report
from harness.errors import UsageMistake
from harness.procedures.gpu_analysis.analysis import GpuAnalysis


@pytest.fixture(scope="module")
def whole(made):
    """One file of each format."""
    texts = [
        made.p2p_sample(4, reads=11.0),
        made.nvbandwidth(
            {"device_to_device_memcpy_write_ce": made.square(4, 12.0), "all_to_one_write_ce": [[11.0] * 4], "x": "Waived"}
        ),
        made.nccl(8, after=["node1: Test NCCL failure common.cu:958"]),
        made.tf_log(4, [3900.0] * 6),
        made.dcgm({"memory": ["PASS", "FAIL(x)"], "pcie": ["SKIP", "WARN(y)"]}),
        "".join(f"gpu{one}_to_gpu{other}_write_by_dma 12.5\n" for one in range(3) for other in range(3)),
        made.superbench(mem__return_code=1, resnet__throughput=300.0),
        made.burn(["OK", "FAULTY"], [100, 0]),
        made.topo(made.switches(2, 2)) + made.topo_p2p(4, "OK"),
        made.smi(2),
        "[    1.000000] DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0x0 [fault reason 0x71]\n",
    ]
    return [text.encode() for text in texts]


def outcome(made, data):
    """True where something was read. Anything but a UsageMistake of one line is an error of ours."""
    said = ""
    try:
        assert isinstance(made.analysed({"mailed": data}), GpuAnalysis)
    except UsageMistake as mistake:
        said = str(mistake)
    assert "\n" not in said
    return not said


def test_a_file_that_was_cut_off_anywhere_gives_one_line_or_what_is_left(made, whole):
    dice = random.Random(4)
    read = sum(outcome(made, data[:end]) for data in whole for end in {1, *(dice.randrange(1, len(data)) for _ in range(12))})
    assert read > 40, "most of a file that was cut off still tells something"


def test_a_file_with_wrong_bytes_gives_one_line_or_what_is_left(made, whole):
    dice = random.Random(9)
    for data in whole:
        for _ in range(15):
            broken = bytearray(data)
            for _ in range(dice.randint(1, 40)):
                broken[dice.randrange(len(broken))] = dice.randrange(256)
            outcome(made, bytes(broken))


def test_figures_that_were_changed_give_one_line_or_what_is_left(made, whole):
    """Digits are what is computed with: noughts, very large numbers, minus signs."""
    dice = random.Random(11)
    for data in whole:
        for _ in range(15):
            words = data.decode().split(" ")
            for _ in range(8):
                words[dice.randrange(len(words))] = dice.choice(
                    ["0", "0.0", "-1", "9" * 400, "nan", "inf", "1e999", "", "N/A", "\t"]
                )
            outcome(made, " ".join(words).encode())


def test_lines_in_any_order_and_mixture_give_one_line_or_what_is_left(made, whole):
    dice = random.Random(10)
    lines = [line for data in whole for line in data.splitlines()]
    for _ in range(30):
        outcome(made, b"\n".join(dice.sample(lines, min(80, len(lines)))))


@given(
    st.binary(max_size=400),
    st.sampled_from([
        b"", b"\x1f\x8b", b"BZh9", b'{"nvbandwidth": ', b'{"DCGM Diagnostic": {"test_categories": ', b"# nThread 1 validation: 1\n",
        b"1\timages/sec: ", b"P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 ", b"[{", b'{"node": "a", ',
        b"proc'd: ",
    ]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_the_reader_raise_anything_else(made, data, start):
    outcome(made, start + data)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        '{"nvbandwidth": ' * 20_000,
        '{"nvbandwidth": ' + "[" * 100_000,
        "[" * 200_000,
        '{"DCGM Diagnostic": {"a":' * 10_000,
        "P2P=Enabled Bandwidth " * 40_000,
        "P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D" + "     0" * 200_000,
        "proc'd: " + "1 - " * 200_000,
        "proc'd: 1 errors: " * 30_000,
        "1\timages/sec: " + "9" * 500_000,
        "device:GPU:0 with " * 30_000,
        "AMD-Vi:" * 60_000,
        "segfault at x " * 40_000,
        "| a | b |" * 60_000,
        "1600000000, 1.0, " + "62, " * 200_000,
        "# Avg bus bandwidth" + " " * 500_000,
        "Device: 0, " + "x" * 500_000,
        "\n" * 500_000,
        "\t" * 500_000,
        "busbw " * 100_000,
        "<process_info>" + "<pid>1</pid>" * 50_000,
        "Processes\n|" + " 1" * 300_000,
        "Processes\n" + "|    3   1      G   x" * 30_000,
    ],
)
def test_nothing_endless_takes_long(made, text):
    started = time.monotonic()
    outcome(made, text.encode())
    assert time.monotonic() - started < 20


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("harness.devices.gpu_reports.recognise.LARGEST", 1 << 20)
    with pytest.raises(UsageMistake, match="unpacks to more than 1 MiB"):
        read_report("mailed", gzip.compress(b"0" * (1 << 22)))


def test_a_part_that_cannot_be_read_beside_one_that_can_is_said(made):
    found = read_report("mailed", (made.p2p_sample() + "<nvidia_smi_log><gpu").encode())
    assert [reading.tool.value for reading in found.readings] == ["p2pBandwidthLatencyTest"]
    lacks = [unread.what for unread in found.readings[0].unread]
    assert found.harvests or lacks == ["mailed: the rest of the file"], "it is salvaged, or said to be missing"
