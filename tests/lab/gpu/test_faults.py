"""Each fault on the modelled workers is caught by the judging functions, which name the right part; nothing else is odd."""

import re

import pytest

from harness.devices.fabric import FabricPart
from harness.errors import Blame
from harness.lab.faults.gpu import FAULTS
from harness.lab.model.driver import PROGRAMMED, REPORTED
from harness.lab.model.parts import GPUS, SLOTS
from harness.lab.model.victims import unpopulated, victims
from harness.limits import Outcome
from harness.procedures import gpu as judge
from harness.procedures import p2p as copies
from harness.procedures import resnet50 as training
from harness.procedures.gpu import fellows_of, model_of
from harness.procedures.gpu_xids import judge_xids
from harness.procedures.p2p_loopback import judge_loopback
from harness.procedures.places import index_of
from harness.procedures.resnet50_watch import judge_watched
from harness.procedures.views import differences, views


def failing(finding):
    return any(taken.outcome is Outcome.FAIL for taken in finding.measurements) or bool(finding.bench)


def judged(machine):
    """Every judgement of the three stages that can be made, by (check, place)."""
    platform, inventory, snapshot = machine.platform, machine.inventory, machine.snapshot
    gpus = machine.gpus()
    found = {}
    for slot in platform.slots:
        function = snapshot.at(slot.path)
        found["gpu.driver-bound", slot.name] = judge.judge_binding(slot.name, function.bdf, function.driver, inventory)
        found["gpu.nvml-count", slot.name] = judge.judge_counted(slot.name, function.bdf, gpus.get(slot.name), inventory)
        if slot.name in gpus:
            gpu, fellows = gpus[slot.name], fellows_of(slot, platform.slots, gpus)
            found["gpu.memory", slot.name] = judge.judge_memory(slot, gpu, fellows, platform)
            found["gpu.ecc", slot.name] = judge.judge_ecc(slot.name, gpu, platform.gpu)
            found["gpu.replay-rate", slot.name] = judge.judge_replays(slot.name, gpu, platform.gpu)
            found["gpu.alike", slot.name] = judge.judge_alike(slot.name, gpu, fellows)
    if inventory.error:
        return found
    report, trained = machine.p2p(), machine.training()
    places, ranks = machine.places(report), machine.places(trained)
    found["gpu.unexpected", ""] = judge.judge_unexpected(inventory, snapshot, platform, platform.slots)
    found["p2p.preflight", ""] = copies.judge_budget(report, places, platform.p2p.peers)
    for uplink in platform.uplinks:
        found["p2p.contention", uplink.name] = copies.judge_contention(report, places, uplink.name, platform.p2p.contention_ratio)
    for slot in platform.slots:
        index = index_of(places, slot.name)
        if index is not None:
            link = model_of(gpus[slot.name], platform.models_for(slot)).link
            found["p2p.watchdog", slot.name] = copies.judge_watchdog(report, places, index)
            found["p2p.loopback", slot.name] = judge_loopback(report, places, index, platform.p2p.bad_bytes)
            found["p2p.integrity", slot.name] = copies.judge_integrity(report, places, index, platform.p2p.bad_bytes)
            found["p2p.path", slot.name] = copies.judge_path(report, places, index, platform.p2p)
            found["p2p.link-under-load", slot.name] = copies.judge_link(report, places, index, link, platform.gpu.replay_rate)
        index = index_of(ranks, slot.name)
        if index is not None:
            found["resnet50.hash", slot.name] = training.judge_hash(trained, ranks, index)
            link, rate = model_of(gpus[slot.name], platform.models_for(slot)).link, platform.gpu.replay_rate
            found["resnet50.watched", slot.name] = judge_watched(trained, ranks, index, link, rate)
            found["resnet50.straggler", slot.name] = training.judge_straggler(trained, ranks, index, platform.resnet50.solo)
    found["resnet50.nan", ""] = training.judge_finite(trained, ranks)
    found["resnet50.ranks", ""] = training.judge_ranks(trained, ranks)
    found["resnet50.spread", ""] = training.judge_spread(trained, platform.resnet50.spread)
    found["resnet50.efficiency", ""] = training.judge_efficiency(trained, platform.resnet50.efficiency)
    found["resnet50.floor", ""] = training.judge_floor(trained, ranks, platform.resnet50.floors, len(gpus))
    return found


