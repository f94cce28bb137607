import json

import pytest

from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.devices.p2p import Damage, LinkKind, run_p2p
from harness.errors import BenchError, BringupError
from harness.ports import CommandAnswer

HELLO = {"kind": "hello", "worker": "p2p", "schema": 1, "size": 268435456, "loops": 25, "driver": "535.183.01", "cuda": "12.2"}
GPU = {
    "kind": "gpu", "index": 0, "address": "0000:3F:00.0", "uuid": "GPU-0", "group": "0000:3d:00.0", "iommu": "none", "peers": 8,
    "stopped": 711,
}  # fmt: skip
PAIR = {
    "kind": "pair", "from": 0, "to": 1, "can": True, "link": "pcie", "enabled": 12.6, "disabled": 9.9, "write_us": 1.8,
    "read_us": 2.4, "checked": 1024, "bad": 0,
}  # fmt: skip


class Lane:
    def __init__(self, objects):
        self.lines = [json.dumps(line) for line in (*objects, {"kind": "end", "lines": len(objects)})]
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question)
        for line in self.lines:
            if on_line is not None:
                on_line(line, 0.0)
        return CommandAnswer(0, "\n".join(self.lines), "", 0.0, 0.0)

    def close(self):
        pass


def run(*objects, **options):
    return run_p2p(Host(Lane([HELLO, *objects]), VirtualClock()), **options)


def test_every_field_of_a_gpu_and_a_pair_is_read():
    report = run(GPU, PAIR)
    assert (report.driver, report.cuda, report.size, report.loops, report.refused) == ("535.183.01", "12.2", 268435456, 25, "")
    gpu = report.gpu(0)
    assert (gpu.address, gpu.uuid, gpu.group, gpu.iommu, gpu.peers, gpu.stopped) == (
        "0000:3f:00.0", "GPU-0", "0000:3d:00.0", "none", 8, 711,
    )  # fmt: skip
    (pair,) = report.pairs
    assert (pair.source, pair.target, pair.can, pair.link) == (0, 1, True, LinkKind.PCIE)
    assert (pair.enabled, pair.disabled, pair.write_us, pair.read_us, pair.checked, pair.bad) == (12.6, 9.9, 1.8, 2.4, 1024, 0)
    assert report.tried == (pair,)


def test_loopbacks_shifts_contexts_and_both_ways_are_read():
    report = run(
        PAIR | {"both": 25.1},
        {"kind": "loopback", "index": 0, "checked": 64, "bad": 0, "rate": 300.1},
        {"kind": "loopback", "index": 1, "untried": "it hung"},
        {"kind": "shift", "by": 2, "group": "0000:3d:00.0", "copies": 2, "write": 5.5, "read": 11.0},
        {"kind": "contexts", "count": 20, "seconds": 6.1, "life": "gpu", "estimates": {"pair": 9.0}},
    )
    assert report.pair(0, 1).both == 25.1
    assert [(loop.index, loop.rate, loop.checked, loop.bad, loop.untried) for loop in report.loopbacks] == [
        (0, 300.1, 64, 0, ""),
        (1, None, 0, None, "it hung"),
    ]
    (shift,) = report.shifts
    assert (shift.by, shift.copies, shift.ratio) == (2, 2, 0.5)
    assert (report.contexts.count, report.contexts.seconds, report.contexts.life) == (20, 6.1, "gpu")


@pytest.mark.parametrize("damage", list(Damage))
def test_every_class_of_wrong_bytes_is_read(damage):
    wrong = {"class": damage.value, "way": "read", "first": 4, "last": 60, "size": 16, "disabled_bad": 0, "of": 7}
    (pair,) = run(PAIR | {"bad": 16, "wrong": wrong}).pairs
    assert (pair.wrong.damage, pair.wrong.way, pair.wrong.first, pair.wrong.last) == (damage, "read", 4, 60)
    assert (pair.wrong.size, pair.wrong.disabled_bad, pair.wrong.of) == (16, 0, 7)


