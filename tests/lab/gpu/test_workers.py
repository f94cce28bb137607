import json
from itertools import pairwise

import pytest

from harness.devices.gpu import Level, PeerStatus, share_of_reasons, watch_gpus
from harness.devices.p2p import run_p2p
from harness.errors import UsageMistake
from harness.lab.faults.gpu import FAULTS
from harness.lab.model.driver import kernel_lines
from harness.lab.model.parts import GPUS, View
from harness.lab.model.workers import answer

WORKERS = ("nvml", "telemetry", "p2p", "resnet50")


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("fault", ["", *(fault.id for fault in FAULTS)])
def test_a_worker_speaks_in_order_of_time_counts_its_lines_and_says_the_same_twice(box, worker, fault):
    view = box(*filter(None, [fault])).view
    lines = list(answer(worker, [], view))
    assert all(before <= after for (before, _), (after, _) in pairwise(lines))
    objects = [json.loads(line) for _, line in lines]
    assert objects[0]["kind"] == "hello"
    assert (objects[0]["worker"], objects[0]["schema"]) == (worker, 1)
    assert objects[-1] == {"kind": "end", "lines": len(lines) - 1}
    assert lines == list(answer(worker, [], view))


def test_lines_are_compact(box):
    assert all(": " not in line.replace("PCI:", "") for _, line in answer("nvml", [], box().view))


def test_an_unknown_worker_is_refused_and_the_known_ones_are_named(box):
    with pytest.raises(UsageMistake, match="no worker 'cuda'; it has nvml, telemetry, p2p, resnet50"):
        answer("cuda", [], box().view)


def test_twenty_gpus_are_joined_to_their_slots_by_address(box):
    machine = box()
    gpus = machine.gpus()
    assert {name: gpu.serial for name, gpu in gpus.items()} == {gpu.slot: gpu.serial for gpu in GPUS}
    assert [gpu.index for gpu in gpus.values()] == list(range(20))
    assert {(gpu.device, gpu.subsystem) for gpu in gpus.values()} == {
        (machine.snapshot.at(gpu.path).id, machine.snapshot.at(gpu.path).subsystem) for gpu in GPUS
    }
    assert {machine.snapshot.at(gpu.path).bar(1).size for gpu in GPUS} == {gpu.bar1 for gpu in gpus.values()}


def test_gpus_are_joined_when_all_bus_numbers_have_moved(box):
    before, after = box().gpus(), box("benign.bdfs-moved").gpus()
    assert {name: gpu.uuid for name, gpu in before.items()} == {name: gpu.uuid for name, gpu in after.items()}
    assert all(gpu.address != before[name].address for name, gpu in after.items())


@pytest.mark.parametrize("fault", ["pcie.chain-link", "pcie.buses", "pcie.uplink", "pcie.aperture", "pcie.enumerated.fallen"])
def test_a_gpu_that_the_tree_lost_is_seen_by_no_worker(box, fault):
    machine = box(fault)
    gpus = machine.gpus()
    assert len(gpus) < 20
    assert {gpu.uuid for gpu in machine.p2p().gpus} == {gpu.uuid for gpu in gpus.values()}
    assert {gpu.uuid for gpu in machine.training().gpus} == {gpu.uuid for gpu in gpus.values()}
    count = len(gpus)
    assert len(machine.p2p().pairs) == count * (count - 1)


def test_without_a_64_bit_window_there_is_no_gpu_for_the_driver(box):
    machine = box(bios={"MmioAbove4Gb": "Disabled"})
    assert machine.inventory.error.startswith("NVML: Driver Not Loaded")
    assert machine.gpus() == {}


def test_all_ordered_pairs_are_copied_once(box):
    report = box().p2p()
    pairs = {(pair.source, pair.target) for pair in report.pairs}
    assert len(report.pairs) == len(pairs) == 380
    assert all(pair.checked and pair.bad == 0 for pair in report.pairs)


def test_copies_take_minutes_and_show_their_progress(box):
    machine = box()
    seen = []
    run_p2p(machine.host, on_line=lambda line, at: seen.append((json.loads(line)["kind"], at)))
    progress = [at for kind, at in seen if kind == "progress"]
    assert len(progress) > 100
    assert 60 < machine.clock.now() < 900
    assert progress == sorted(progress)


def test_fewer_loops_take_less_time(box):
    long, short = (list(answer("p2p", ["--loops", loops], box().view))[-1][0] for loops in ("25", "3"))
    assert short < long / 4


def test_like_parts_differ_a_little(box):
    report = box().training()
    rates = {solo.rate for solo in report.solos}
    assert len(rates) > 10
    assert max(rates) / min(rates) < 1.02


def test_the_driver_allows_every_pair_and_tells_switches_from_sockets(box):
    peers = box().inventory.peers
    assert len(peers) == 380
    assert {(peering.read, peering.write) for peering in peers.values()} == {(PeerStatus.OK, PeerStatus.OK)}
    assert (peers[0, 1].level, peers[0, 10].level) == (Level.PIX, Level.SYS)


def test_gpus_at_rest_idle(box):
    samples = watch_gpus(box().host, seconds=2, every=0.5)
    assert len(samples) == 80
    assert set(map(str, share_of_reasons(samples).values())) == {"{'gpu_idle': 1.0}"}


def test_a_translating_iommu_refuses_and_force_shows_why(box):
    machine = box("pcie.iommu")
    report = machine.p2p()
    assert "the IOMMU translates for 20 of 20 GPUs" in report.refused
    assert report.pairs == ()
    assert {gpu.iommu for gpu in report.gpus} == {"DMA-FQ"}
    forced = run_p2p(machine.host, force=True)
    assert forced.refused == ""
    assert all(pair.bad for pair in forced.pairs)


def test_an_identity_domain_is_no_reason_to_refuse(box):
    report = box("benign.iommu-identity").p2p()
    assert report.refused == ""
    assert {gpu.iommu for gpu in report.gpus} == {"identity"}


def test_the_kernel_log_has_the_line_that_the_check_quotes(box):
    machine = box("gpu.nvml-count")
    address = machine.snapshot.at(machine.platform.slot("jbogB/slot07").path).bdf
    (line, *_) = machine.inventory.said_of(address)
    assert "RmInitAdapter failed!" in line


def test_kernel_lines_of_a_machine_without_gpus_name_none():
    view = View(frozenset({"gpu.nvml-count"}), 1, {}, 0.0)
    assert all("RmInitAdapter" not in line for _, line in kernel_lines(view, {}))
