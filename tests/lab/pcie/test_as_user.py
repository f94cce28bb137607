"""What a user without root can read of the same machine: 64 bytes of configuration space, no kernel log."""

import pytest

from harness.agent.pci import read
from harness.devices.pcie import parse_snapshot
from harness.lab.model.pcie_enumeration import enumerate_stack
from harness.lab.model.pcie_setup import VICTIMS, Setup
from harness.lab.model.sysfs import System, write_system
from harness.lab.model.tree import stacks
from harness.procedures.chain import ChainLink, trace
from harness.procedures.links import (
    access_control,
    errors_unread,
    fatal_errors,
    iommu_translating,
    links_to,
    payloads,
    reachable_generation,
    uplink_links,
    why_unread,
    width,
)


@pytest.fixture
def seen_by_user(tmp_path):
    def look(*faults):
        placed = [enumerate_stack(stack) for stack in stacks(Setup(frozenset(faults)))]
        domain = "DMA-FQ" if "pcie.iommu" in faults else ""
        write_system(tmp_path, placed, System("0f", "6.1.0", "root=/dev/sda2", "PowerEdge R640", "ABC1234", domain))
        for config in (tmp_path / "sys/devices").rglob("config"):
            config.write_bytes(config.read_bytes()[:64])
        return parse_snapshot(read(str(tmp_path), uid=1000), None)

    return look


def test_a_healthy_machine_still_has_twenty_at_each_link(seen_by_user, lqd8360):
    assert {count for _, count in trace(seen_by_user(), lqd8360, lqd8360.slots).counts()} == {20}


@pytest.mark.parametrize(
    ("fault", "link"),
    [
        ("pcie.uplink.cable", ChainLink.UPLINK),
        ("pcie.chain-link", ChainLink.LINK),
        ("pcie.buses", ChainLink.BUSES),
        ("pcie.enumerated", ChainLink.ENUMERATED),
        ("pcie.enumerated.fallen", ChainLink.ENUMERATED),
        ("pcie.bars", ChainLink.BARS),
        ("pcie.aperture", ChainLink.APERTURE),
    ],
)
def test_the_chain_is_traced_by_sysfs_alone(seen_by_user, lqd8360, fault, link):
    losses = trace(seen_by_user(fault), lqd8360, lqd8360.slots).losses
    assert {loss.link for loss in losses} == {link}
    assert {loss.place.split("/")[0] if link is ChainLink.UPLINK else loss.place for loss in losses} == set(VICTIMS[fault])


def test_links_and_widths_are_found_by_sysfs_alone(seen_by_user, lqd8360):
    seen = seen_by_user("pcie.width")
    slot = lqd8360.slot("jbogA/slot04")
    assert [(width(link.upper), width(link.lower)) for link in links_to(seen, slot.path)] == [(16, 16), (16, 16), (8, 8)]
    assert len(uplink_links(seen, lqd8360.uplinks[0].path)) == 2


def test_registers_that_were_not_read_are_unread_and_never_good(seen_by_user, lqd8360):
    seen = seen_by_user("pcie.acs", "pcie.mps", "pcie.errors", "pcie.target-speed")
    for slot in lqd8360.slots:
        access = access_control(seen, slot, lqd8360.slots)
        assert access.unread == access.bridges
        assert {size for _, size in payloads(seen, slot)} == {None}
        assert (fatal_errors(seen, slot), len(errors_unread(seen, slot))) == ((), 6)
        assert reachable_generation(links_to(seen, slot.path)[-1]) is None
        assert "run" in why_unread(seen, [seen.at(slot.path)])


def test_the_iommu_domain_is_told_to_everybody(seen_by_user, lqd8360):
    assert len(iommu_translating(seen_by_user("pcie.iommu"), lqd8360.slots)) == 20