CULPRITS = {
    "gpu.nvml-count": ("jbogB/slot07", "RmInitAdapter failed!"),
    "gpu.unexpected": ("", "(serial 9990000000021) at pci0000:3a/00.0/00.0/00.0/00.0/0b.0/00.0, no slot of the platform"),
    "gpu.memory": ("jbogB/slot09", "19 of 20 GPUs with ECC on have 45556 MiB"),
    "gpu.ecc": ("jbogA/slot06", "1 uncorrected"),
    "gpu.replay-rate": ("jbogB/slot01", "40 after 30 s"),
    "gpu.alike": ("jbogA/slot09", "VBIOS"),
    "p2p.preflight": ("", "jbogA/slot01: 3 of 8 peers can be enabled (error 711); held by Xorg (pid 2117)"),
    "p2p.watchdog": ("jbogB/slot03", "361 pairs went on, 19 were not tried"),
    "p2p.integrity.dropped": ("jbogA/slot04", "jbogA/slot04 -> jbogB/slot06: do not use"),
    "p2p.integrity.misrouted": ("jbogB/slot02", "(jbogB/slot08); class misrouted"),
    "p2p.path.staged": ("jbogA/slot03", "all from jbogA/slot03: its sending side (19 of 19 targets)"),
    "p2p.path.impossible": ("jbogB/slot04", "jbogB/slot04 -> jbogB/slot10: 103.88 GB/s over pcie"),
    "p2p.path.one-line": ("jbogA/slot05", "both directions go over one and the same line"),
    "p2p.loopback": ("jbogA/slot06", "its memory or its copy engine"),
    "p2p.link-under-load.hot": ("jbogB/slot02", "it reached 95 C and slows down from 88 C on"),
    "p2p.link-under-load": ("jbogA/slot08", "all copies from and to jbogA/slot08: its link"),
    "p2p.contention": ("jbogB", "writes collapse under contention"),
    "resnet50.hash": ("jbogB/slot04", "19 of 20 GPUs"),
    "resnet50.straggler": ("jbogA/slot07", "hw_thermal_slowdown 71%"),
    "resnet50.watched.power": ("jbogA/slot04", "its clocks were held back: hw_power_brake_slowdown; peak"),
    "resnet50.watched.xid": ("jbogB/slot06", "Xid 92 on jbogB/slot06: see NVIDIA's list of Xids"),
    "resnet50.nan": ("", "first on jbogB/slot08 at step 41"),
    "resnet50.ranks": ("", "jbogA/slot10"),
    "resnet50.spread": ("", "the rate is not steady"),
    "resnet50.efficiency": ("", "0 P2P, 20 SHM"),
    "resnet50.floor": ("", "the software path, not a part"),
}


def test_the_healthy_machine_passes_everything_and_misses_nothing(box):
    found = judged(box())
    assert len(found) == 20 * 14 + 2 + 7
    assert [key for key, finding in found.items() if failing(finding) or finding.explanation or finding.unmeasured] == []
    outcomes = {taken.outcome for finding in found.values() for taken in finding.measurements}
    assert outcomes == {Outcome.PASS, Outcome.RECORDED}


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.id in CULPRITS], ids=lambda fault: fault.id)
def test_a_fault_fails_its_check_for_the_right_part_and_no_other_but_its_consequences(box, fault):
    found = judged(box(fault.id))
    place, said = CULPRITS[fault.id]
    failed = {key for key, finding in found.items() if failing(finding)}
    assert (fault.caught_by, place) in failed
    assert {where for check, where in failed if check == fault.caught_by} == {place}
    assert {check for check, _ in failed} == {fault.caught_by, *fault.consequences}
    finding = found[fault.caught_by, place]
    assert said in (finding.explanation or finding.bench)
    assert bool(finding.bench) == (fault.blame is Blame.BENCH)


@pytest.mark.parametrize("fault", ["gpu.driver-bound.nouveau", "gpu.driver-bound.signature"])
def test_a_driver_that_holds_no_gpu_fails_all_slots_and_nvml(box, fault):
    machine = box(fault)
    found = judged(machine)
    failed = [place for (check, place), finding in found.items() if check == "gpu.driver-bound" and failing(finding)]
    assert len(failed) == 20
    assert machine.inventory.error != ""
    said = {"nouveau": "blacklist nouveau", "signature": "Secure Boot"}[fault.rsplit(".", 1)[1]]
    assert said in found["gpu.driver-bound", "jbogA/slot01"].explanation


def test_a_library_of_another_version_is_nvmls_own_error(box):
    assert "Driver/library version mismatch; reboot" in box("gpu.nvml").inventory.error


