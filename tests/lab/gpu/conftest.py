from dataclasses import dataclass
from functools import cached_property

import pytest

from harness.clock import VirtualClock
from harness.devices.gpu import Gpu, Inventory, join, read_inventory
from harness.devices.host import Host
from harness.devices.p2p import Report as P2pReport
from harness.devices.p2p import run_p2p
from harness.devices.pcie import Snapshot, read_snapshot
from harness.devices.resnet50 import Report as TrainingReport
from harness.devices.resnet50 import run_resnet50
from harness.lab.model import pcie_host
from harness.lab.model.parts import SLOTS, View
from harness.lab.model.workers import answer
from harness.locator import find_platform
from harness.platform import Platform
from harness.ports import CommandAnswer
from harness.procedures.places import find_places


class ModelLane:
    """The modelled host's workers and its kernel log, without the machine around them."""

    def __init__(self, view, clock):
        self.view, self.clock = view, clock

    def ask(self, question, on_line=None):
        words = question.key.split()
        started = self.clock.now()
        if words[0] == "dmesg":
            output = [(0.0, line) for line in pcie_host.kernel_log(self.view)]
        elif words[1] == "pci":
            output = pcie_host.answer(self.view, words[2:])
        else:
            output = answer(words[1], words[2:], self.view)
        lines = []
        for at, line in output:
            self.clock.sleep(started + at - self.clock.now())
            lines.append(line)
            if on_line is not None:
                on_line(line, self.clock.now())
        return CommandAnswer(0, "\n".join(lines), "", self.clock.now(), self.clock.now() - started)

    def close(self):
        pass


@dataclass
class Box:
    """The modelled machine with some faults, its operating system up and MmioAbove4Gb on. What is idle is read once."""

    view: View
    platform: Platform
    clock: VirtualClock

    @property
    def host(self) -> Host:
        return Host(ModelLane(self.view, self.clock), self.clock)

    @cached_property
    def snapshot(self) -> Snapshot:
        return read_snapshot(self.host)

    @cached_property
    def inventory(self) -> Inventory:
        return read_inventory(self.host)

    def gpus(self) -> dict[str, Gpu]:
        return join(self.inventory, self.snapshot, self.platform.slots)

    def p2p(self) -> P2pReport:
        return run_p2p(self.host)

    def training(self) -> TrainingReport:
        return run_resnet50(self.host)

    def places(self, report):
        return find_places(report.gpus, self.gpus(), self.platform.slots)


@pytest.fixture(scope="session")
def lqd8360():
    return find_platform("lqd8360")[0]


@pytest.fixture
def box(lqd8360):
    """Build the modelled machine with faults."""

    def build(*faults: str, bios=None, populated=SLOTS) -> Box:
        view = View(frozenset(faults), 1, {"MmioAbove4Gb": "Enabled"} | (bios or {}), 0.0, populated)
        return Box(view, lqd8360, VirtualClock())

    return build
