import shutil
import subprocess

import pytest

from harness.devices.pcie import PortType
from harness.lab.model.parts import GPUS
from harness.lab.model.pcie_enumeration import enumerate_stack
from harness.lab.model.pcie_setup import Setup
from harness.lab.model.sysfs import System, write_system
from harness.lab.model.tree import stacks


@pytest.fixture
def written(tmp_path):
    def write(*faults):
        placed = [enumerate_stack(stack) for stack in stacks(Setup(frozenset(faults)))]
        write_system(tmp_path, placed, System("0f", "6.1.0", "root=/dev/sda2", "PowerEdge R640", "ABC1234"))
        return tmp_path

    return write


def test_the_tree_decodes_without_a_problem(snapshot):
    seen = snapshot()
    assert {len(function.config.raw) for function in seen.functions} == {4096}
    assert {problem for function in seen.functions for problem in function.config.problems} == set()
    assert seen.unread == ()


def test_registers_and_attributes_say_the_same(snapshot):
    seen = snapshot()
    for function in seen.functions:
        config = function.config
        assert (f"{config.vendor:04x}", f"{config.device:04x}") == (function.vendor, function.device)
        assert f"{config.class_code:06x}" == function.class_code
        link = config.express.link
        if link is not None:
            assert (link.width, link.generation) == (function.link.current_width, function.link.generation)
            assert (link.width_most, link.generation_most) == (function.link.max_width, function.link.max_generation)
        for index, register in enumerate(config.bar_registers):
            bar = function.bar(index)
            if bar is not None:
                assert register & ~0xF == bar.start & 0xFFFFFFFF
                assert bool(register & 0x4) == bar.is_64bit


def test_the_port_types_follow_the_cabling(snapshot):
    seen = snapshot()
    walk = [function.config.express.type for function in reversed(seen.chain_up(seen.at(GPUS[0].path)))]
    down = [PortType.ROOT_PORT, PortType.UPSTREAM, PortType.DOWNSTREAM, PortType.UPSTREAM, PortType.DOWNSTREAM]
    assert walk == [*down, PortType.ENDPOINT]


def test_a_gpu_sits_in_the_physical_slot_of_its_chassis(snapshot):
    seen = snapshot()
    assert [seen.slot_of(seen.at(gpu.path)).name for gpu in (GPUS[0], GPUS[9], GPUS[10])] == ["1", "10", "21"]


def test_an_idle_gpu_link_is_gen1_and_as_wide_as_ever_and_the_uplink_is_gen3(snapshot):
    seen = snapshot()
    gpu = seen.at(GPUS[0].path)
    assert (gpu.link.generation, gpu.link.current_width) == (1, 16)
    cable = seen.at("pci0000:3a/00.0/00.0/00.0")
    assert (cable.link.generation, cable.link.current_width, cable.config.express.link.active) == (3, 16, True)


def test_an_iommu_puts_the_gpus_of_a_chassis_into_one_group_of_the_given_type(snapshot):
    seen = snapshot("pcie.iommu")
    groups = {gpu.slot: seen.at(gpu.path).iommu_group for gpu in GPUS}
    assert {group.type for group in groups.values()} == {"DMA-FQ"}
    assert len({group.id for group in groups.values()}) == 2


def test_without_an_iommu_there_is_no_group(snapshot):
    seen = snapshot()
    assert {function.iommu_group for function in seen.functions} == {None}


def test_a_gpu_off_the_bus_reads_ones_and_63_lanes(snapshot):
    seen = snapshot("pcie.enumerated.fallen")
    fallen = next(gpu for gpu in GPUS if gpu.slot == "jbogA/slot09")
    assert seen.at(fallen.path).is_gone


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci is not installed")
def test_lspci_reads_the_same_tree(written):
    root = written("pcie.acs")
    command = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci"]
    listed = subprocess.run([*command, "-n"], capture_output=True, text=True, check=True).stdout
    assert listed.count("10de:1e78") == 20
    port = subprocess.run([*command, "-vvv", "-s", "3e:05.0"], capture_output=True, text=True, check=True).stdout
    assert "Express (v2) Downstream Port (Slot+)" in port
    assert "Slot #5" in port
    assert "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+" in port
    assert "Memory behind bridge: af000000-afffffff" in port
    gpu = subprocess.run([*command, "-vvv", "-s", "3f:00.0"], capture_output=True, text=True, check=True).stdout
    assert "Region 1: Memory at 382000000000 (64-bit, prefetchable) [size=256M]" in gpu
    assert "MaxPayload 256 bytes" in gpu
    assert "LnkSta:\tSpeed 2.5GT/s" in gpu