@pytest.mark.parametrize("fault", [fault.id for fault in FAULTS if fault.is_benign])
def test_what_only_looks_like_a_fault_fails_and_misses_nothing(box, fault):
    found = judged(box(fault))
    assert [key for key, finding in found.items() if failing(finding) or finding.explanation or finding.unmeasured] == []
    assert {taken.outcome for finding in found.values() for taken in finding.measurements} == {Outcome.PASS, Outcome.RECORDED}


def test_benign_faults_do_show(box):
    assert {gpu.stopped for gpu in box("benign.ninth-peer").p2p().gpus} == {711}
    assert box("benign.old-replays").gpus()["jbogA/slot05"].replays.first == 150
    assert box("benign.nvml-not-supported").gpus()["jbogA/slot01"].why_unread("power") == "Not Supported"
    assert sum(pair.link == "nvlink" and pair.enabled > 15.75 for pair in box("benign.nvlink-pair").p2p().pairs) == 2


POPULATED = frozenset({"jbogA/slot01", "jbogA/slot03", "jbogB/slot02"})


def test_a_machine_with_some_gpus_has_exactly_those_everywhere(box):
    machine = box(populated=POPULATED)
    assert {slot.name for slot in machine.platform.slots if machine.snapshot.at(slot.path) is not None} == POPULATED
    assert set(machine.gpus()) == POPULATED
    assert machine.inventory.count == 3
    report, trained = machine.p2p(), machine.training()
    assert {place.slot for place in machine.places(report).values()} == POPULATED
    assert {place.slot for place in machine.places(trained).values()} == POPULATED
    platform = machine.platform
    floor = training.judge_floor(trained, machine.places(trained), platform.resnet50.floors, len(machine.gpus()))
    assert {taken.outcome for taken in floor.measurements} <= {Outcome.PASS, Outcome.RECORDED}
    assert not floor.explanation


def test_an_empty_slot_is_an_empty_port(box):
    machine = box(populated=POPULATED)
    port = machine.snapshot.by_path[machine.platform.slot("jbogA/slot02").path.rsplit("/", 1)[0]]
    assert not port.config.express.slot.presence


def test_a_gpu_in_a_slot_that_the_bench_calls_empty_is_named(box):
    machine = box(populated=POPULATED)
    expected = machine.platform.populated(("jbogA/slot01", "jbogB/slot02"))
    finding = judge.judge_unexpected(machine.inventory, machine.snapshot, machine.platform, expected)
    assert failing(finding)
    assert "in jbogA/slot03, which the bench calls empty" in finding.explanation


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.caught_by and fault.id in CULPRITS], ids=lambda fault: fault.id
)
def test_a_fault_that_names_slots_needs_them(fault):
    needed = victims(fault.id)
    assert set(re.findall(r"jbog[AB]/slot\d\d", fault.does)) <= set(needed)
    assert set(unpopulated(fault.id, frozenset())) == set(needed)
    assert unpopulated(fault.id, SLOTS) == ()


def test_every_fault_but_those_of_the_driver_has_a_culprit():
    without = {fault.id for fault in FAULTS if not fault.is_benign} - CULPRITS.keys()
    assert without == {"gpu.driver-bound.nouveau", "gpu.driver-bound.signature", "gpu.nvml", "gpu.four-view", "gpu.xids"}


def test_what_the_driver_reported_of_one_gpu_fails_that_one_alone(box):
    machine = box("gpu.xids", "benign.xid-of-a-program")
    found = {slot: judge_xids(slot, gpu, machine.inventory) for slot, gpu in machine.gpus().items()}
    assert [slot for slot, finding in found.items() if finding.explanation] == [REPORTED] == list(victims("gpu.xids"))
    assert "Xid (PCI:" in found[REPORTED].explanation
    assert "a memory error that ECC could not correct" in found[REPORTED].explanation
    assert "Xid 31: a program touched memory" in found[PROGRAMMED].measurements[0].note


def test_a_serial_number_that_only_the_driver_reads_is_told_by_slot_and_no_other_slot_differs(box):
    machine = box("gpu.four-view")
    fabric = [FabricPart(gpu.slot, gpu.serial, "us") for gpu in GPUS]
    seen = views(machine.snapshot, machine.platform.slots, fabric, driver=machine.gpus())
    wrong = [line for view in seen for line in differences(view, fabric, "us")]
    assert [line.split(": fabric")[0] for line in wrong] == ["jbogA/slot08: the driver's view differs"]
    assert victims("gpu.four-view") == ("jbogA/slot08",)
