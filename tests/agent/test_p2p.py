"""The worker p2p with the real cuda-bindings on a fake libcuda.so.1: what it finds, as the judges say it."""

import os
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from harness.devices.p2p import Damage, run_p2p
from harness.errors import BenchError
from harness.limits import Outcome, at_most, exactly
from harness.platform import Link, P2p
from harness.procedures.p2p import (
    STAGED,
    judge_budget,
    judge_contention,
    judge_integrity,
    judge_link,
    judge_path,
    judge_watchdog,
    path_of,
)
from harness.procedures.p2p_loopback import judge_loopback
from harness.procedures.p2p_missing import missing_from
from harness.procedures.places import Place

RULES = P2p()
NO_BAD = exactly(0, "B")
GEN3 = Link(generation=exactly(3), width=exactly(16))
RATE = at_most(8, "/min")


class Judged:
    """A report, and what the judges say of it; GPUs are called after their number, uplinks after their switch."""

    def __init__(self, report, per_switch):
        self.report = report
        self.places = {gpu.index: Place(f"gpu{gpu.index}", f"switch{gpu.index // per_switch}") for gpu in report.gpus}

    def pair(self, source, target):
        return next(pair for pair in self.report.pairs if (pair.source, pair.target) == (source, target))

    def every(self):
        """The findings by check and GPU or uplink."""
        found = {("preflight", ""): judge_budget(self.report, self.places, RULES.peers)}
        for index in self.places:
            found["watchdog", index] = judge_watchdog(self.report, self.places, index)
            found["loopback", index] = judge_loopback(self.report, self.places, index, NO_BAD)
            found["integrity", index] = judge_integrity(self.report, self.places, index, NO_BAD)
            found["path", index] = judge_path(self.report, self.places, index, RULES)
            found["link", index] = judge_link(self.report, self.places, index, GEN3, RATE)
        for uplink in {place.uplink for place in self.places.values()}:
            found["contention", uplink] = judge_contention(self.report, self.places, uplink, RULES.contention_ratio)
        return found

    def failed(self):
        """The checks and parts that fail, with their explanations."""
        return {
            key: finding.explanation
            for key, finding in self.every().items()
            if any(taken.outcome is Outcome.FAIL for taken in finding.measurements)
        }


@pytest.fixture
def judged(machine):
    def run(shape, faults="", *more):
        made = machine(shape, faults)
        return Judged(run_p2p(made.host(*made.options(), *more), loops=2), made.per_switch)

    return run


