"""Which socket each GPU belongs to."""

import io
import tarfile

import pytest

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.procedures.analysis.analysis import analyse


def sysfs(*nodes):
    """A tar of root ports with a GPU below each, on the given NUMA nodes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for number, node in enumerate(nodes):
            port = f"sys/devices/pci0000:{number:02x}/0000:{number:02x}:00.0"
            gpu = f"{port}/0000:{0x80 + number:02x}:00.0"
            for folder, kind, vendor in ((port, "0x060400", "0x8086"), (gpu, "0x030200", "0x10de")):
                for name, text in {"class": kind, "vendor": vendor, "device": "0x1e78", "numa_node": str(node)}.items():
                    member = tarfile.TarInfo(f"{folder}/{name}")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text.encode()))
    return analyse(merge(read_dump("sys.tar", packed.getvalue())))


def test_a_gpu_without_a_node_warns_on_a_machine_with_several(mailed):
    analysis = sysfs(0, 1, -1)
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], ["numa"])
    words = mailed.told(analysis, "numa")
    assert "0000:82:00.0 the firmware gives no NUMA node (-1)" in words


def test_a_machine_that_has_no_nodes_at_all_is_left_alone(mailed):
    assert mailed.warnings(sysfs(-1, -1)) == []


def test_the_kernel_s_own_line_about_a_host_bridge_without_a_node_is_quoted(mailed):
    line = "pci_bus 0000:3a: Unknown NUMA node; performance will be reduced"
    analysis = mailed.analysed(mailed.dmesg(line))
    assert mailed.warnings(analysis) == []
    assert line in mailed.told(analysis, "numa")


def test_a_gpu_on_another_node_than_the_ports_above_it_is_behind_the_wrong_socket(mailed):
    near = {f"gpu{number}": {"numa": 0} for number in range(3)}
    healthy = mailed.machine(3, root={"numa": 0}, ports={"numa": 0}, **near)
    assert mailed.faults(mailed.analysed(healthy)) == []
    astray = mailed.analysed(mailed.machine(3, root={"numa": 0}, ports={"numa": 0}, **(near | {"gpu1": {"numa": 1}})))
    assert mailed.faults(astray) == ["numa"]
    words = mailed.told(astray, "numa")
    assert "0000:3e:00.0" in words
    assert "counts to NUMA node 1, and the ports above it to node 0" in words


def test_copies_that_cross_the_sockets_are_told_and_are_no_fault(mailed):
    far = mailed.bridge("d7:00.0", 0xD8, 0xD8, kind="Root Port", numa=1) + mailed.gpu("d8:00.0", number=7, numa=1)
    near = mailed.machine(2, root={"numa": 0}, gpu0={"numa": 0}, gpu1={"numa": 0})
    analysis = mailed.analysed(near + far)
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], [])
    assert "cross the link between processors (UPI on Intel's): 2 on node 0, 1 on node 1" in mailed.told(analysis, "numa")
    assert mailed.told(mailed.analysed(near), "numa") == ""


def test_the_driver_s_affinity_is_compared_with_the_system_s(mailed):
    lspci = mailed.machine(2, root={"numa": 0}, gpu0={"numa": 0}, gpu1={"numa": 0})
    assert mailed.faults(mailed.analysed(lspci, mailed.topology("PIX", nodes=("0", "0")))) == []
    analysis = mailed.analysed(lspci, mailed.topology("PIX", nodes=("0", "1")))
    assert mailed.faults(analysis) == ["numa"]
    assert "GPU1, 0000:3e:00.0" in mailed.told(analysis, "numa")


@pytest.mark.parametrize("nodes", [("N/A", "N/A"), ("0-1", "0-1"), ("", "")])
def test_an_affinity_that_is_no_single_node_says_nothing(mailed, nodes):
    lspci = mailed.machine(2, root={"numa": 0}, gpu0={"numa": 0}, gpu1={"numa": 0})
    assert mailed.faults(mailed.analysed(lspci, mailed.topology("PIX", nodes=nodes))) == []
