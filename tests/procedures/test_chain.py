from dataclasses import replace

import pytest

from harness.devices.fabric import FabricPart
from harness.devices.pcie import (
    Bar,
    BusShortage,
    ConfigSpace,
    Express,
    Function,
    KernelLog,
    Link,
    LinkRegisters,
    PortType,
    RootWindow,
    SlotRegisters,
    Snapshot,
    Xid,
    parse_kernel_log,
)
from harness.errors import Blocked
from harness.platform import load_platform
from harness.procedures.chain import ChainLink, aperture_index, bars_expected, model_for, trace

PLATFORM = load_platform(
    """
    name = "bench"
    [gpu]
    [[model]]
    name = "RTX 8000"
    device = "10de:1e78"
    subsystem = "10de:13d8"
    bars = { 0 = "16 MiB", 3 = "32 MiB" }
    [[model]]
    name = "RTX 8000, other maker"
    device = "10de:1e78"
    subsystem = "10de:0001"
    bars = { 0 = "16 MiB" }
    [[uplink]]
    name = "box"
    path = "pci0000:3a/00.0"
    link = { generation = 3, width = 16 }
    [[slot]]
    name = "box/1"
    uplink = "box"
    path = "pci0000:3a/00.0/00.0/01.0/00.0"
    [[slot]]
    name = "box/2"
    uplink = "box"
    path = "pci0000:3a/00.0/00.0/02.0/00.0"
    """,
    "bench.toml",
)
ROOT, SWITCH = "pci0000:3a/00.0", "pci0000:3a/00.0/00.0"
PORTS = f"{SWITCH}/01.0", f"{SWITCH}/02.0"
GPUS = f"{PORTS[0]}/00.0", f"{PORTS[1]}/00.0"
MIB = 1 << 20
MEMORY, WIDE = 0x40200, 0x14220C
NVIDIA = {"vendor": "10de", "device": "1e78", "subsystem_vendor": "10de", "subsystem_device": "13d8", "class_code": "030200"}


def registers(kind, *, active=None, width=16, present=None, wide_bars=(1, 3)):
    link = LinkRegisters(3, 16, 3, width, active, False, False, 3, 0)
    slot = None if present is None else SlotRegisters(7, True, True, present, False, False, False)
    express = Express(0x68, 2, kind, 256, 256, 512, True, True, 0, link, slot)
    bars = tuple(0xC if index in wide_bars else 0 for index in range(6))
    return ConfigSpace(bytes(4096), gone=False, problems=(), bar_registers=bars, express=express)


def gpu(path, parent, bus, **changes):
    start = 0xAB000000 + bus * 16 * MIB
    bars = (
        Bar(0, start, start + 16 * MIB - 1, MEMORY),
        Bar(1, 0x382000000000, 0x382000000000 + 256 * MIB - 1, WIDE),
        Bar(3, 0x382010000000, 0x382010000000 + 32 * MIB - 1, WIDE),
    )
    function = Function(f"0000:{bus:02x}:00.0", path, parent, bars=bars, config=registers(PortType.ENDPOINT), **NVIDIA)
    return replace(function, **changes)


def bridge(bdf, path, parent, kind, **changes):
    down = kind in (PortType.ROOT_PORT, PortType.DOWNSTREAM)
    config = registers(kind, active=True if down else None, present=True if down else None)
    function = Function(bdf, path, parent, class_code="060400", config=config, secondary_bus=1, subordinate_bus=9)
    return replace(function, **changes)


def tree(**changes):
    """A root port, a switch, two ports with a GPU each; a change of None takes the function out."""
    functions = {
        "root": bridge("0000:3a:00.0", ROOT, None, PortType.ROOT_PORT),
        "switch": bridge("0000:3b:00.0", SWITCH, "0000:3a:00.0", PortType.UPSTREAM),
        "port1": bridge("0000:3c:01.0", PORTS[0], "0000:3b:00.0", PortType.DOWNSTREAM),
        "port2": bridge("0000:3c:02.0", PORTS[1], "0000:3b:00.0", PortType.DOWNSTREAM),
        "gpu1": gpu(GPUS[0], "0000:3c:01.0", 0x3D),
        "gpu2": gpu(GPUS[1], "0000:3c:02.0", 0x3E),
    }
    log = changes.pop("log", KernelLog())
    windows = changes.pop("windows", ())
    for name, change in changes.items():
        functions[name] = None if change is None else replace(functions[name], **change)
    return Snapshot(tuple(function for function in functions.values() if function is not None), windows=windows, log=log)