def test_a_pair_measured_alone_is_judged_by_that_but_never_forgiven_its_wrong_bytes():
    (pair,) = run(PAIR | {"enabled": 3.0, "bad": 16, "alone": {"enabled": 12.5, "disabled": 9.8, "bad": 0}}).pairs
    assert (pair.best_enabled, pair.best_disabled, pair.worst_bad) == (12.5, 9.8, 16)


def test_a_pair_that_was_not_copied_has_no_figures_and_says_why():
    failed = {"kind": "pair", "from": 1, "to": 2, "error": "CUDA_ERROR_LAUNCH_FAILED", "error_code": 719}
    report = run({"kind": "pair", "from": 0, "to": 1, "untried": "GPU 1 fell off the bus"}, failed)
    assert [pair.why_missing for pair in report.pairs] == ["GPU 1 fell off the bus", "CUDA_ERROR_LAUNCH_FAILED"]
    assert [pair.worst_bad for pair in report.pairs] == [None, None]
    assert report.tried == ()


def test_links_and_contention_are_read():
    rates = {"write_alone": 10.0, "write_together": 2.5, "read_alone": 9.0, "read_together": 9.0}
    report = run(
        {"kind": "link", "index": 0, "generation": 3, "width": 16, "samples": 100, "replays": 12, "seconds": 180.0},
        {"kind": "contention", "group": "0000:3d:00.0", "gpus": [0, 1], "partners": [10, 11], **rates},
        {"kind": "contention", "group": "0000:da:00.0", "gpus": [10], "untried": "one GPU"},
    )
    assert report.link(0).replays_per_minute == 4.0
    assert report.link(1) is None
    tried, untried = report.contention
    assert (tried.gpus, tried.partners, tried.write_ratio, tried.read_ratio) == ((0, 1), (10, 11), 0.25, 1.0)
    assert (untried.write_ratio, untried.untried) == (None, "one GPU")


def test_a_wedged_copy_suspects_the_culprit_or_both():
    report = run(
        {"kind": "xid", "index": 1, "address": "0000:40:00.0", "xid": 79, "text": "fallen off the bus"},
        {"kind": "wedged", "from": 0, "to": 1, "seconds": 30.0, "culprit": 1, "reaped": False},
        {"kind": "wedged", "from": 2, "to": 3, "seconds": 30.0},
    )
    known, unknown = report.wedged
    assert (known.suspects, known.reaped, unknown.suspects, unknown.reaped) == ((1,), False, (2, 3), True)
    assert (report.xids[0].number, report.xids[0].index) == (79, 1)


def test_a_refusal_and_holders_are_read():
    report = run(GPU, {"kind": "holder", "index": 0, "pid": 2117, "name": "Xorg"}, {"kind": "refused", "why": "DMA", "gpus": [0]})
    assert report.refused == "DMA"
    assert str(report.holders[0]) == "Xorg (pid 2117)"


def test_progress_goes_to_whoever_watches():
    seen = []
    run(
        {"kind": "progress", "stage": "pairs", "done": 20, "of": 380},
        on_line=lambda line, at: seen.append(json.loads(line)["kind"]),
    )
    assert seen == ["hello", "progress", "end"]


def test_force_is_asked_for_by_name():
    lane = Lane([HELLO])
    run_p2p(Host(lane, VirtualClock()), loops=3, force=True)
    assert lane.asked[0].key == "agent p2p --loops 3 --force"


def test_a_missing_library_is_the_bench_s_fault():
    with pytest.raises(BenchError, match="cuda-bindings: not installed; install it"):
        run({"kind": "error", "what": "cuda-bindings", "why": "not installed", "do": "install it"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (PAIR | {"link": "carrier pigeon"}, "not one of pcie, nvlink"),
        (PAIR | {"wrong": {"class": "odd", "first": 0, "last": 0, "size": 4}}, "class is 'odd'"),
        ({"kind": "pair", "to": 1}, "no field 'from'"),
        ({"kind": "contention", "gpus": ["0"]}, "field 'gpus' is"),
    ],
)
def test_words_nobody_knows_are_refused(line, said):
    with pytest.raises(BringupError, match=said):
        run(line)
