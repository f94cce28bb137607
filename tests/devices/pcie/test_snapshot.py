import json

import pytest

from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.devices.pcie import Bar, Function, IommuGroup, Role, Snapshot, parse_snapshot, read_snapshot
from harness.errors import BenchError, DeviceError
from harness.ports import CommandAnswer

MIB = 1 << 20
MEMORY, PREFETCH_64, IO = 0x00040200, 0x0014220C, 0x00040101


def three_hops(function_line):
    """Root port, switch port, GPU with its audio function, and a drive elsewhere."""
    bridge = {"class": "060400", "device": "2030", "vendor": "8086", "subsystem_vendor": "", "subsystem_device": ""}
    return [
        function_line(bdf="0000:3a:00.0", path="pci0000:3a/00.0", parent=None, secondary_bus=0x3B, subordinate_bus=0x3D, **bridge),
        function_line(bdf="0000:3b:04.0", path="pci0000:3a/00.0/04.0", parent="0000:3a:00.0", **bridge),
        function_line(bdf="0000:3c:00.0", path="pci0000:3a/00.0/04.0/00.0", parent="0000:3b:04.0"),
        function_line(bdf="0000:3c:00.1", path="pci0000:3a/00.0/04.0/00.1", parent="0000:3b:04.0", **{"class": "040300"}),
        function_line(bdf="0000:d7:00.0", path="pci0000:d7/00.0", parent=None, **{"class": "010802"}),
    ]


def test_a_snapshot_walks_up_and_down_the_tree(function_line):
    snapshot = parse_snapshot(reversed(three_hops(function_line)))
    root, port, gpu, audio, drive = snapshot.functions
    assert [function.bdf for function in snapshot.chain_up(gpu)] == ["0000:3c:00.0", "0000:3b:04.0", "0000:3a:00.0"]
    assert snapshot.parent(root) is None
    assert snapshot.children(root) == (port,)
    assert snapshot.children(port) == (gpu, audio)
    assert snapshot.children(gpu) == ()
    assert snapshot.below(root) == (port, gpu, audio)
    assert snapshot.siblings(gpu) == (audio,)
    assert snapshot.gpus == (gpu,)
    assert snapshot.at("pci0000:3a/00.0/04.0/00.0") is gpu
    assert snapshot.at("pci0000:3a/00.0/05.0/00.0") is None
    assert snapshot.by_bdf["0000:d7:00.0"] is drive
    assert root.is_bridge
    assert not gpu.is_bridge
    assert (gpu.root, drive.root) == ("pci0000:3a", "pci0000:d7")


def test_a_function_below_a_path_that_only_begins_alike_is_not_below(function_line):
    lines = [
        function_line(bdf="0000:3a:00.0", path="pci0000:3a/00.0", parent=None, **{"class": "060400"}),
        function_line(bdf="0000:3a:00.1", path="pci0000:3a/00.01", parent=None),
    ]
    snapshot = parse_snapshot(lines)
    assert snapshot.below(snapshot.functions[0]) == ()


def test_a_bridge_that_is_its_own_ancestor_does_not_hang_the_walk():
    one = Function("0000:01:00.0", "a", parent="0000:02:00.0")
    two = Function("0000:02:00.0", "b", parent="0000:01:00.0")
    assert Snapshot((one, two)).chain_up(one) == (one, two)


def test_identity_link_and_place_are_read(function_line):
    (gpu,) = parse_snapshot([function_line()]).functions
    assert (gpu.id, gpu.subsystem, gpu.kind, gpu.number) == ("10de:1e78", "10de:13d8", "0302", 0)
    assert gpu.is_gpu
    assert (gpu.link.generation, gpu.link.max_generation, gpu.link.current_width) == (1, 3, 16)
    assert (gpu.numa_node, gpu.local_cpulist, gpu.enabled, gpu.driver) == (0, "0-23", True, "nvidia")


def test_a_numa_node_that_the_firmware_does_not_give_is_unknown(function_line):
    assert parse_snapshot([function_line(numa_node=-1)]).functions[0].numa_node is None


@pytest.mark.parametrize(
    ("code", "is_gpu"), [("030000", True), ("030200", True), ("038000", False), ("040300", False), ("060400", False)]
)
def test_only_vga_and_3d_controllers_are_gpus(function_line, code, is_gpu):
    assert parse_snapshot([function_line(**{"class": code})]).functions[0].is_gpu == is_gpu