def lost(snapshot, fabric=None):
    return trace(snapshot, PLATFORM, PLATFORM.slots, fabric)


def down(kind=PortType.DOWNSTREAM, *, present=True):
    return {"config": registers(kind, active=False, width=0, present=present)}


def test_a_complete_tree_loses_nothing():
    chain = lost(tree())
    assert chain.losses == ()
    assert chain.present == ("box/1", "box/2")
    assert chain.lost_at("box/1") is None
    assert chain.explain("box/1") == "box/1: nothing is lost"


def test_the_first_link_that_lost_a_part_is_named_even_if_later_ones_are_broken_too():
    chain = lost(tree(port1=down() | {"secondary_bus": 0}, gpu1=None))
    assert chain.lost_at("box/1").link is ChainLink.LINK


def test_a_port_without_a_bus_loses_its_part_at_the_buses():
    chain = lost(tree(port2={"secondary_bus": 0, "subordinate_bus": 0}, gpu2=None))
    assert (chain.lost_at("box/2").link, chain.lost_at("box/2").path) == (ChainLink.BUSES, PORTS[1])
    assert chain.lost_at("box/1") is None


@pytest.mark.parametrize(
    "line",
    [
        "pci 0000:3c:02.0: devices behind bridge are unusable because [bus 5d] cannot be assigned for them",
        "pcieport 0000:3c:02.0: No bus number available for hot-added bridge",
    ],
)
def test_a_kernel_line_about_buses_is_evidence(line):
    chain = lost(tree(gpu2=None, log=parse_kernel_log([f"[    2.5] {line}"])))
    assert (chain.lost_at("box/2").link, chain.lost_at("box/2").evidence) == (ChainLink.BUSES, line)


def test_buses_that_run_out_at_the_switch_are_no_fault_of_the_uplink():
    log = KernelLog(buses=(BusShortage("0000:3a:00.0", "no bus for the switch"),))
    chain = lost(tree(switch=None, port1=None, port2=None, gpu1=None, gpu2=None, log=log))
    assert chain.uplinks == ()
    assert [loss.link for loss in chain.losses] == [ChainLink.BUSES] * 2


def test_nothing_behind_a_good_link_is_lost_at_enumeration():
    assert lost(tree(gpu1=None)).lost_at("box/1").link is ChainLink.ENUMERATED


def untold(kind=PortType.DOWNSTREAM):
    return {"config": registers(kind, active=None, present=True)}


def test_nothing_behind_a_port_that_does_not_report_its_link_is_not_counted_as_a_link_seen_up():
    chain = lost(tree(port1=untold(), gpu1=None))
    loss = chain.lost_at("box/1")
    assert (loss.link, loss.path) == (ChainLink.LINK, PORTS[0])
    assert "the port does not report whether its link is active, and nothing answers on bus 01" in loss.evidence
    assert "cannot tell which" in loss.cause
    assert dict(chain.counts())["links up"] == 1


def test_a_part_that_answers_behind_a_port_that_does_not_report_its_link_is_not_lost():
    assert lost(tree(port1=untold(), port2=untold())).losses == ()


def test_an_uplink_that_does_not_report_its_link_claims_no_late_chassis():
    below = {"switch": None, "port1": None, "port2": None, "gpu1": None, "gpu2": None}
    loss = lost(tree(root=untold(PortType.ROOT_PORT), **below)).uplink_lost("box")
    assert "does not report whether its link is active" in loss.evidence
    assert "after the host" not in loss.cause


