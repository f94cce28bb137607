"""The real workers on the modelled machine: the driver libraries know its GPUs, and the bundled tape was recorded so."""

import json

import pytest

from harness.clock import VirtualClock
from harness.devices.gpu import join, read_inventory
from harness.devices.host import Host
from harness.devices.p2p import run_p2p
from harness.devices.pcie import read_snapshot
from harness.errors import UsageMistake
from harness.lab.model.lanes import open_model
from harness.lab.model.parts import GPUS
from harness.limits import Outcome
from harness.locator import find_platform, find_tape
from harness.plugin.prepare import prepare
from harness.plugin.settings import Settings
from harness.procedures.p2p import judge_integrity, judge_path, judge_watchdog
from harness.procedures.places import find_places, index_of
from harness.tape.format import Tape

SLOTS = ("jbogA/slot02", "jbogA/slot07", "jbogB/slot01", "jbogB/slot10")
ONLY_FAULTS_HAVE = {"alone", "error", "error_code", "untried", "wrong"}


@pytest.fixture
def modelled(fake_libraries):
    """The modelled machine's host with four GPUs, its workers real."""
    clock = VirtualClock()
    lanes = open_model(clock, populated=frozenset(SLOTS), delivered=False, libraries=fake_libraries)
    return Host(lanes.host, clock)


def test_the_real_workers_see_the_modelled_gpus_in_their_slots(modelled):
    platform, _ = find_platform("lqd8360")
    inventory = read_inventory(modelled, watch=0.1)
    gpus = join(inventory, read_snapshot(modelled), platform.slots)
    assert {name: gpu.serial for name, gpu in gpus.items()} == {gpu.slot: gpu.serial for gpu in GPUS if gpu.slot in SLOTS}
    assert (inventory.driver, inventory.cuda) == ("535.183.01", "12.2")
    report = run_p2p(modelled, loops=2)
    places = find_places(report.gpus, gpus, platform.slots)
    assert {place.slot for place in places.values()} == set(SLOTS)
    assert len(report.tried) == 12
    for slot in SLOTS:
        index = index_of(places, slot)
        for finding in (
            judge_watchdog(report, places, index),
            judge_integrity(report, places, index, platform.p2p.bad_bytes),
            judge_path(report, places, index, platform.p2p),
        ):
            assert {taken.outcome for taken in finding.measurements} == {Outcome.PASS}


def test_a_machine_with_real_workers_has_no_modelled_faults(fake_libraries, tmp_path):
    with pytest.raises(UsageMistake, match=r"real workers answer for a machine without faults: leave gpu\.ecc out"):
        open_model(VirtualClock(), frozenset({"gpu.ecc"}), libraries=fake_libraries)
    with pytest.raises(UsageMistake, match=r"has no libcuda\.so\.1: build both with `python tests/fakes/build\.py FOLDER`"):
        open_model(VirtualClock(), libraries=tmp_path)


@pytest.mark.parametrize(("bench", "mode"), [("model-lqd8360", "replay"), ("virtual-r640", "live")])
def test_driver_libraries_are_for_a_live_modelled_machine(tmp_path, bench, mode):
    with pytest.raises(UsageMistake, match="--lab-driver is for a live run of a modelled machine"):
        prepare(Settings(bench=bench, mode=mode, lab_driver=tmp_path))


def tape():
    return Tape.open(find_tape("model-lqd8360", None))


def recorded(track):
    """The objects that a worker printed on the bundled tape."""
    opened = tape()
    (event,) = [event for event in opened.events(f"session/{track}") if event.key.startswith("agent")]
    return [json.loads(line) for line in opened.load(event.reply.stdout).splitlines()]


def shape(lines):
    """The fields of each kind of line, without those that only a fault brings."""
    found = {}
    for line in lines:
        found.setdefault(line["kind"], set()).update(line)
    return {kind: names - ONLY_FAULTS_HAVE for kind, names in found.items()}


@pytest.mark.parametrize(("track", "worker"), [("gpus", ("nvml", "--watch", "0")), ("p2p", ("p2p", "--loops", "2"))])
def test_the_tapes_lines_are_those_that_the_real_worker_prints(machine, track, worker):
    made = machine("2x3")
    _, lines, _ = made.run(*worker, *(made.options() if track == "p2p" else ()))
    assert shape(recorded(track)) == shape(lines)


def test_the_tape_says_which_worker_was_real_and_which_was_modelled():
    facts = tape().info.facts
    for worker in ("nvml", "telemetry", "p2p"):
        assert facts[f"agent {worker}"].startswith("the real worker with nvidia-ml-py ")
        assert facts[f"agent {worker}"].endswith(", on driver libraries without hardware")
    assert facts["agent resnet50"] == "modelled: no worker ran"
    assert facts["source"] == "model"
