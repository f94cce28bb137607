import struct

import pytest

from harness.agent.p2p_odd import ceiling, odd_copies
from harness.agent.p2p_preflight import bridges_above, iommu_of, redirects_of, refusal, switches_above
from harness.agent.tree import Tree

ROOT, UP, DOWN, GPU = "0000:3a:00.0", "0000:3b:00.0", "0000:3c:04.0", "0000:3d:00.0"


def with_acs(control):
    """A configuration space with AER first and then ACS at 0x150."""
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, 0x0001 | 1 << 16 | 0x150 << 20)
    struct.pack_into("<IHH", config, 0x150, 0x000D | 1 << 16, 0x5F, control)
    return bytes(config)


def test_the_upstream_port_of_the_own_switch_is_the_group(sys_tree):
    sys_tree.function("pci0000:3a", ROOT, UP, DOWN, GPU)
    ports = bridges_above(Tree(str(sys_tree.root)), GPU)
    assert ports == [ROOT, UP, DOWN]
    assert switches_above(ports) == (UP,)


def test_switches_behind_switches_come_from_the_gpu_upwards():
    assert switches_above([ROOT, UP, DOWN, "0000:3d:00.0", "0000:3e:00.0"]) == ("0000:3d:00.0", UP)


def test_a_root_port_of_its_own_is_an_uplink_too_and_none_at_all_is_unknown():
    assert switches_above([ROOT]) == (ROOT,)
    assert switches_above([]) is None
    assert switches_above(None) is None


def test_the_domain_type_of_the_gpus_own_group_decides(sys_tree):
    sys_tree.function("pci0000:3a", ROOT, GPU)
    tree = Tree(str(sys_tree.root))
    assert iommu_of(tree, GPU) == "none"
    sys_tree.link(f"sys/bus/pci/devices/../../../devices/pci0000:3a/{ROOT}/{GPU}/iommu_group", "../../../kernel/iommu_groups/7")
    assert iommu_of(tree, GPU) == "unknown"
    sys_tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
    assert iommu_of(tree, GPU) == "DMA-FQ"


@pytest.mark.parametrize(
    ("kinds", "refused"),
    [(["none", "none"], False), (["identity", "none"], False), (["DMA", "none"], True), (["identity", "unknown"], True)],
)
def test_one_translated_gpu_is_enough_to_refuse(kinds, refused):
    why = refusal(dict(enumerate(kinds)))
    assert bool(why) is refused
    assert not refused or "1 of 2 GPUs" in why


def test_redirecting_ports_are_told_by_their_controls(sys_tree):
    sys_tree.function("pci0000:3a", ROOT, UP, DOWN, config=with_acs(0x1D))
    sys_tree.function("pci0000:3a", ROOT, UP, config=with_acs(0x11))
    sys_tree.function("pci0000:3a", ROOT, config=bytes(64))
    tree = Tree(str(sys_tree.root))
    assert [redirects_of(tree, port) for port in (DOWN, UP, ROOT)] == [["RR", "CR"], [], None]


# what is measured again

UPLINKS = {gpu: (f"switch{gpu // 3}",) for gpu in range(6)}


def figures(**changed):
    good = {"enabled": 12.5, "pulled": 12.5, "disabled": 9.9, "write_us": 1.8, "bad": 0}
    pairs = {
        (a, b): dict(good) if a // 3 == b // 3 else dict(good, enabled=10.0, pulled=10.0, disabled=11.4)
        for a in range(6)
        for b in range(6)
        if a != b
    }
    pairs[0, 4].update(changed)
    return pairs


def odd(best=None, nvlink=(), **changed):
    return odd_copies(figures(**changed), UPLINKS, best or {}, set(nvlink))


@pytest.mark.parametrize(
    "changed",
    [{"bad": 4}, {"enabled": 8.9}, {"pulled": 8.9}, {"enabled": 11.4, "write_us": 13.0}, {"enabled": 8.9, "pulled": None}],
    ids=["corrupt", "low", "low reads", "staged", "reads unknown"],
)
def test_a_copy_that_looks_odd_is_made_again_alone(changed):
    assert odd(**changed) == [(0, 4)]


def test_healthy_copies_across_are_not_odd_though_slower_than_those_below_a_switch():
    assert odd() == []
    assert odd(enabled=9.1, pulled=9.1) == []


def test_faster_than_the_link_is_odd_but_not_over_nvlink():
    best = dict.fromkeys(range(6), (3, 16))
    assert ceiling((0, 4), best) == pytest.approx(15.75, abs=0.01)
    assert odd(best, enabled=16.0) == [(0, 4)]
    assert odd(best, nvlink=[(0, 4)], enabled=47.0, pulled=47.0) == []
    assert odd({}, enabled=103.88) == []