@pytest.mark.parametrize(
    ("flags", "register", "said"),
    [(WIDE, 0xC, "its 64-bit BARs"), (WIDE & ~0x2008, 0x4, "its 32-bit BARs"), (MEMORY, 0, "its 32-bit BARs")],
    ids=["64-bit prefetchable", "64-bit and not prefetchable", "32-bit"],
)
def test_a_lost_bar_is_worded_by_the_space_it_should_be_in(flags, register, said):
    """An NVMe controller's BAR counts with the BARs, not with an aperture, whichever space it sits in.

    Below a bridge, 64 bits that are not prefetchable do not help: they need a place in the bridge's 32-bit window.
    """
    platform = load_platform(
        """
        name = "bench"
        [[model]]
        name = "controller"
        device = "1b36:0010"
        bars = { 4 = "16 GiB" }
        [[slot]]
        name = "box/1"
        path = "pci0000:3a/00.0/00.0/01.0/00.0"
        """,
        "bench.toml",
    )
    config = replace(registers(PortType.ENDPOINT), bar_registers=(0, 0, 0, 0, register, 0))
    bars = (Bar(4, 0, 0, flags | 0x20000000),)
    part = {"vendor": "1b36", "device": "0010", "class_code": "010802", "bars": bars, "config": config}
    chain = trace(tree(gpu1=part), platform, platform.slots)
    assert chain.lost_at("box/1").link is ChainLink.BARS
    assert f"box/1 is lost at {said}" in chain.explain("box/1")


PULLED = "pcieport 0000:3c:01.0: pciehp: Slot(7): Powering off due to button press"


@pytest.mark.parametrize("port", [untold(), down(present=False)], ids=["a port that tells no link", "a port whose link is down"])
def test_a_part_that_was_pulled_while_the_machine_ran_is_told_with_the_kernels_line(port):
    """Else it would be told as one that was never there."""
    log = parse_kernel_log(["[ 1.0] pcieport 0000:3c:02.0: pciehp: Slot(8): Link Down", f"[ 2.0] {PULLED}"])
    loss = lost(tree(gpu1=None, port1=port, log=log)).lost_at("box/1")
    assert (loss.link, loss.evidence) == (ChainLink.LINK, PULLED)
    assert "left while the machine ran" in loss.cause
    assert "0000:3c:01.0 LnkSta" in loss.cause


def test_a_part_that_came_back_after_it_was_pulled_is_not_told_as_pulled():
    log = parse_kernel_log([PULLED, "pcieport 0000:3c:01.0: pciehp: Slot(7): Link Up"])
    assert "pciehp" not in lost(tree(gpu1=None, port1=untold(), log=log)).lost_at("box/1").evidence


def test_a_part_that_was_plugged_in_later_blames_the_windows_that_were_sized_without_it():
    came = "pcieport 0000:3c:01.0: pciehp: Slot(7): Card present"
    short = "pci 0000:3d:00.0: BAR 0 [mem size 0x01000000]: can't assign; no space"
    part = {"bars": (Bar(0, 0, 16 * MIB - 1, MEMORY | 0x20000000),)}
    loss = lost(tree(gpu1=part, log=parse_kernel_log([came, short]))).lost_at("box/1")
    assert (loss.link, loss.evidence) == (ChainLink.BARS, short)
    assert came in loss.cause
    assert "cold-start" in loss.do
    assert "used up" in lost(tree(gpu1=part, log=parse_kernel_log([short]))).lost_at("box/1").cause


def test_neighbours_that_lose_their_place_to_a_late_part_are_told_so():
    """Linux 6.1 releases every window beside the late part's, and may find no place for any of them."""
    came = "pcieport 0000:3c:02.0: pciehp: Slot(8): Link Up"
    released = "pcieport 0000:3c:01.0: resource 14 [mem 0xab000000-0xabffffff] released"
    part = {"bars": (Bar(0, 0, 16 * MIB - 1, MEMORY | 0x20000000),)}
    loss = lost(tree(gpu1=part, log=parse_kernel_log([f"[ 8.1] {came}", f"[ 8.2] {released}"]))).lost_at("box/1")
    assert (loss.link, loss.evidence) == (ChainLink.BARS, released)
    assert came in loss.cause
    other = released.replace("3c:01.0", "3c:02.0")
    assert "passed this BAR over" in lost(tree(gpu1=part, log=parse_kernel_log([came, other]))).lost_at("box/1").cause


