"""Each fault of the tree through the real agent: the first link that lost a part, and what else is wrong with it."""

import pytest

from harness.lab.faults.pcie import FAULTS
from harness.lab.model.pcie_setup import VICTIMS
from harness.procedures.chain import ChainLink, trace
from harness.procedures.links import (
    access_control,
    common_identity,
    fatal_errors,
    generation,
    identity,
    iommu_translating,
    links_to,
    payloads,
    reachable_generation,
    trouble_lines,
    uplink_links,
    width,
)

FULL = [
    ("expected", 20),
    ("uplinks up", 20),
    ("links up", 20),
    ("buses assigned", 20),
    ("enumerated", 20),
    ("BARs assigned", 20),
    ("apertures assigned", 20),
]
LOSING = {
    "pcie.chain-link": ChainLink.LINK,
    "pcie.buses": ChainLink.BUSES,
    "pcie.enumerated": ChainLink.ENUMERATED,
    "pcie.enumerated.fallen": ChainLink.ENUMERATED,
    "pcie.bars": ChainLink.BARS,
    "pcie.aperture": ChainLink.APERTURE,
    "pcie.aperture.window": ChainLink.APERTURE,
}
KEEPING = sorted({fault.id for fault in FAULTS} - set(LOSING) - {"pcie.uplink", "pcie.uplink.cable"})


@pytest.fixture
def traced(snapshot, lqd8360):
    def follow(*faults, **bios):
        return trace(snapshot(*faults, **bios), lqd8360, lqd8360.slots)

    return follow


def test_a_healthy_machine_has_twenty_at_each_link(traced):
    assert list(traced().counts()) == FULL
    assert traced().losses == ()


@pytest.mark.parametrize("fault", sorted(LOSING))
def test_a_fault_loses_its_slots_at_its_link_and_no_others(traced, fault):
    losses = traced(fault).losses
    assert {loss.place for loss in losses} == set(VICTIMS[fault])
    assert {loss.link for loss in losses} == {LOSING[fault]}


@pytest.mark.parametrize("fault", KEEPING)
def test_a_fault_that_loses_nothing_keeps_twenty_at_each_link(traced, fault):
    assert list(traced(fault).counts()) == FULL
    assert traced(fault).uplinks == ()


@pytest.mark.parametrize("fault", ["pcie.uplink", "pcie.uplink.cable"])
def test_a_lost_chassis_names_the_uplink_and_loses_its_ten_slots_there(traced, fault):
    chain = traced(fault)
    assert [loss.place for loss in chain.uplinks] == list(VICTIMS[fault])
    assert {loss.place.split("/")[0] for loss in chain.losses} == set(VICTIMS[fault])
    assert [loss.link for loss in chain.losses] == [ChainLink.UPLINK] * 10
    assert dict(chain.counts())["uplinks up"] == 10


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("pcie.uplink", "x16 DLActive+ SltSta PresDet+ DLLSC+, and nothing behind it"),
        ("pcie.uplink.cable", "x0 DLActive- SltSta PresDet-"),
        ("pcie.chain-link", "x0 DLActive- SltSta PresDet+"),
        ("pcie.buses", "[bus e3] cannot be assigned"),
        ("pcie.enumerated", "and nothing answers on bus 40"),
        ("pcie.enumerated.fallen", "configuration space reads all ones"),
        ("pcie.bars", "BAR 0 [mem size 0x01000000]"),
        ("pcie.aperture", "BAR1 is 0M"),
        ("pcie.aperture.window", "BAR 1 [mem size 0x10000000 64bit pref]"),
    ],
)
def test_a_loss_quotes_what_was_seen(traced, fault, words):
    assert words in traced(fault).losses[0].evidence


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("pcie.uplink", "after the host"),
        ("pcie.uplink.cable", "missing or has no power"),
        ("pcie.chain-link", "does not train"),
        ("pcie.buses", "12 numbers, d7-e2"),
        ("pcie.bars", "138 MiB of pci0000:d7 is used up: 10 such parts take 16 MiB each, 160 MiB"),
        ("pcie.aperture", "no shortage"),
        ("pcie.aperture.window", "10 such parts take 512 MiB each, 5120 MiB"),
    ],
)
def test_a_loss_has_a_likely_cause(traced, fault, words):
    assert words in traced(fault).losses[0].cause


def test_without_mmio_above_4_gb_all_twenty_are_lost_at_the_aperture(traced):
    chain = traced(MmioAbove4Gb="Disabled")
    assert [loss.link for loss in chain.losses] == [ChainLink.APERTURE] * 20
    assert {loss.do for loss in chain.losses} == {"set MmioAbove4Gb=Enabled and start the host again"}


def test_a_slot_switched_off_in_the_bios_is_lost_at_the_uplink(traced):
    chain = traced(Slot3="Disabled")
    assert [loss.place for loss in chain.uplinks] == ["jbogB"]
    assert "no such function" in chain.uplinks[0].evidence
    assert "BIOS" in chain.uplinks[0].cause


def test_moved_bus_numbers_change_addresses_and_nothing_that_is_judged(snapshot, lqd8360):
    usual, moved = snapshot(), snapshot("benign.bdfs-moved")
    for slot in lqd8360.slots:
        assert usual.at(slot.path).bdf != moved.at(slot.path).bdf
        assert usual.at(slot.path).config.serial == moved.at(slot.path).config.serial


