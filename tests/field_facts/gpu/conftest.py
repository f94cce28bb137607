"""The machines of fake driver libraries that the agent's tests make, and what the judges of the p2p stage say of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from harness.devices.p2p import run_p2p
from harness.limits import Outcome, at_most, exactly
from harness.platform import Link, P2p
from harness.procedures.p2p import judge_budget, judge_contention, judge_integrity, judge_link, judge_path, judge_watchdog
from harness.procedures.places import Place

_SPEC = importlib.util.spec_from_file_location("agent_conftest", Path(__file__).parents[2] / "agent" / "conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_AGENT = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_AGENT)

fake_libraries = _AGENT.fake_libraries
machine = _AGENT.machine
sys_tree = _AGENT.sys_tree
RULES = P2p()


class Tested:
    """A report of the worker, and which checks fail on which part, with their words."""

    def __init__(self, report, per_switch):
        self.report = report
        self.places = {gpu.index: Place(f"gpu{gpu.index}", f"switch{gpu.index // per_switch}") for gpu in report.gpus}

    def pair(self, source, target):
        return next(pair for pair in self.report.pairs if (pair.source, pair.target) == (source, target))

    def failed(self):
        found = {("preflight", ""): judge_budget(self.report, self.places, RULES.peers)}
        gen3 = Link(generation=exactly(3), width=exactly(16))
        for index in self.places:
            found["watchdog", index] = judge_watchdog(self.report, self.places, index)
            found["integrity", index] = judge_integrity(self.report, self.places, index, exactly(0, "B"))
            found["path", index] = judge_path(self.report, self.places, index, RULES)
            found["link", index] = judge_link(self.report, self.places, index, gen3, at_most(8, "/min"))
        for uplink in {place.uplink for place in self.places.values()}:
            found["contention", uplink] = judge_contention(self.report, self.places, uplink, RULES.contention_ratio)
        self.bench = "\n".join(finding.bench for finding in found.values() if finding.bench)
        return {
            key: finding.explanation
            for key, finding in found.items()
            if any(taken.outcome is Outcome.FAIL for taken in finding.measurements)
        }


@pytest.fixture(scope="session")
def tested(fake_libraries, tmp_path_factory):
    """Run the worker with the real bindings on a machine of SWITCHESxGPUS with faults; the same machine is tested once."""
    reports = {}

    def run(shape, faults=""):
        if (shape, faults) not in reports:
            tree = _AGENT.SysTree(tmp_path_factory.mktemp("machine"))
            made = _AGENT.Machine(fake_libraries, tree, shape, faults)
            reports[shape, faults] = Tested(run_p2p(made.host(*made.options()), loops=2), made.per_switch)
        return reports[shape, faults]

    return run


@pytest.fixture
def corrupt(tested):
    """Six GPUs below two switches, one bad pair out of each: dropped, zero, all ones, one bit, shifted, another GPU's data."""
    return tested("2x3", "dropped:0>4 zeros:1>5 ones:2>3 flip:3>1 shifted:4>2 misrouted:5>0>2")


@pytest.fixture
def translating(machine):
    """A machine whose IOMMU groups have a domain of some type."""

    def make(shape, kind, faults=""):
        made = machine(shape, faults)
        for gpu in range(made.count):
            made.tree.link(f"sys/bus/pci/devices/{made.address(gpu)}/iommu_group", f"../../../kernel/iommu_groups/{gpu}")
            made.tree.write(f"sys/kernel/iommu_groups/{gpu}/type", f"{kind}\n")
        return made

    return make