def test_a_virtual_function_is_no_gpu_of_the_machine(function_line):
    assert parse_snapshot([function_line(physical="0000:3b:00.0", bdf="0000:3b:00.4")]).gpus == ()


def test_bars_have_size_kind_and_place(function_line):
    resource = [[0, 0, 0]] * 13
    resource[0] = [0xAB000000, 0xABFFFFFF, MEMORY]
    resource[1] = [0x382000000000, 0x38200FFFFFFF, PREFETCH_64]
    resource[5] = [0x6000, 0x607F, IO]
    resource[6] = [0xAC000000, 0xAC07FFFF, 0x46200]
    resource[7] = [0x382010000000, 0x382010FFFFFF, PREFETCH_64]
    (gpu,) = parse_snapshot([function_line(resource=resource)]).functions
    assert [(bar.index, bar.name, bar.role) for bar in gpu.bars] == [
        (0, "BAR 0", Role.BAR), (1, "BAR 1", Role.BAR), (5, "BAR 5", Role.BAR), (6, "ROM", Role.ROM), (7, "VF BAR 0", Role.VF_BAR),
    ]  # fmt: skip
    assert [bar.size for bar in gpu.bars] == [16 * MIB, 256 * MIB, 128, 512 * 1024, 16 * MIB]
    assert all(bar.assigned for bar in gpu.bars)
    assert gpu.bar(0).is_memory
    assert not gpu.bar(0).is_64bit
    assert gpu.bar(1).is_64bit
    assert gpu.bar(1).prefetchable
    assert gpu.bar(5).is_io
    assert gpu.bar(3) is None


@pytest.mark.parametrize(
    ("bar", "assigned"),
    [
        (Bar(1, 0, 256 * MIB - 1, PREFETCH_64 | 0x20000000), False),
        (Bar(1, 0, 256 * MIB - 1, PREFETCH_64), False),
        (Bar(1, 0xAB000000, 0xABFFFFFF, MEMORY | 0x10000000), False),
        (Bar(1, 0, 0, PREFETCH_64), False),
        (Bar(1, 0xAB000000, 0xABFFFFFF, MEMORY), True),
        (Bar(13, 0, 0xFFF, IO), True),
    ],
)
def test_a_bar_without_a_place_is_not_assigned(bar, assigned):
    assert bar.assigned == assigned
    assert ("unassigned" in str(bar)) != assigned


@pytest.mark.parametrize("with_virtual_functions", [True, False])
def test_the_windows_of_a_bridge_have_the_same_numbers_on_every_kernel(function_line, with_virtual_functions):
    windows = [[0x6000, 0x6FFF, 0x101], [0xAB000000, 0xAC0FFFFF, 0x200], [0x382000000000, 0x382011FFFFFF, 0x102201], [0, 0, 0]]
    resource = [[0, 0, 0]] * (13 if with_virtual_functions else 7) + windows
    (bridge,) = parse_snapshot([function_line(resource=resource, **{"class": "060400"})]).functions
    assert [(bar.index, bar.name) for bar in bridge.bars] == [(13, "bridge window"), (14, "bridge window"), (15, "bridge window")]
    assert bridge.bar(14).size == 17 * MIB


def test_configuration_space_gets_its_trailing_zeros_back(function_line, config_bytes):
    raw = config_bytes().express().aer(0x100).raw()
    (gpu,) = parse_snapshot([function_line(config=raw.rstrip(b"\0").hex(), config_length=4096)]).functions
    assert gpu.config.raw == raw
    assert gpu.config.is_extended
    assert not gpu.is_gone


def test_a_device_that_fell_off_the_bus_is_gone(function_line):
    snapshot = parse_snapshot([function_line(config="ff" * 4096, config_length=4096)])
    assert snapshot.functions[0].is_gone


def test_express_functions_without_extended_space_are_unread_and_conventional_ones_are_not(function_line, config_bytes):
    express = config_bytes(size=256).express().raw()
    plain = config_bytes(size=256).power_management().raw()
    lines = [
        function_line(bdf=f"0000:3b:0{number}.0", config=raw.hex(), config_length=256)
        for number, raw in enumerate([express, plain])
    ]
    (unread,) = parse_snapshot(lines).unread
    assert unread.what == "extended configuration space"
    assert unread.of == ("0000:3b:00.0",)