def every(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def cells(lines):
    return {(line["from"], line["to"]): line for line in every(lines, "pair")}


def test_a_healthy_machine_fails_nothing_and_leaves_nothing_unmeasured(judged):
    found = judged("2x3")
    assert found.failed() == {}
    assert not [finding.unmeasured for finding in found.every().values() if finding.unmeasured]
    assert len(found.report.tried) == 30
    assert not any(missing_from(found.report, found.places, index) for index in found.places)
    assert {pair.checked for pair in found.report.tried} == {2 * (4 + 4096 + 65532 + 65540 + (1 << 18))}
    assert {link.samples > 0 for link in found.report.links} == {True}
    assert {(gpu.group, gpu.iommu) for gpu in found.report.gpus} == {("0000:10:00.0", "none"), ("0000:16:00.0", "none")}


def test_gpus_are_numbered_by_their_place_on_the_bus(machine):
    made = machine("2x2")
    assert [line["address"] for line in every(made.p2p(), "gpu")] == [made.address(gpu) for gpu in range(4)]


@pytest.mark.slow
def test_more_copies_than_a_queue_holds_are_timed_as_well(machine):
    made = machine("1x2")
    few, many = made.p2p(), made.lines("p2p", "--loops", "250", *made.options())
    assert cells(many)[0, 1]["enabled"] == pytest.approx(cells(few)[0, 1]["enabled"], rel=0.02)


@pytest.mark.slow
def test_the_ninth_peer_is_never_asked_for(judged):
    found = judged("1x12")
    assert {(gpu.peers, gpu.stopped) for gpu in found.report.gpus} == {(8, 0)}
    assert found.failed() == {}
    assert found.report.steps == 11


def test_wrong_bytes_are_caught_by_integrity_with_their_class_and_the_memories_acquitted(judged):
    faults = {
        (0, 4): ("dropped:0>4", Damage.DROPPED, "the writes were dropped"),
        (1, 5): ("zeros:1>5", Damage.ZERO, "zeros arrived"),
        (2, 3): ("ones:2>3", Damage.ALL_ONES, "a device fell off the bus"),
        (3, 1): ("flip:3>1", Damage.SINGLE_BIT, "single bits flipped"),
        (4, 2): ("shifted:4>2", Damage.SHIFTED, "in the wrong place"),
        (5, 0): ("misrouted:5>0>2", Damage.MISROUTED, "the data of another GPU arrived (gpu2)"),
    }
    found = judged("2x3", " ".join(fault for fault, _, _ in faults.values()))
    failed = found.failed()
    assert list(failed) == [("integrity", source) for source, _ in faults]
    for (source, target), (_, damage, says) in faults.items():
        text = failed["integrity", source]
        assert text.startswith(f"DATA CORRUPTION gpu{source} -> gpu{target}: do not use")
        assert says in text
        assert "without peer access: clean, so it is the path (IOMMU, ACS, switch), not a memory" in text
        assert "alone: the same" in text
        assert "the other way: clean" in text
        assert "6 corrupt pairs in all, 24 clean: all across the uplinks of switch0 and switch1" in text
        assert found.pair(source, target).wrong.damage is damage


@pytest.mark.slow
def test_only_dropped_writes_are_wrong_when_only_writes_are_dropped(judged):
    wrong = judged("2x3", "dropped:0>4").pair(0, 4)
    assert (wrong.wrong.way, wrong.bad * 2) == ("write", wrong.checked)


@pytest.mark.slow
def test_copies_through_the_host_are_caught_by_path_and_lower_nobody_else(judged):
    found = judged("2x3", "staged:1")
    assert list(found.failed()) == [("path", 1)], found.failed()
    assert "5 staged pairs in all: all from gpu1" in found.failed()["path", 1]
    # gpu1's detour fills the uplink that pairs of the same step use; alone these are as fast as ever
    assert {path_of(pair, RULES) == STAGED for pair in found.report.pairs if pair.source == 1} == {True}
    neighbours = [pair for pair in found.report.pairs if pair.source != 1 and pair.source // 3 != pair.target // 3]
    assert min(pair.best_enabled for pair in neighbours) > 0.98 * max(pair.best_enabled for pair in neighbours)


@pytest.mark.slow
def test_a_slow_link_is_caught_under_load_and_names_the_gpu(judged):
    found = judged("2x3", "slow:4")
    assert list(found.failed()) == [("link", 4)]
    text = found.failed()["link", 4]
    assert text.startswith("gpu4 under load: Gen1 x16")
    assert "10 slow pairs" in text
    assert "all copies from and to gpu4: its link" in text
    assert "under load it must not: look at the card, its riser and cable, the port above it" in text


def test_a_link_that_repeats_packets_under_load_is_named_with_their_rate(judged):
    found = judged("1x3", "replaying:2")
    assert list(found.failed()) == [("link", 2)]
    assert "80 replays in" in found.failed()["link", 2]
    assert "it repeats packets all the time: reseat the card, then its riser and cable" in found.failed()["link", 2]


def test_a_gpu_as_hot_as_where_it_slows_down_is_named_with_both_temperatures(judged):
    found = judged("1x3", "heat:0")
    assert list(found.failed()) == [("link", 0)]
    assert "it reached 95 C and slows down from 88 C on: look at its cooling" in found.failed()["link", 0]


@pytest.mark.slow
def test_power_that_brakes_a_gpu_is_named(judged):
    failed = judged("1x3", "braking:1").failed()
    assert list(failed) == [("link", 1)]
    assert "its clocks were held back: hw_power_brake_slowdown" in failed["link", 1]


def test_a_gpu_that_its_hardware_slows_down_is_named_with_the_reason(judged):
    found = judged("1x3", "hot:1")
    assert list(found.failed()) == [("link", 1)]
    assert re.search(r"its clocks were held back: hw_thermal_slowdown; peak (31|44) C", found.failed()["link", 1])
    assert {entry.samples > 0 for entry in found.report.telemetry} == {True}


def test_a_card_that_tells_no_reasons_is_not_called_healthy_in_that(judged):
    found = judged("1x3", "unsupported:1")
    names = [taken.name for taken in found.every()["link", 1].measurements]
    assert "p2p.hardware-slowdown" not in names
    assert "p2p.hardware-slowdown" in [taken.name for taken in found.every()["link", 0].measurements]


@pytest.mark.slow
def test_a_copy_faster_than_its_link_did_not_happen(judged):
    found = judged("2x3", "impossible:0>5")
    assert list(found.failed()) == [("path", 0)]
    assert "gpu0 -> gpu5" in found.failed()["path", 0]
    assert "it did not happen as timed" in found.failed()["path", 0]


@pytest.mark.slow
def test_a_wedged_copy_costs_two_gpus_and_the_others_go_on(judged):
    found = judged("2x3", "wedged:0>4")
    assert list(found.failed()) == [("watchdog", 0), ("watchdog", 4)]
    text = found.failed()["watchdog", 0]
    assert "gpu0 -> gpu4: the copy did not end in 2 s and was killed" in text
    assert "no driver error names one of the two" in text
    assert "a port on the way lost the packets, or a GPU stopped" in text
    healthy = {1, 2, 3, 5}
    assert all(pair.best_enabled and pair.disabled for pair in found.report.pairs if {pair.source, pair.target} <= healthy)
    assert found.report.wedged[0].reaped


@pytest.mark.slow
def test_a_driver_that_hangs_in_the_middle_of_a_call_is_killed_and_the_others_go_on(judged):
    found = judged("1x4", "deaf:0>1")
    assert list(found.failed()) == [("watchdog", 0), ("watchdog", 1)]
    assert len(found.report.tried) >= 2
    assert found.report.wedged[0].reaped


def with_redirects(made, gpus):
    """Switch ports above these GPUs whose access control redirects requests and completions upwards (0x1d: SV, RR, CR, UF)."""
    config = bytearray(4096)
    struct.pack_into("<IHH", config, 0x100, 0x000D | 1 << 16, 0x5F, 0x1D)
    for gpu in gpus:
        made.tree.write("sys/devices/" + "/".join(made.walk(gpu)[:-1]) + "/config", bytes(config))
    return made


def test_redirecting_switch_ports_are_evidence_beside_staged_copies(machine):
    made = with_redirects(machine("1x3", "staged:1"), [1])
    found = Judged(run_p2p(made.host(*made.options()), loops=2), 3)
    port = made.walk(1)[-2]
    assert [(redirect.address, redirect.controls, redirect.gpus) for redirect in found.report.redirects] == [
        (port, ("RR", "CR"), (1,))
    ]
    assert f"access control on the way: {port} RR/CR" in found.failed()["path", 1]


@pytest.mark.slow
def test_copies_that_are_sent_up_and_down_again_are_caught_by_both_ways_at_once_and_by_nothing_else(machine):
    """One way they are as fast as their uplink, fast enough for every other check."""
    made = with_redirects(machine("2x3", "redirected:0"), range(3))
    found = Judged(run_p2p(made.host(*made.options()), loops=2), 3)
    failed = found.failed()
    assert list(failed) == [("path", 0), ("path", 1)]
    text = failed["path", 0]
    pair = found.pair(0, 1)
    assert pair.both < 1.1 * pair.best_enabled
    assert f"gpu0 -> gpu1: {pair.both:g} GB/s both ways at once, {pair.best_enabled:g} and" in text
    assert "both directions go over one and the same line; access control on the way" in text
    assert f"{made.walk(0)[-2]} RR/CR, {made.walk(1)[-2]} RR/CR" in text


def test_copies_that_redirecting_ports_make_share_an_uplink_are_done_one_after_the_other(machine):
    made = with_redirects(machine("1x4", "redirected:0"), range(4))
    lines = made.p2p()
    assert every(lines, "schedule")[0]["steps"] == 12
    assert all("alone" not in cell for cell in cells(lines).values())


@pytest.mark.slow
def test_where_access_control_cannot_be_read_a_control_shows_that_company_lowers_copies(machine):
    """All of one kind are lowered alike, so none of them looks odd among its like: one of them alone tells."""
    together, alone = machine("1x4", "redirected:0").p2p(), machine("1x4", "redirected:0").p2p("--serial")
    for copy, cell in cells(together).items():
        assert cell["alone"]["enabled"] == pytest.approx(cells(alone)[copy]["enabled"], rel=0.02)


def test_a_flipped_bit_within_a_gpu_is_caught_by_loopback_and_names_the_gpu(judged):
    found = judged("1x3", "flip:1>1")
    assert list(found.failed()) == [("loopback", 1)]
    text = found.failed()["loopback", 1]
    assert text.startswith("DATA CORRUPTION within gpu1: do not use")
    assert "class single bit" in text
    assert "it is this GPU: its memory or its copy engine" in text


@pytest.mark.slow
def test_a_copy_within_a_gpu_that_hangs_costs_that_gpu_only(judged):
    found = judged("1x3", "wedged:1>1")
    assert list(found.failed()) == [("watchdog", 1)]
    assert "a copy within gpu1 did not end in 2 s and was killed" in found.failed()["watchdog", 1]
    assert {(pair.source, pair.target) for pair in found.report.tried} == {(0, 2), (2, 0)}


def test_one_gpu_alone_has_its_loopback_and_no_peer_to_peer_copy(judged):
    found = judged("1x1")
    (loop,) = found.report.loopbacks
    assert (loop.checked, loop.bad) == (4 + 4096 + 65532 + 65540 + (1 << 18), 0)
    assert loop.rate > 5 * 12.6  # far above any link of this machine
    assert (found.report.pairs, found.report.shifts) == ((), ())
    names = [taken.name for taken in found.every()["loopback", 0].measurements]
    assert names == ["p2p.loopback-bad-bytes", "p2p.loopback"]
    assert found.failed() == {}


def test_both_ways_at_once_give_twice_the_rate_of_one(judged):
    report = judged("2x2").report
    for pair in report.pairs:
        assert pair.both == pytest.approx(2 * pair.enabled, rel=0.02), (pair.source, pair.target)


@pytest.mark.slow
def test_shifts_show_how_much_leaves_each_switch(judged):
    shifts = judged("2x3").report.shifts
    crossing = [(shift.by, shift.copies) for shift in shifts if shift.group == "0000:10:00.0"]
    assert crossing == [(1, 1), (2, 2), (3, 3), (4, 2), (5, 1)]
    alone, together = ([shift.write for shift in shifts if (shift.copies > 1) == many] for many in (False, True))
    assert 9 < max(alone) < min(together) < 11.7  # one copy across fills no uplink, two and three do
    assert all(shift.read == pytest.approx(shift.write, rel=0.02) for shift in shifts)


@pytest.mark.parametrize("life", ["pair", *(pytest.param(life, marks=pytest.mark.slow) for life in ("round", "gpu"))])
def test_contexts_may_live_for_a_pair_a_round_or_the_run_with_the_same_result(machine, life):
    lines = machine("1x3").p2p("--contexts", life)
    assert every(lines, "contexts")[0]["life"] == life
    assert set(every(lines, "contexts")[0]["estimates"]) == {"pair", "round", "gpu"}
    assert {cell["bad"] for cell in cells(lines).values()} == {0}
    assert len(cells(lines)) == 6


@pytest.mark.slow
def test_a_gpu_that_falls_off_the_bus_is_named_by_its_xid(judged):
    found = judged("2x3", "fallen:4")
    assert list(found.failed()) == [("watchdog", 4)]
    assert "Xid 79 on gpu4" in found.failed()["watchdog", 4]
    assert "look at its power, its seat, its riser and cable" in found.failed()["watchdog", 4]
    assert found.report.wedged[0].culprit == 4
    assert len(found.report.tried) == 20


def test_an_xid_of_a_gpu_that_goes_on_is_told_as_it_comes_and_fails_that_gpu(judged, machine):
    kinds = [line["kind"] for line in machine("1x3", "reported:1").p2p()]
    assert kinds.index("xid") < kinds.index("pair")
    found = judged("1x3", "reported:1")
    assert list(found.failed()) == [("watchdog", 1)]
    assert "Xid 63 on gpu1\nthe driver says so of this GPU: see NVIDIA's list of Xids" in found.failed()["watchdog", 1]
    assert len(found.report.tried) == 6


@pytest.mark.slow
def test_a_gpu_that_cuda_cannot_open_is_lost_and_no_crash(judged):
    found = judged("2x3", "lost:2")
    assert list(found.failed()) == [("watchdog", 2)]
    assert "CUDA cannot open GPU 2: CUDA_ERROR_UNKNOWN (999)" in found.failed()["watchdog", 2]
    assert len(found.report.tried) == 20


@pytest.mark.slow
def test_a_foreign_process_that_holds_peers_is_the_benchs_and_is_named(judged):
    found = judged("1x9", "held:3>5")
    finding = found.every()["preflight", ""]
    assert "gpu3: 3 of 8 peers can be enabled (error 711); held by Xorg (pid 2117)" in finding.bench
    assert found.failed() == {}
    assert len(found.report.tried) == 72


@pytest.mark.slow
def test_writes_that_collapse_when_several_gpus_write_are_caught_by_contention_only(judged):
    found = judged("2x4", "collapse:1")
    assert list(found.failed()) == [("contention", "switch1")]
    assert "writes collapse under contention" in found.failed()["contention", "switch1"]
    assert "reads stay healthy" in found.failed()["contention", "switch1"]
    assert "every GPU to the k-th next at once, written/read GB/s over the uplink: +1 " in found.failed()["contention", "switch1"]


@pytest.mark.slow
def test_a_pair_that_the_driver_rules_out_is_told_by_path(judged):
    found = judged("2x3", "cannot:0>1 cannot:1>0")
    assert list(found.failed()) == [("path", 0), ("path", 1)]
    assert "gpu0 -> gpu1: the driver says that peer access is not possible" in found.failed()["path", 0]


def translating(made, kind):
    for gpu in range(made.count):
        made.tree.link(f"sys/bus/pci/devices/{made.address(gpu)}/iommu_group", f"../../../kernel/iommu_groups/{gpu}")
        made.tree.write(f"sys/kernel/iommu_groups/{gpu}/type", f"{kind}\n")


def test_nothing_is_copied_under_a_translating_iommu_unless_forced(machine):
    made = machine("1x2", "dropped:0>1")
    translating(made, "DMA-FQ")
    lines = made.p2p()
    assert [line["kind"] for line in lines] == ["hello", "gpu", "gpu", "refused"]
    assert "the IOMMU translates for 2 of 2 GPUs (DMA-FQ)" in lines[-1]["why"]
    assert cells(made.p2p("--force"))[0, 1]["wrong"]["class"] == "dropped"


def test_an_identity_domain_is_no_obstacle(machine):
    made = machine("1x2")
    translating(made, "identity")
    assert every(made.p2p(), "refused") == []


@pytest.mark.parametrize("shape", ["2x3", pytest.param("1x5", marks=pytest.mark.slow)])
def test_the_schedule_lowers_no_cell_and_changes_no_verdict(machine, shape):
    made = machine(shape, "slow:1 dropped:0>2")
    together, alone = made.p2p(), made.p2p("--serial")
    assert every(alone, "schedule")[0]["steps"] == len(cells(alone))
    assert every(together, "schedule")[0]["steps"] < len(cells(together))
    for copy, line in cells(alone).items():
        other = cells(together)[copy]
        for name in ("enabled", "pulled", "disabled", "both", "write_us", "read_us"):
            assert other[name] == pytest.approx(line[name], rel=0.02), (copy, name)
        assert (other["bad"], other["checked"]) == (line["bad"], line["checked"])


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "steps"), [("1x20", 19), ("2x10", 100), ("4x5", 75), ("5x4", 64)])
def test_twenty_gpus_have_the_same_cells_as_one_pair_at_a_time(machine, shape, steps):
    made = machine(shape)
    together, alone = made.p2p(size=1 << 18), made.p2p("--serial", size=1 << 18)
    assert (every(together, "schedule")[0]["steps"], every(alone, "schedule")[0]["steps"]) == (steps, 380)
    for copy, line in cells(alone).items():
        for name in ("enabled", "pulled", "both"):
            assert cells(together)[copy][name] == pytest.approx(line[name], rel=0.02), (copy, name)
        assert cells(together)[copy]["bad"] == line["bad"] == 0