def test_who_holds_the_addresses_of_a_bridges_window_is_named():
    window = "pci 0000:3a:00.0: bridge window [mem 0xab000000-0xacffffff]"
    held = f"{window}: can't claim; address conflict with reserved [mem 0xac000000-0xb87fffff]"
    still = "pci 0000:3a:00.0: bridge window [mem size 0x02000000]: can't assign; no space"
    short = "pci 0000:3d:00.0: BAR 0 [mem size 0x01000000]: can't assign; no space"
    part = {"bars": (Bar(0, 0, 16 * MIB - 1, MEMORY | 0x20000000),)}
    cause = lost(tree(gpu1=part, log=parse_kernel_log([held, still, short]))).lost_at("box/1").cause
    assert "held by reserved [mem 0xac000000-0xb87fffff]" in cause
    assigned = f"{window}: assigned"
    assert "held by" not in lost(tree(gpu1=part, log=parse_kernel_log([held, assigned, short]))).lost_at("box/1").cause


def test_a_part_that_answers_ones_is_lost_at_enumeration_with_its_xid():
    gone = {"config": ConfigSpace(b"\xff" * 64, gone=True, problems=())}
    log = KernelLog(xids=(Xid("0000:3d:00", 79, "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus."),))
    loss = lost(tree(gpu1=gone, log=log)).lost_at("box/1")
    assert (loss.link, loss.path) == (ChainLink.ENUMERATED, GPUS[0])
    assert "Xid" in loss.evidence


def test_a_part_that_answers_ones_behind_a_dead_link_is_lost_at_the_link():
    gone = {"config": ConfigSpace(b"\xff" * 64, gone=True, problems=())}
    assert lost(tree(gpu1=gone, port1=down())).lost_at("box/1").link is ChainLink.LINK


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (down(PortType.ROOT_PORT, present=True), "does not train"),
        (down(PortType.ROOT_PORT, present=False), "missing or has no power"),
        ({}, "after the host had numbered its buses"),
        (None, "switched off or bifurcated"),
    ],
)
def test_a_lost_uplink_takes_all_its_slots_and_says_why(change, words):
    below = {"switch": None, "port1": None, "port2": None, "gpu1": None, "gpu2": None}
    chain = lost(tree(root=change, **below))
    assert words in chain.uplink_lost("box").cause
    assert [loss.link for loss in chain.losses] == [ChainLink.UPLINK] * 2
    assert "with it box/1, box/2" in chain.explain(PLATFORM.uplinks[0])


def test_a_far_end_that_answers_ones_is_a_lost_uplink():
    gone = {"config": ConfigSpace(b"\xff" * 64, gone=True, problems=())}
    assert "all ones" in lost(tree(switch=gone)).uplink_lost("box").evidence


def test_an_uplink_without_a_populated_slot_is_not_followed():
    assert trace(tree(root=None), PLATFORM, ()).uplinks == ()


def test_a_bar_in_32_bit_space_is_lost_before_one_in_64_bit_space():
    chain = lost(tree(gpu1={"bars": ()}, gpu2={"bars": tree().at(GPUS[1]).bars[:1]}))
    assert [loss.link for loss in chain.losses] == [ChainLink.BARS, ChainLink.APERTURE]


def test_a_bar_3_without_a_place_counts_with_the_aperture_it_shares_the_window_with():
    bars = tree().at(GPUS[0]).bars
    assert lost(tree(gpu1={"bars": bars[:2]})).lost_at("box/1").link is ChainLink.APERTURE


def test_a_shortage_that_the_final_state_does_not_show_loses_nothing():
    log = parse_kernel_log(["pci 0000:3d:00.0: BAR 0 [mem size 0x01000000]: failed to assign"])
    assert len(log.shortages) == 1
    assert lost(tree(log=log)).losses == ()