@pytest.mark.parametrize(
    ("group", "mode"),
    [(None, "off"), ({"id": "12", "type": "identity"}, "identity"), ({"id": "12", "type": "DMA-FQ"}, "DMA-FQ"),
     ({"id": "12", "type": ""}, None)],
)  # fmt: skip
def test_the_iommu_is_judged_by_the_domain_of_the_functions_group(function_line, group, mode):
    snapshot = parse_snapshot([function_line(iommu_group=group)])
    assert snapshot.iommu(snapshot.functions[0]) == mode
    assert group is None or snapshot.functions[0].iommu_group == IommuGroup(**group)


def test_slots_windows_host_and_unread_are_read(function_line):
    snapshot = parse_snapshot([
        {"kind": "host", "kernel": "6.1.0", "uid": 1000, "python": "3.6.8", "command_line": "quiet", "boot_id": "b", "machine": "m",
         "iommus": ["dmar0"]},
        {"kind": "window", "root": "pci0000:3a", "space": "memory", "start": 0xAB000000, "end": 0xB87FFFFF},
        {"kind": "window", "root": "pci0000:3a", "space": "io", "start": 0x6000, "end": 0x7FFF},
        {"kind": "slot", "name": "1", "address": "0000:3b:00"},
        function_line(),
        {"kind": "unread", "what": "config", "of": ["0000:3b:00.0"], "why": "64 bytes", "do": "run as root"},
    ])  # fmt: skip
    assert snapshot.host.kernel == "6.1.0"
    assert not snapshot.host.is_root
    assert [(window.size, window.is_32bit, window.is_io) for window in snapshot.windows] == [
        (216 * MIB, True, False),
        (8192, True, True),
    ]
    assert snapshot.slot_of(snapshot.functions[0]).name == "1"
    assert str(snapshot.unread[0]) == "config of 1 function: 64 bytes; run as root"


def test_an_error_of_the_agent_is_the_benchs():
    with pytest.raises(BenchError, match="agent pci: x: y; z"):
        parse_snapshot([{"kind": "error", "what": "x", "why": "y", "do": "z"}])


def test_a_line_without_its_keys_is_named():
    with pytest.raises(DeviceError, match="agent pci: a function line is not as expected: KeyError"):
        parse_snapshot([{"kind": "function", "bdf": "0000:3b:00.0"}])


@pytest.mark.parametrize("broken", [{"config": "zz"}, {"resource": [[1, 2]]}, {"link": {"speed": 1}}, {"class": None}])
def test_a_line_of_another_shape_is_named(function_line, broken):
    with pytest.raises(DeviceError, match="agent pci: a function line is not as expected"):
        parse_snapshot([function_line(**broken), function_line()])


class Answers:
    """A host that answers the agent with ``objects`` and ``dmesg`` with a status and a text."""

    def __init__(self, objects, dmesg):
        self.objects = objects
        self.dmesg = dmesg

    def ask(self, question, on_line=None):
        if question.key == "dmesg":
            status, text = self.dmesg
            return CommandAnswer(status, text if status == 0 else "", text if status else "", 0.0, 0.0)
        lines = [*self.objects, {"kind": "end", "lines": len(self.objects)}]
        return CommandAnswer(0, "\n".join(map(json.dumps, lines)), "", 0.0, 0.0)

    def close(self):
        pass


def test_the_kernel_log_is_part_of_a_snapshot(function_line):
    text = "[0.0] Linux version 6.1.0\npci 0000:3b:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space\n"
    snapshot = read_snapshot(Host(Answers([function_line()], (0, text)), VirtualClock()))
    assert [shortage.name for shortage in snapshot.log.shortages] == ["BAR 1"]
    assert snapshot.unread == ()


def test_a_restricted_kernel_log_is_unread_and_no_failure(function_line):
    refused = (1, "dmesg: read kernel buffer failed: Operation not permitted\n")
    snapshot = read_snapshot(Host(Answers([function_line()], refused), VirtualClock()))
    assert len(snapshot.functions) == 1
    (unread,) = snapshot.unread
    assert unread.what == "the kernel log"
    assert "Operation not permitted" in unread.why
    assert unread.do.startswith("run as root")


@pytest.mark.parametrize("text", ["[ 99.0] usb 1-1: new device\n", ""])
def test_a_log_that_has_forgotten_the_boot_is_unread(function_line, text):
    snapshot = read_snapshot(Host(Answers([function_line()], (0, text)), VirtualClock()))
    assert [unread.what for unread in snapshot.unread] == ["the kernel log of the boot"]
