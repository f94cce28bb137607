"""However much a machine says, an exhibit stays small; what is left out is counted, and secrets are taken out as anywhere else."""

from __future__ import annotations

import json

from harness.devices.console import Transcript
from harness.devices.idrac_facts import LogEntry
from harness.devices.p2p import Damage, Pair, PeerGpu, Wrong
from harness.devices.p2p import Report as Copies
from harness.devices.resnet50 import RankGpu, Solo, Telemetry, Window
from harness.devices.resnet50 import Report as Training
from harness.platform import load_platform
from harness.ports import Chunk
from harness.procedures.boot.story import BootStory
from harness.procedures.exhibits import show_boot, show_p2p, show_resnet50
from harness.procedures.exhibits.bounds import LINES, last, shortened
from harness.record.ledger import Ledger
from harness.record.reader import read_record

PLATFORM = load_platform('schema = 1\nname = "p"\n[[slot]]\nname = "a/slot01"\npath = "pci0000:00/01.0"\n', "p.toml")
SMALL = 60_000


def size(data):
    return len(json.dumps(data))


def test_a_text_is_one_line_and_says_that_it_is_cut():
    assert shortened("one\n two\tthree") == "one two three"
    assert shortened("x" * 5000).endswith(" ...")
    assert len(shortened("x" * 5000)) < 310


def test_only_the_last_lines_are_kept_and_the_rest_is_counted():
    kept = last([f"line {number}" for number in range(1000)])
    assert kept[0] == f"... {1000 - LINES} earlier"
    assert kept[-1] == "line 999"
    assert last(["one "]) == ["one"]


def test_a_start_with_an_endless_console_and_log_stays_small():
    console = Transcript((Chunk(b"".join(b"%d " % number + b"x" * 500 + b"\n" for number in range(5000)), 0.0),))
    events = tuple(LogEntry(number, "2026-01-01", "PR7", "y" * 2000, "OK") for number in range(5000))
    shown = show_boot(BootStory(is_consented=True, console=console, events=events), PLATFORM)
    assert size(shown) < SMALL
    assert shown["earlier"] == 5000 - LINES
    assert shown["console"][0].startswith("... ")
    assert shown["console"][-1].startswith("4999 ")


def test_a_bench_without_a_console_says_so():
    assert show_boot(BootStory(is_consented=False), PLATFORM)["silent"] == "the bench has no console"


def test_a_pair_is_told_by_the_places_of_its_gpus_and_a_missing_figure_says_why():
    gpus = (PeerGpu(4, "0000:3f:00.0", "GPU-a"), PeerGpu(2, "0000:40:00.0", "GPU-b"))
    wrong = Wrong(Damage.DROPPED, "write", 0, 4, 4096)
    pairs = (Pair(4, 2, enabled=12.34567, write_us=1.5, checked=1, bad=4096, wrong=wrong), Pair(2, 4, untried="the GPU fell off"))
    shown = show_p2p(Copies(gpus=gpus, pairs=pairs))
    assert shown["gpus"] == [["0000:3f:00.0", "GPU-a"], ["0000:40:00.0", "GPU-b"]]
    assert shown["pairs"] == [[0, 1, 12.346, 1.5, 4096, "dropped"], [1, 0, None, None, None, "the GPU fell off"]]


def test_the_copies_of_a_hundred_gpus_are_cut_at_sixty_four():
    gpus = tuple(PeerGpu(number, f"0000:{number:02x}:00.0", "") for number in range(100))
    pairs = tuple(Pair(one, other, bad=0) for one in range(100) for other in range(100) if one != other)
    shown = show_p2p(Copies(gpus=gpus, pairs=pairs))
    assert (len(shown["gpus"]), len(shown["pairs"])) == (64, 64 * 63)


def test_the_training_of_a_gpu_is_told_with_its_heat_and_what_slowed_it():
    report = Training(
        gpus=(RankGpu(0, 0, "0000:3f:00.0", "GPU-a"), RankGpu(1, 1, "0000:40:00.0", "GPU-b")),
        solos=(Solo(0, 1024.44),),
        windows=(Window(1, 19_700.04, 7.0),),
        telemetry=(Telemetry(0, 248.96, 66, {"sw_power_cap": 0.5, "gpu_idle": 0.0}),),
    )
    shown = show_resnet50(report)
    assert shown["gpus"][0] == ["0000:3f:00.0", "GPU-a", 1024.4, 66, 249.0, {"sw_power_cap": 0.5}]
    assert shown["gpus"][1] == ["0000:40:00.0", "GPU-b", None, None, None, {}]
    assert shown["windows"] == [19_700.0]


def test_a_secret_on_the_console_is_not_in_the_record(tmp_path):
    console = Transcript((Chunk(b"login: root\npassword: hunter2\n", 0.0),))
    ledger = Ledger(tmp_path / "results.jsonl", lambda text: text.replace("hunter2", "<secret>"))
    ledger.write("run", id="r", mode="live", source="hardware")
    ledger.write("exhibit", name="boot", data=show_boot(BootStory(is_consented=True, console=console), PLATFORM))
    ledger.close()
    assert read_record(ledger.path).exhibits["boot"]["console"] == ["login: root", "password: <secret>"]
    assert b"hunter2" not in ledger.path.read_bytes()
