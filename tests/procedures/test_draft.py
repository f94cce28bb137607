import dataclasses
import subprocess
import sys

import pytest

from harness.bench import load_bench
from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.devices.pcie import Bar, Function, HostFacts, IommuGroup, Link, PhysicalSlot, Snapshot, Unread
from harness.errors import ConfigError
from harness.limits import exactly
from harness.platform import load_platform
from harness.ports import CommandAnswer
from harness.procedures.draft import draft, draft_local

MIB = 1 << 20
MEMORY = 0x40200
GEN3_X16 = Link(2.5, 16, 8.0, 16)
GPU = Function(
    "0000:3c:00.0", "pci0000:3a/00.0/04.0/00.0", "0000:3b:04.0", "10de", "1e78", "10de", "13d8", "030200", "a1",
    bars=(Bar(0, 0xAB000000, 0xABFFFFFF, MEMORY), Bar(1, 0x382000000000, 0x38200FFFFFFF, 0x14220C), Bar(5, 0x6000, 0x607F, 0x101)),
    link=GEN3_X16,
)  # fmt: skip
ROOT_PORT = Function("0000:3a:00.0", "pci0000:3a/00.0", None, "8086", "2030", class_code="060400", link=GEN3_X16)
SWITCH_PORT = Function("0000:3b:04.0", "pci0000:3a/00.0/04.0", "0000:3a:00.0", "10b5", "9797", class_code="060400", link=GEN3_X16)
TREE = (ROOT_PORT, SWITCH_PORT, GPU)


def another(function, bus, port, **changed):
    """The same card behind another port."""
    return dataclasses.replace(
        function, bdf=f"0000:{bus:02x}:00.0", path=f"pci0000:3a/00.0/{port:02x}.0/00.0", parent=f"0000:3b:{port:02x}.0", **changed
    )


def drafted(*functions, **facts):
    """The platform model and its text."""
    _, text = draft(Snapshot(functions, **facts), "local")
    return load_platform(text, "test"), text


class Here:
    def ask(self, question, on_line=None):
        done = subprocess.run(question.argv, input=question.stdin, capture_output=True, check=False)
        return CommandAnswer(done.returncode, done.stdout.decode(), done.stderr.decode(), 0.0, 0.0)

    def close(self):
        pass


def test_a_gpu_behind_a_switch_becomes_a_slot_with_its_model_bars_and_link():
    platform, _ = drafted(*TREE)
    (slot,) = platform.slots
    (model,) = platform.models
    assert (slot.path, slot.model) == ("pci0000:3a/00.0/04.0/00.0", model.name)
    assert (model.device, model.subsystem, model.class_code) == ("10de:1e78", "10de:13d8", "0302")
    assert model.bars == {0: 16 * MIB, 1: 256 * MIB}, "I/O ports are nobody's need"
    assert (model.link.generation, model.link.width) == (exactly(3, "generation"), exactly(16, "lanes"))
    assert model.ceiling == 15.75
    assert platform.gpu is not None
    assert platform.p2p.ceiling.bounds == (15.75,)


def test_a_machine_with_other_cards_only_gets_no_gpu_table():
    nic = another(GPU, 0x3D, 5, vendor="15b3", device="1017", class_code="020000")
    platform, text = drafted(ROOT_PORT, nic)
    assert platform.gpu is None
    assert platform.models[0].ceiling is None
    assert "gpu, p2p and resnet50 are not run" in text


def test_an_amd_gpu_is_no_nvidia_gpu():
    assert drafted(*TREE[:2], dataclasses.replace(GPU, vendor="1002"))[0].gpu is None


def test_bridges_further_functions_and_virtual_functions_are_no_slots():
    audio = dataclasses.replace(GPU, bdf="0000:3c:00.1", path="pci0000:3a/00.0/04.0/00.1", class_code="040300")
    virtual = another(GPU, 0x3D, 5, physical="0000:3c:00.0")
    platform, _ = drafted(*TREE, audio, virtual)
    assert [slot.path for slot in platform.slots] == [GPU.path]