def test_copies_that_share_an_uplink_would_be_lowered(machine):
    """What the schedule avoids is really there: the crowd stage shares one uplink on purpose."""
    crowd = every(machine("2x3").p2p(), "contention")[0]
    assert crowd["write_together"] < 0.5 * len(crowd["gpus"]) * crowd["write_alone"]


def test_progress_comes_while_it_works(machine):
    seen = []
    made = machine("1x3")
    run_p2p(made.host(*made.options()), loops=2, on_line=lambda line, at: seen.append(line))
    stages = [line.split('"stage":"')[1].split('"')[0] for line in seen if '"progress"' in line]
    assert stages == ["baseline"] * 2 + ["pairs"] * 2 + ["both ways"] * 3


def test_without_a_driver_the_bench_is_told_what_to_install(machine, tmp_path):
    made = machine("1x2")
    made.environment["LD_LIBRARY_PATH"] = str(tmp_path)
    with pytest.raises(BenchError, match=r"CUDA driver: libcuda.so.1 cannot be loaded.*host.python"):
        run_p2p(made.host(*made.options()))


def test_without_the_bindings_the_bench_is_told_what_to_install(machine):
    made = machine("1x2")
    (made.tree.root / "cuda.py").write_text("")
    made.environment["PYTHONPATH"] = f"{made.tree.root}{os.pathsep}{made.environment['PYTHONPATH']}"
    error = made.lines("p2p")[-1]
    assert (error["kind"], error["what"]) == ("error", "cuda-bindings")
    assert "pip install cuda-bindings" in error["do"]


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
)
def test_an_interrupt_leaves_no_process_behind(machine, number):
    made = machine("1x2", "wedged:0>1")
    argv = [sys.executable, "-m", "harness.agent", "p2p", "--loops", "2", *made.options(patience=60)]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, env=made.environment, start_new_session=True, **quiet) as worker:
        for line in worker.stdout:
            if b'"schedule"' in line:
                break
        assert group_lives(worker.pid)
        worker.send_signal(number)
        worker.stdout.read()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and group_lives(worker.pid):
        time.sleep(0.05)
    assert not group_lives(worker.pid)


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_contention_of_a_single_switch_is_not_tried(judged):
    finding = judged("1x3").every()["contention", "switch0"]
    assert {taken.outcome for taken in finding.measurements} == {Outcome.NOT_MEASURED}
