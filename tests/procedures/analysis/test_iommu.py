"""Whether an IOMMU stands between GPUs, and whether it translates."""

import io
import tarfile

import pytest

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.procedures.analysis.analysis import analyse

LINE = "iommu: Default domain type: {}"


def sysfs(kind, gpus=2):
    """A tar of GPUs, each in a group of its own of one type ("" to leave the type out)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:

        def add(name, text):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))

        for number in range(gpus):
            folder = f"sys/devices/pci0000:3a/0000:{0x3B + number:02x}:00.0"
            for name, text in {"class": "0x030200", "vendor": "0x10de", "device": "0x1e78"}.items():
                add(f"{folder}/{name}", text)
            link = tarfile.TarInfo(f"{folder}/iommu_group")
            link.type, link.linkname = tarfile.SYMTYPE, f"../../../kernel/iommu_groups/{20 + number}"
            tar.addfile(link)
            if kind:
                add(f"sys/kernel/iommu_groups/{20 + number}/type", f"{kind}\n")
    return analyse(merge(read_dump("sys.tar", packed.getvalue())))


@pytest.mark.parametrize("kind", ["DMA", "DMA-FQ", "unmanaged"])
def test_a_translating_type_of_a_group_fails_and_is_named(mailed, kind):
    analysis = sysfs(kind)
    assert mailed.faults(analysis) == ["iommu"]
    words = mailed.told(analysis, "iommu")
    assert f"({kind})" in words
    assert "0000:3b:00.0 group 20" in words
    assert "iommu=pt" in words


def test_identity_is_no_fault_and_one_gpu_alone_has_no_peer(mailed):
    assert mailed.faults(sysfs("identity")) == []
    assert "2 groups of type identity" in mailed.told(sysfs("identity"), "iommu")
    assert mailed.faults(sysfs("DMA", gpus=1)) == []


def test_groups_without_a_type_are_said_to_be_untold(mailed):
    analysis = sysfs("")
    assert mailed.faults(analysis) == []
    assert "whether the IOMMU translates" in [unread.what for unread in analysis.unread]
    assert "whether the IOMMU translates" not in [unread.what for unread in sysfs("identity").unread]


def test_groups_in_lspci_are_counted(mailed):
    analysis = mailed.analysed(mailed.machine(2, gpu0={"group": "27"}, gpu1={"group": "28"}))
    assert mailed.faults(analysis) == []
    assert "2 groups whose type no file tells" in mailed.told(analysis, "iommu")


def test_the_kernel_s_default_warns_where_no_group_tells_its_type(mailed):
    machine = mailed.machine(2, gpu0={"group": "27"}, gpu1={"group": "28"})
    translated = mailed.analysed(machine, mailed.dmesg(LINE.format("Translated")))
    assert (mailed.faults(translated), mailed.warnings(translated)) == ([], ["iommu"])
    passing = mailed.analysed(machine, mailed.dmesg(LINE.format("Passthrough (set via kernel command line)")))
    assert (mailed.faults(passing), mailed.warnings(passing)) == ([], [])


def test_a_machine_without_groups_has_nothing_between_its_gpus(mailed):
    analysis = mailed.analysed(mailed.machine(2))
    assert mailed.told(analysis, "iommu") == ""
    assert "whether the IOMMU translates" not in [unread.what for unread in analysis.unread]