def test_a_shortage_of_the_window_above_explains_a_bar_without_a_line():
    log = parse_kernel_log(["pci 0000:3c:01.0: bridge window [mem size 0x12000000 64bit pref]: failed to assign"])
    loss = lost(tree(gpu1={"bars": tree().at(GPUS[0]).bars[:1]}, log=log)).lost_at("box/1")
    assert loss.evidence.startswith("pci 0000:3c:01.0: bridge window")
    assert "is used up" in loss.cause


def test_of_several_bars_without_a_place_the_largest_is_told():
    """Firmware that cannot place 16 GiB gives the controller's registers no place either: they are not what is scarce."""
    platform = load_platform(
        """
        name = "bench"
        [[model]]
        name = "controller"
        device = "1b36:0010"
        bars = { 0 = "16 KiB", 4 = "16 GiB" }
        [[slot]]
        name = "box/1"
        path = "pci0000:3a/00.0/00.0/01.0/00.0"
        """,
        "bench.toml",
    )
    config = replace(registers(PortType.ENDPOINT), bar_registers=(4, 0, 0, 0, 0xC, 0))
    part = {"vendor": "1b36", "device": "0010", "class_code": "010802", "bars": (), "config": config}
    bars = "0 [mem size 0x4000 64bit]", "4 [mem size 0x400000000 64bit pref]"
    lines = [f"pci 0000:3d:00.0: BAR {bar}: failed to assign" for bar in bars]
    loss = trace(tree(gpu1=part, log=parse_kernel_log(lines)), platform, platform.slots).lost_at("box/1")
    assert (loss.lost, loss.evidence) == ("its 64-bit BARs", lines[1])


def test_a_harmless_shortage_above_explains_nothing():
    log = parse_kernel_log(["pci 0000:3c:01.0: bridge window [io  size 0x1000]: failed to assign"])
    loss = lost(tree(gpu1={"bars": tree().at(GPUS[0]).bars[:1]}, log=log)).lost_at("box/1")
    assert loss.evidence == "0000:3d:00.0: BAR 1 has no address, and the kernel log has no line about it"
    assert "passed this BAR over" in loss.cause


def test_windows_that_were_not_read_are_not_called_missing():
    bars = {"bars": tree().at(GPUS[0]).bars[:1]}
    assert "MmioAbove4Gb" not in lost(tree(gpu1=bars)).losses[0].do
    low = (RootWindow("pci0000:3a", 0xAB000000, 0xB87FFFFF),)
    assert "MmioAbove4Gb" in lost(tree(gpu1=bars, windows=low)).losses[0].do


def test_without_registers_sysfs_tells_of_the_link():
    unread = {"config": None, "link": Link(current_width=0)}
    assert lost(tree(port1=unread, gpu1=None)).lost_at("box/1").link is ChainLink.LINK
    up = {"config": None, "link": Link(current_width=16)}
    loss = lost(tree(port1=up, gpu1=None)).lost_at("box/1")
    assert loss.link is ChainLink.ENUMERATED
    assert "its registers were not read" in loss.evidence


def test_a_link_that_nothing_tells_of_is_not_called_down():
    unread = {"config": None, "link": Link()}
    assert lost(tree(port1=unread, gpu1=None)).lost_at("box/1").link is ChainLink.ENUMERATED


def test_a_machine_that_shows_nothing_loses_everything_at_the_uplink():
    chain = lost(Snapshot(()))
    assert [count for _, count in chain.counts()] == [2, 0, 0, 0, 0, 0, 0]


def test_counts_fall_where_parts_are_lost():
    chain = lost(tree(port1=down(), gpu1=None, gpu2={"bars": ()}))
    assert chain.counts() == (
        ("expected", 2),
        ("uplinks up", 2),
        ("links up", 1),
        ("buses assigned", 1),
        ("enumerated", 1),
        ("BARs assigned", 0),
        ("apertures assigned", 0),
    )


def test_later_stages_add_their_links():
    chain = lost(tree()).then("driver bound", {"box/1", "box/2"}).then("NVML", ["box/2"])
    assert chain.counts()[-2:] == (("driver bound", 2), ("NVML", 1))


