"""``bringup gpu analyze`` as a program: what it prints, and with which status it ends."""

import gzip
import json
import os
import subprocess

import pytest


@pytest.fixture
def analyze(program, tmp_path):
    """Run the command on files of some names and contents."""

    def run(files, *options):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        words = [*program, "gpu", "analyze", *files, *options]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)

    return run


def test_healthy_results_end_with_0_and_say_what_they_do_not_tell(analyze, made):
    done = analyze({"sample.txt": made.p2p_sample(4), "topo.txt": made.topo(made.switches(2, 2))})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ANALYSIS of 2 files, no machine was touched: 0 faults, 0 warnings\n")
    assert "  sample.txt: p2pBandwidthLatencyTest, 6 tables of 4 GPUs" in done.stdout
    assert "  topo.txt: nvidia-smi topo, topology of 4 GPUs" in done.stdout
    (row,) = [
        line for line in done.stdout.splitlines() if line.startswith("  bandwidth one way, writes, with peer") and "PIX" in line
    ]
    assert row.split()[-6:] == ["4", "12.5", "12.5", "12.5", "15.75", "79%"]
    assert "whether every byte arrives unchanged, by pair and offset" in done.stdout.partition("these files do not tell")[2]
    assert done.stderr == "bringup: reading sample.txt\nbringup: reading topo.txt\n"


def test_a_fault_ends_with_1_and_stands_before_the_figures(analyze, made):
    done = analyze(
        {"fp16-8": made.tf_log(8, [3100.0] * 8, xla=False), "fp16-1": made.tf_log(1, [728.0] * 8, xla=False)},
        "--platform",
        "lqd8360",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[0].endswith("1 fault, 0 warnings")
    fault, figures = done.stdout.index("\nFAIL "), done.stdout.index("of perfect")
    assert fault < figures
    for word in ("seen    total images/sec: 3100  (fp16-8)", "likely  fp16 without XLA", "next    train again with XLA"):
        assert word in done.stdout
    assert "388" in done.stdout
    assert "53%" in done.stdout


def test_json_holds_figures_findings_and_sources(analyze, made):
    files = {
        "sample.gz": gzip.compress(made.p2p_sample(2, enabled=11.0, disabled=11.0, late=13.0).encode()),
        "fp16": made.tf_log(2, [2000.0] * 6),
    }
    done = analyze(files, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["failed"] is True
    assert {file["source"]: file["format"] for file in told["files"]} == {
        "sample.gz": "p2pBandwidthLatencyTest",
        "fp16": "tf_cnn_benchmarks",
    }
    assert [(finding["check"], finding["source"]) for finding in told["findings"]] == [("path", "sample.gz")]
    (training,) = told["training"]
    assert (training["gpus"], training["images_per_second_per_gpu"], training["identity"]) == (
        2,
        1000.0,
        "tensorflow fp16 xla batch 512",
    )
    grid = next(grid for grid in told["copies"] if grid["peer_access"] and grid["what"] == "bandwidth one way")
    assert {(cell["from"], cell["to"]): cell["value"] for cell in grid["cells"]} == {(0, 1): 11.0, (1, 0): 11.0}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("once upon a time\n", "nothing in it is known; known are: p2pBandwidthLatencyTest"),
        ("<nvidia_smi_log><gpu", "cut off"),
        (b"\x1f\x8b\x08\x00damaged", "the packed file is"),
    ],
)
def test_a_file_that_nobody_can_read_is_one_line_and_ends_with_2(analyze, content, words):
    done = analyze({"file": content})
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bringup: file: ")
    assert words in done.stderr


def test_one_unreadable_file_among_others_is_named_and_nothing_is_judged(analyze, made):
    done = analyze({"good": made.p2p_sample(2), "bad": "x"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("bringup: bad: nothing in it is known")


def test_a_folder_is_one_line_and_ends_with_2(program, tmp_path):
    done = subprocess.run([*program, "gpu", "analyze", "."], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "bringup: .: cannot be read: Is a directory\n")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")  # noqa: PTH110
def test_a_file_without_an_end_is_given_up(program, tmp_path):
    code = "import harness.cli.analysis as a; a.LARGEST = 1 << 20; from harness.__main__ import main; main()"
    words = [program[0], "-c", code, "gpu", "analyze", "/dev/zero"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bringup: /dev/zero: larger than 1 MiB; cut out what matters\n"


def test_an_unknown_platform_is_one_line_and_ends_with_2(analyze, made):
    done = analyze({"sample": made.p2p_sample(2)}, "--platform", "dgx3")
    assert done.returncode == 2
    assert "did you mean 'dgx2'?" in done.stderr