def test_what_sits_on_the_board_is_left_out_and_named():
    uncore = Function("0000:3a:05.0", "pci0000:3a/05.0", None, "8086", "2034", class_code="088000")
    platform, text = drafted(*TREE, uncore)
    assert [slot.path for slot in platform.slots] == [GPU.path]
    assert "#   pci0000:3a/05.0  8086:2034  class 0880" in text


def test_a_gpu_directly_on_the_host_bridge_is_a_slot_all_the_same():
    passed_through = dataclasses.replace(GPU, bdf="0000:00:05.0", path="pci0000:00/05.0", parent=None)
    platform, _ = drafted(*TREE, passed_through)
    assert {slot.path for slot in platform.slots} == {GPU.path, "pci0000:00/05.0"}


def test_a_machine_without_bridges_lists_every_device():
    disk = Function("0000:00:02.0", "pci0000:00/02.0", None, "1af4", "1042", "1af4", "1042", "018000")
    host_bridge = Function("0000:00:00.0", "pci0000:00/00.0", None, "8086", "0d57", class_code="060000")
    platform, _ = drafted(host_bridge, disk)
    assert [slot.path for slot in platform.slots] == ["pci0000:00/02.0"]
    assert platform.models[0].link is None, "nothing is known of its link, so nothing is asked of it"


def test_slots_carry_the_kernels_names_and_the_rest_a_name_from_their_path():
    tree = (
        ROOT_PORT,
        dataclasses.replace(GPU, bdf="0000:3b:00.0", path="pci0000:3a/00.0/00.0", parent="0000:3a:00.0"),
        another(GPU, 0x41, 5),
    )
    platform, _ = drafted(*tree, slots=(PhysicalSlot("1", "0000:3b:00"),))
    assert [slot.name for slot in platform.slots] == ["slot1", "slot-3a-00.0-05.0-00.0"]


def test_a_slot_far_below_names_the_kernels_slot_that_it_hangs_from():
    platform, _ = drafted(*TREE, slots=(PhysicalSlot("1", "0000:3b:04"),))
    assert (platform.slots[0].name, platform.slots[0].hba) == ("slot-3a-00.0-04.0-00.0", "slot1")


def test_cards_with_the_same_ids_share_a_model_and_others_do_not():
    platform, _ = drafted(*TREE, another(GPU, 0x3D, 5), another(GPU, 0x3E, 6, subsystem_device="13d9"))
    assert len(platform.slots) == 3
    assert [model.subsystem for model in platform.models] == ["10de:13d8", "10de:13d9"]


def test_the_link_is_what_both_ends_can_do_and_a_narrower_one_now_is_pointed_out():
    slow = dataclasses.replace(SWITCH_PORT, link=Link(8.0, 8, 16.0, 8))
    narrow = dataclasses.replace(GPU, link=Link(2.5, 4, 8.0, 16))
    platform, text = drafted(ROOT_PORT, slow, narrow)
    assert (platform.models[0].link.generation, platform.models[0].link.width) == (exactly(3, "generation"), exactly(8, "lanes"))
    assert "runs at x4 now, although both ends can do x8" in text


def test_a_link_that_is_not_the_same_everywhere_is_left_to_a_person():
    platform, text = drafted(*TREE, another(GPU, 0x3D, 5, link=Link(2.5, 8, 8.0, 8)))
    assert platform.models[0].link is None
    assert "# link: not the same in all places or not known in some (generation 3 x16, generation 3 x8)" in text


def test_a_missing_bar_stays_expected_and_is_pointed_out():
    platform, text = drafted(*TREE, another(GPU, 0x3D, 5, bars=GPU.bars[:1]))
    assert platform.models[0].bars == {0: 16 * MIB, 1: 256 * MIB}
    assert "# BAR 1 is missing in slot-3a-00.0-05.0-00.0: a fault, unless you delete it here" in text


