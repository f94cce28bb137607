"""``bringup pcie analyze`` as a program: what it prints, and with which status it ends."""

import gzip
import json
import subprocess

import pytest

LSPCI = """3a:00.0 PCI bridge [0604]: Intel Corporation Sky Lake-E PCI Express Root Port A [8086:2030] (rev 04)
\tBus: primary=3a, secondary=3b, subordinate=3b, sec-latency=0
\tPrefetchable memory behind bridge: 0000382000000000-00003820ffffffff [size=4G]

3b:00.0 3D controller [0302]: NVIDIA Corporation TU102GL [10de:1e78] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:13d8]
\tRegion 0: Memory at b0000000 (32-bit, non-prefetchable) [size=16M]
\tRegion 1: Memory at {aperture} (64-bit, prefetchable) [size=256M]
\tRegion 3: Memory at 382010000000 (64-bit, prefetchable) [size=32M]
\tKernel driver in use: nvidia

"""
GOOD = LSPCI.format(aperture="382000000000")
BAD = LSPCI.format(aperture="<unassigned>")
LOG = "[    1.000000] pci 0000:3b:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]\n"
REPORT = f"""
____________________________________________

Start of an nvidia-bug-report.log file.
____________________________________________

*** /proc/cmdline
BOOT_IMAGE=/vmlinuz
____________________________________________

/usr/bin/lspci -nnvvv

{BAD}
____________________________________________

/usr/bin/dmesg

{LOG}
____________________________________________

/usr/bin/nvidia-smi --query

==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : Quadro RTX 8000
    Retired Pages
        Pending Page Blacklist            : No
____________________________________________
"""


@pytest.fixture
def analyze(program, tmp_path):
    """Run the command on files of some contents."""

    def run(*contents, options=()):
        files = []
        for number, content in enumerate(contents):
            file = tmp_path / f"file{number}"
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            files.append(file.name)
        words = [*program, "pcie", "analyze", *files, *options]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)

    return run


def test_a_healthy_dump_ends_with_0_and_says_what_it_does_not_tell(analyze):
    done = analyze(GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ANALYSIS of 1 file, no machine was touched: 0 faults, 0 warnings\n")
    assert "enumerated 1 > BARs assigned 1 > driver bound 1" in done.stdout
    assert "0000:3b:00.0  [10de:1e78]  BAR0 16 MiB BAR1 256 MiB BAR3 32 MiB  nvidia" in done.stdout
    assert "the kernel log: not among the files; mail dmesg" in done.stdout
    assert done.stderr == ""


def test_a_lost_aperture_ends_with_1_and_is_explained_by_the_other_file(analyze):
    done = analyze(BAD, LOG)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "enumerated 1 > BARs assigned 0" in done.stdout
    assert "FAIL 0000:3b:00.0" in done.stdout
    assert "seen    pci 0000:3b:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]  (file1)" in done.stdout
    assert "likely  " in done.stdout
    assert "next    " in done.stdout


def test_a_whole_packed_bug_report_is_taken_apart(analyze):
    done = analyze(gzip.compress(REPORT.encode()), options=["--json"])
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [file["format"] for file in told["files"]] == ["lspci", "kernel log", "nvidia-smi -q"]
    assert told["failed"] is True
    assert told["chain"] == {"enumerated": 1, "BARs assigned": 0, "driver bound": 1, "nvidia-smi": 1}
    (finding,) = [finding for finding in told["findings"] if finding["severity"] == "FAIL"]
    assert (finding["check"], finding["parts"]) == ("aperture", ["0000:3b:00.0"])


def test_what_a_platform_expects_and_is_not_there_fails(analyze):
    done = analyze(GOOD, options=["--platform", "lqd8360"])
    assert done.returncode == 1
    assert "expected 20" in done.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("once upon a time\n", "nothing in it is known; known are: lspci"),
        ("<nvidia_smi_log><gpu", "cut off"),
        (b"\x1f\x8b\x08\x00damaged", "the packed file is"),
    ],
)
def test_a_file_that_nobody_can_read_is_one_line_and_ends_with_2(analyze, content, words):
    done = analyze(content)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bringup: file0: ")
    assert words in done.stderr


def test_a_file_that_is_not_there_is_one_line_and_ends_with_2(program, tmp_path):
    done = subprocess.run([*program, "pcie", "analyze", "nothing"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr == "bringup: nothing: cannot be read: No such file or directory\n"


def test_an_unknown_platform_is_one_line_and_ends_with_2(analyze):
    done = analyze(GOOD, options=["--platform", "lqd836"])
    assert done.returncode == 2
    assert "did you mean 'lqd8360'?" in done.stderr