def test_the_fabric_adds_its_count_and_the_serial_numbers():
    fabric = (FabricPart("box/1", "4711", "us"), FabricPart("box/2", "4712", "them"), FabricPart("far/1", "4713", "them"))
    chain = lost(tree(gpu1=None), fabric)
    assert chain.counts()[:2] == (("expected", 2), ("fabric says", 1))
    assert chain.explain("box/1").splitlines()[0] == "box/1 (serial 4711) is lost at enumeration"


def test_a_fabric_that_names_no_slots_has_no_count():
    assert lost(tree(), (FabricPart("", "4711", "us"),)).counts() == lost(tree()).counts()


def test_an_explanation_names_chain_place_evidence_cause_and_next_step():
    lines = lost(tree(port2=down(), gpu2=None)).explain(PLATFORM.slot("box/2")).splitlines()
    assert lines[0] == "box/2 is lost at its link"
    assert [line.split()[0] for line in lines[1:]] == ["chain", "where", "seen", "likely", "next"]
    assert "uplinks up 2 > links up 1 >" in lines[1]
    assert "0000:3c:02.0 LnkSta gen3 x0 DLActive- SltSta PresDet+ DLLSC-" in lines[3]


def test_a_slot_passes_the_links_before_its_loss_and_is_blocked_after_it():
    chain = lost(tree(gpu1=None))
    assert chain.holds("box/1", ChainLink.UPLINK)
    assert chain.holds("box/1", ChainLink.BUSES)
    assert not chain.holds("box/1", ChainLink.ENUMERATED)
    with pytest.raises(Blocked, match="box/1 was lost before, at enumeration"):
        chain.holds("box/1", ChainLink.BARS)
    assert chain.holds("box/2", ChainLink.APERTURE)


def test_a_model_is_found_by_its_subsystem_and_else_by_its_device():
    function = tree().at(GPUS[0])
    assert model_for(function, PLATFORM.models).name == "RTX 8000"
    assert model_for(replace(function, subsystem_device="0001"), PLATFORM.models).name == "RTX 8000, other maker"
    assert model_for(replace(function, subsystem_device="ffff"), PLATFORM.models).name == "RTX 8000"
    assert model_for(replace(function, device="ffff"), PLATFORM.models) is None


def test_the_aperture_is_bar_1_behind_a_32_bit_bar_0_and_bar_2_behind_a_64_bit_one():
    turing = tree().at(GPUS[0])
    assert aperture_index(turing) == 1
    hopper = replace(turing, config=registers(PortType.ENDPOINT, wide_bars=(0, 2, 4)))
    assert aperture_index(hopper) == 2
    assert bars_expected(hopper, None) == ((), (0, 2))


def test_only_an_nvidia_gpu_has_an_aperture():
    function = tree().at(GPUS[0])
    assert aperture_index(replace(function, class_code="010802")) is None
    assert aperture_index(replace(function, vendor="1002")) is None


def test_a_device_that_is_no_gpu_needs_the_bars_its_model_lists_in_whatever_space():
    drive = replace(tree().at(GPUS[0]), class_code="010802")
    assert bars_expected(drive, PLATFORM.models[0]) == ((0, 3), ())
    assert bars_expected(drive, None) == ((), ())


def test_a_gpu_of_no_known_model_still_needs_bar_0_and_its_aperture():
    assert bars_expected(tree().at(GPUS[0]), None) == ((0,), (1,))


def test_a_device_on_the_root_bus_of_a_virtual_machine_loses_nothing():
    platform = load_platform('name = "vm"\n[[slot]]\nname = "disk"\npath = "pci0000:00/02.0"\n', "vm.toml")
    disk = Function("0000:00:02.0", "pci0000:00/02.0", None, "1af4", "1001", class_code="010000")
    assert trace(Snapshot((disk,)), platform, platform.slots).losses == ()
    loss = trace(Snapshot(()), platform, platform.slots).losses[0]
    assert (loss.link, loss.path) == (ChainLink.ENUMERATED, "pci0000:00/02.0")