def test_bars_of_different_sizes_are_left_to_a_person():
    larger = (GPU.bars[0], Bar(1, 0x383000000000, 0x3837FFFFFFFF, 0x14220C))
    platform, text = drafted(*TREE, another(GPU, 0x3D, 5, bars=larger))
    assert platform.models[0].bars == {0: 16 * MIB}
    assert "# BAR 1 is not the same everywhere (256 MiB in 1, 32 GiB in 1)" in text


def test_an_unassigned_bar_is_expected_and_pointed_out():
    homeless = (GPU.bars[0], Bar(1, 0, 256 * MIB - 1, 0x14220C | 0x20000000))
    platform, text = drafted(ROOT_PORT, SWITCH_PORT, dataclasses.replace(GPU, bars=homeless))
    assert platform.models[0].bars[1] == 256 * MIB
    assert "BAR 1 [mem size 0x10000000, unassigned]: it has no place in the address map now" in text


def test_a_translating_iommu_is_pointed_out_and_still_refused():
    platform, text = drafted(ROOT_PORT, SWITCH_PORT, dataclasses.replace(GPU, iommu_group=IommuGroup("12", "DMA-FQ")))
    assert "Found: DMA-FQ" in text
    assert platform.pcie.iommu.bounds == ("off", "identity")


def test_what_was_not_read_stands_in_the_text():
    unread = Unread("configuration space beyond the header", "only 64 bytes", "run as root", ("0000:3c:00.0",))
    _, text = drafted(*TREE, unread=(unread,))
    assert "# Not read: configuration space beyond the header of 1 function: only 64 bytes; run as root" in text


def test_a_machine_may_call_itself_anything():
    hostile = 'R640"\n[[slot]]\nname = "x\x7f\\'
    platform, _ = drafted(*TREE, host=HostFacts(machine=hostile, kernel="6.1\n[gpu]"))
    assert platform.system == 'R640"?[[slot]]?name = "x?\\'
    assert len(platform.slots) == 1
    bench, _ = draft(Snapshot(TREE, host=HostFacts(machine=hostile)), "local")
    assert load_bench(bench, "test").name == "local"


def test_the_bench_reaches_this_machine_and_nothing_else():
    text, _ = draft(Snapshot(TREE), "lab-7")
    bench = load_bench(text, "test")
    assert (bench.name, bench.platform, bench.service_tag, bench.host.via) == ("lab-7", "lab-7", "", "local")
    assert bench.bmc is None
    assert bench.console is None


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="'my bench' is not a name"):
        draft(Snapshot(TREE), "my bench")


def test_a_machine_without_pci_is_refused_with_the_reason():
    unread = (Unread("/sys/bus/pci/devices", "there is no such folder", "mount sysfs"),)
    with pytest.raises(ConfigError) as caught:
        draft(Snapshot((), unread=unread), "local")
    assert str(caught.value) == (
        "draft local: the machine shows no PCI device, so there is no slot to expect anything in "
        "(/sys/bus/pci/devices: there is no such folder; mount sysfs)"
    )


def test_a_machine_of_bridges_only_is_refused():
    with pytest.raises(ConfigError, match="shows 2 PCI functions, all of them bridges"):
        draft(Snapshot(TREE[:2]), "local")


def test_the_machine_of_this_test_is_drafted_twice_alike_and_loads():
    host = Host(Here(), VirtualClock(), python=sys.executable)
    try:
        first = draft_local(host)
    except ConfigError as error:
        pytest.skip(f"{error}: run this on a machine with PCI devices")
    assert draft_local(host) == first
    platform = load_platform(first[1], "test")
    listed = {entry.path for entry in platform.slots}
    assert listed
    assert load_bench(first[0], "test").slots(platform, "test") == platform.slots