@pytest.mark.parametrize("fault", ["benign.no-space-io", "benign.later-assigned"])
def test_a_noisy_kernel_log_is_noisy_and_tells_of_no_failure(snapshot, lqd8360, fault):
    seen = snapshot(fault)
    assert sum("no space" in line for line in seen.log.lines) >= 8
    assert {lines for slot in lqd8360.slots if (lines := trouble_lines(seen, slot))} == set()


def test_only_the_hit_slot_has_trouble_lines(snapshot, lqd8360):
    seen = snapshot("pcie.kernel-log")
    found = {slot.name: trouble_lines(seen, slot) for slot in lqd8360.slots}
    assert [name for name, lines in found.items() if lines] == ["jbogA/slot05"]
    assert found["jbogA/slot05"][0].endswith("pciehp: Slot(5): Link Down")


def test_a_narrow_gpu_is_narrow_at_both_ends(snapshot, lqd8360):
    seen = snapshot("pcie.width")
    narrow = [slot.name for slot in lqd8360.slots if width(seen.at(slot.path)) != 16]
    assert narrow == ["jbogA/slot04"]
    assert width(seen.parent(seen.at(lqd8360.slot("jbogA/slot04").path))) == 8


def test_a_path_has_three_links_and_the_switches_insides_are_none(snapshot, lqd8360):
    seen = snapshot()
    links = links_to(seen, lqd8360.slots[0].path)
    assert [(link.upper.bdf, link.lower.bdf) for link in links] == [
        ("0000:3a:00.0", "0000:3b:00.0"),
        ("0000:3c:00.0", "0000:3d:00.0"),
        ("0000:3e:01.0", "0000:3f:00.0"),
    ]
    assert uplink_links(seen, lqd8360.uplinks[0].path) == links[:2]


@pytest.mark.parametrize(
    ("fault", "uplink", "value"), [("pcie.uplink-width", "jbogB", (8, 3)), ("pcie.uplink-speed", "jbogA", (16, 1)), ("", "", ())]
)
def test_only_the_hit_uplink_is_narrow_or_slow(snapshot, lqd8360, fault, uplink, value):
    seen = snapshot(fault) if fault else snapshot()
    for other in lqd8360.uplinks:
        cable = uplink_links(seen, other.path)[1]
        expected = value if other.name == uplink else (16, 3)
        assert (width(cable.upper), generation(cable.upper)) == expected
        assert (width(cable.lower), generation(cable.lower)) == expected


def test_a_target_speed_holds_one_link_down(snapshot, lqd8360):
    seen = snapshot("pcie.target-speed")
    reachable = {slot.name: reachable_generation(links_to(seen, slot.path)[-1]) for slot in lqd8360.slots}
    assert [name for name, generation in reachable.items() if generation != 3] == ["jbogA/slot07"]
    assert reachable["jbogA/slot07"] == 1


def test_redirection_counts_only_between_gpus(snapshot, lqd8360):
    for fault, hit in (("pcie.acs", "jbogA"), ("benign.acs-elsewhere", None)):
        seen = snapshot(fault)
        redirecting = [slot.name for slot in lqd8360.slots if access_control(seen, slot, lqd8360.slots).redirecting]
        assert redirecting == [slot.name for slot in lqd8360.slots if slot.uplink == hit]


def test_with_one_chassis_only_its_own_ports_lie_between_gpus(snapshot, lqd8360):
    seen = snapshot()
    chassis = [slot for slot in lqd8360.slots if slot.uplink == "jbogA"]
    assert [bridge.bdf for bridge in access_control(seen, chassis[0], chassis).bridges] == ["0000:3e:01.0"]
    assert len(access_control(seen, chassis[0], lqd8360.slots).bridges) == 5
    assert access_control(seen, chassis[0], chassis[:1]).bridges == ()


def test_only_translating_domains_stand_in_the_way_of_peers(snapshot, lqd8360):
    assert iommu_translating(snapshot(), lqd8360.slots) == ()
    assert iommu_translating(snapshot("benign.iommu-identity"), lqd8360.slots) == ()
    assert len(iommu_translating(snapshot("pcie.iommu"), lqd8360.slots)) == 20


def test_payload_sizes_are_equal_but_at_the_hit_port(snapshot, lqd8360):
    seen = snapshot("pcie.mps")
    mixed = {slot.name: [size for _, size in payloads(seen, slot)] for slot in lqd8360.slots}
    assert [name for name, sizes in mixed.items() if len(set(sizes)) > 1] == ["jbogB/slot05"]
    assert mixed["jbogB/slot05"] == [256, 256, 256, 256, 512, 256]


def test_only_the_hit_port_holds_a_fatal_error(snapshot, lqd8360):
    seen = snapshot("pcie.errors")
    found = {slot.name: fatal_errors(seen, slot) for slot in lqd8360.slots}
    assert [name for name, errors in found.items() if errors] == ["jbogB/slot06"]
    assert [(function.bdf, bits) for function, bits in found["jbogB/slot06"]] == [("0000:db:06.0", 0x10)]


def test_an_rtx_6000_differs_by_its_subsystem_alone(snapshot, lqd8360):
    seen = snapshot("pcie.identity")
    assert common_identity(seen, lqd8360.slots, "") == "10de:1e78 10de:13d8 0302"
    other = [slot.name for slot in lqd8360.slots if identity(seen.at(slot.path)) != "10de:1e78 10de:13d8 0302"]
    assert other == ["jbogB/slot03"]
    assert identity(seen.at(lqd8360.slot("jbogB/slot03").path)) == "10de:1e78 10de:13d9 0302"
