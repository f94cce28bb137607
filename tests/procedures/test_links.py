import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.devices.pcie import (
    Acs,
    Aer,
    ConfigSpace,
    Express,
    Function,
    IommuGroup,
    KernelLog,
    Link,
    LinkRegisters,
    PortType,
    Snapshot,
    Unread,
)
from harness.platform import Slot
from harness.procedures.links import (
    LinkEnds,
    access_control,
    capacity_words,
    common_identity,
    errors_unread,
    explain_link_errors,
    fatal_counts,
    fatal_errors,
    generation,
    hops,
    identity,
    iommu_translating,
    is_express,
    link_errors,
    links_to,
    payloads,
    reachable_generation,
    tightest,
    trouble_lines,
    uplink_links,
    why_unread,
    width,
)

SLOTS = tuple(Slot(name=f"box/{port}", path=f"pci0000:3a/00.0/00.0/0{port}.0/00.0") for port in (1, 2))
ROOT, SWITCH, PORT1, PORT2, GPU1, GPU2 = (
    "pci0000:3a/00.0",
    "pci0000:3a/00.0/00.0",
    "pci0000:3a/00.0/00.0/01.0",
    "pci0000:3a/00.0/00.0/02.0",
    SLOTS[0].path,
    SLOTS[1].path,
)
KINDS = {ROOT: PortType.ROOT_PORT, SWITCH: PortType.UPSTREAM, PORT1: PortType.DOWNSTREAM, PORT2: PortType.DOWNSTREAM}


def config(kind, *, size=4096, acs=None, aer=None, payload=256, most=3, target=3, lanes=16):
    link = LinkRegisters(most, 16, 1, lanes, None, False, False, target, 0)
    express = Express(0x68, 2, kind, 512, payload, 512, True, True, 0, link, None)
    return ConfigSpace(bytes(size), gone=False, problems=(), express=express, acs=acs, aer=aer)


def function(path, **changes):
    number = [ROOT, SWITCH, PORT1, PORT2, GPU1, GPU2].index(path)
    parent = path.rsplit("/", 1)[0]
    above = None if parent.startswith("pci0000:3a") and "/" not in parent else f"0000:{list(BUSES).index(parent):02x}:00.0"
    made = Function(f"0000:{number:02x}:00.0", path, above, config=config(KINDS.get(path, PortType.ENDPOINT)))
    return replace(made, **changes)


BUSES = (ROOT, SWITCH, PORT1, PORT2, GPU1, GPU2)


def tree(changes=(), **facts):
    changed = dict(changes)
    return Snapshot(tuple(function(path, **changed.get(path, {})) for path in BUSES), **facts)


def test_hops_go_from_the_root_down():
    assert [hop.path for hop in hops(tree(), GPU1)] == [ROOT, SWITCH, PORT1, GPU1]


@pytest.mark.parametrize("unread", [False, True])
def test_links_are_found_with_and_without_port_types(unread):
    changes = {path: {"config": None} for path in BUSES} if unread else {}
    links = links_to(tree(changes), GPU1)
    assert [(link.upper.path, link.lower.path) for link in links] == [(ROOT, SWITCH), (PORT1, GPU1)]


def test_an_uplink_reaches_to_its_far_end():
    assert [(link.upper.path, link.lower.path) for link in uplink_links(tree(), ROOT)] == [(ROOT, SWITCH)]
    assert uplink_links(Snapshot(()), ROOT) == ()


def test_registers_go_before_sysfs_and_sysfs_before_nothing():
    by_register = function(GPU1, link=Link(current_width=4, current_speed=8.0))
    assert (width(by_register), generation(by_register)) == (16, 1)
    by_sysfs = replace(by_register, config=None)
    assert (width(by_sysfs), generation(by_sysfs)) == (4, 3)
    assert (width(replace(by_sysfs, link=Link())), generation(replace(by_sysfs, link=Link()))) == (None, None)


def test_a_part_that_is_gone_has_no_width():
    gone = function(GPU1, config=ConfigSpace(b"\xff" * 64, gone=True, problems=()), link=Link(current_width=63))
    assert (width(gone), generation(gone)) == (None, None)


def test_a_gen4_port_above_a_gen3_gpu_may_rise_to_gen3():
    port = function(PORT1, config=config(PortType.DOWNSTREAM, most=4, target=4))
    assert reachable_generation(LinkEnds(port, function(GPU1))) == 3
    assert reachable_generation(LinkEnds(replace(port, config=None), function(GPU1))) is None


@pytest.mark.parametrize(
    ("narrow", "changed", "words"),
    [
        (ROOT, {"lanes": 8}, "x8 generation 3"),
        (PORT1, {"lanes": 4}, "x4 generation 3"),
        (SWITCH, {"most": 1}, "x16 generation 1"),
    ],
)
def test_the_tightest_hop_is_the_one_that_carries_least_whatever_end_holds_it_down(narrow, changed, words):
    hop = tightest(links_to(tree({narrow: {"config": config(KINDS[narrow], **changed)}}), GPU1))
    assert narrow in (hop.upper.path, hop.lower.path)
    assert capacity_words(hop) == words


def test_of_equal_hops_the_first_from_the_root_is_named_and_of_unread_ones_none():
    assert tightest(links_to(tree(), GPU1)).upper.path == ROOT
    assert tightest(()) is None
    assert tightest(links_to(tree({GPU1: {"config": None}}), GPU1)) is None


def test_without_a_target_an_end_aims_for_all_it_can():
    assert reachable_generation(LinkEnds(function(PORT1), function(GPU1, config=config(PortType.ENDPOINT, target=0)))) == 3


@pytest.mark.parametrize(
    ("control", "redirects"),
    [(0x00, False), (0x01, False), (0x11, False), (0x04, True), (0x08, True), (0x1D, True), (0x20, True)],
)
def test_source_validation_and_upstream_forwarding_do_not_redirect(control, redirects):
    seen = access_control(tree({PORT1: {"config": config(PortType.DOWNSTREAM, acs=Acs(0x7F, control))}}), SLOTS[0], SLOTS)
    assert bool(seen.redirecting) == redirects


def test_bridges_that_no_peer_traffic_passes_are_not_looked_at():
    redirecting = {"config": config(PortType.ROOT_PORT, acs=Acs(0x1F, 0x1D))}
    seen = access_control(tree({ROOT: redirecting, SWITCH: redirecting}), SLOTS[0], SLOTS)
    assert [bridge.path for bridge in seen.bridges] == [PORT1]
    assert seen.redirecting == ()


def test_access_control_beyond_what_was_read_is_unread_and_not_off():
    seen = access_control(tree({PORT1: {"config": config(PortType.DOWNSTREAM, size=256)}}), SLOTS[0], SLOTS)
    assert ([bridge.path for bridge in seen.unread], seen.redirecting) == ([PORT1], ())


def test_a_gpu_alone_has_no_peer_traffic():
    assert access_control(tree(), SLOTS[0], SLOTS[:1]).bridges == ()


@pytest.mark.parametrize(
    ("kind", "translates"), [("identity", False), ("DMA", True), ("DMA-FQ", True), ("unmanaged", True), ("", True)]
)
def test_a_domain_of_any_other_type_than_identity_translates(kind, translates):
    seen = tree({GPU1: {"iommu_group": IommuGroup("7", kind)}})
    assert iommu_translating(seen, SLOTS) == (("box/1",) if translates else ())


def test_a_part_that_is_not_there_is_not_said_to_translate():
    assert iommu_translating(Snapshot(()), SLOTS) == ()


def test_a_payload_size_that_was_not_read_is_none():
    sizes = payloads(tree({PORT1: {"config": ConfigSpace(bytes(64), gone=False, problems=())}}), SLOTS[0])
    assert [size for _, size in sizes] == [256, 256, None, 256]


def test_a_function_without_pci_express_has_no_payload_size():
    sizes = payloads(tree({GPU1: {"config": ConfigSpace(bytes(256), gone=False, problems=())}}), SLOTS[0])
    assert [hop.path for hop, _ in sizes] == [ROOT, SWITCH, PORT1]


@pytest.mark.parametrize(
    ("status", "mask", "severity", "bits"),
    [(0x10, 0, 0x462030, 0x10), (0x10, 0x10, 0x462030, 0), (0x100000, 0, 0x462030, 0), (0, 0, 0x462030, 0)],
)
def test_only_fatal_bits_that_are_not_masked_count(status, mask, severity, bits):
    aer = Aer(status, mask, severity, 0, 0)
    found = fatal_errors(tree({PORT1: {"config": config(PortType.DOWNSTREAM, aer=aer)}}), SLOTS[0])
    assert [value for _, value in found] == ([bits] if bits else [])


def test_fatal_errors_that_the_kernel_counted_are_found_though_the_registers_are_clear():
    counts = {"correctable": {"RxErr": 12}, "nonfatal": {"UnsupReq": 1}, "fatal": {"TLP": 3}}
    seen = tree({PORT1: {"aer": counts}, GPU1: {"aer": {"correctable": {"RxErr": 1}, "fatal": {}}}})
    assert [(function.path, dict(named)) for function, named in fatal_counts(seen, SLOTS[0])] == [(PORT1, {"TLP": 3})]
    assert fatal_errors(seen, SLOTS[0]) == ()


def test_error_registers_beyond_what_was_read_are_unread():
    seen = tree({GPU1: {"config": config(PortType.ENDPOINT, size=256)}, ROOT: {"config": None}})
    assert [hop.path for hop in errors_unread(seen, SLOTS[0])] == [ROOT, GPU1]


def test_a_conventional_function_has_no_error_registers_to_read():
    conventional = {"config": ConfigSpace(bytes(256), gone=False, problems=())}
    seen = tree(dict.fromkeys((ROOT, SWITCH, PORT1, GPU1), conventional))
    assert errors_unread(seen, SLOTS[0]) == ()
    assert access_control(seen, SLOTS[0], SLOTS).unread == ()
    assert payloads(seen, SLOTS[0]) == ()


@pytest.mark.parametrize(("size", "speaks"), [(4096, True), (256, True), (64, None)])
def test_64_bytes_do_not_tell_whether_a_function_speaks_pci_express(size, speaks):
    seen = config(PortType.ENDPOINT, size=size)
    assert is_express(function(GPU1, config=seen if size > 64 else replace(seen, express=None))) is speaks
    assert is_express(function(GPU1, config=None)) is None
    assert is_express(function(GPU1, config=ConfigSpace(bytes(256), gone=False, problems=()))) is False


def test_the_common_identity_is_that_of_most_slots_of_a_model():
    ids = {"vendor": "10de", "subsystem_vendor": "10de", "subsystem_device": "129e", "class_code": "030000"}
    seen = tree({GPU1: {**ids, "device": "1e30"}, GPU2: {**ids, "device": "1e30"}})
    assert common_identity(seen, SLOTS, "") == "10de:1e30 10de:129e 0300" == identity(seen.at(GPU1))
    assert common_identity(seen, SLOTS, "another model") == ""


BAD_LINES = [
    "pcieport 0000:02:00.0: pciehp: Slot(3): Link Down",
    "pcieport 0000:02:00.0: pciehp: Slot(3-1): Card not present",
    "pcieport 0000:02:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)",
    "nvidia 0000:04:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
    "pcieport 0000:02:00.0: DPC: containment event, status:0x1f01 source:0x0000",
    "nvidia 0000:04:00.0: Unable to change power state from D3cold to D0, device inaccessible",
    "nvidia 0000:04:00.0: can't change power state from D3cold to D0 (config space inaccessible)",
    "pci 0000:04:00.0: not ready 65535ms after FLR; giving up",
    "pcieport 0000:02:00.0: AER: device recovery failed",
]
GOOD_LINES = [
    "pcieport 0000:02:00.0: pciehp: Slot(3): Link Up",
    "pcieport 0000:02:00.0: pciehp: Slot(3): Link Down/Up ignored (recovered by DPC)",
    "nvidia 0000:04:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "nvidia 0000:04:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
    "pci 0000:02:00.0: bridge window [io  size 0x1000]: can't assign; no space",
    "pci 0000:04:00.0: not ready 1023ms after FLR; waiting",
    "pcieport 0000:02:00.0: AER: device recovery successful",
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_failure_on_the_way_is_trouble(line):
    assert trouble_lines(tree(log=KernelLog((f"[   12.345678] {line}",))), SLOTS[0]) == (line,)


@pytest.mark.parametrize("line", GOOD_LINES)
def test_a_recovery_or_a_corrected_error_is_no_trouble(line):
    assert trouble_lines(tree(log=KernelLog((f"[   12.345678] {line}",))), SLOTS[0]) == ()


def test_a_failure_elsewhere_is_no_trouble_of_this_slot():
    line = "pcieport 0000:03:00.0: pciehp: Slot(4): Link Down"
    seen = tree(log=KernelLog((line,)))
    assert (trouble_lines(seen, SLOTS[0]), trouble_lines(seen, SLOTS[1])) == ((), (line,))


def test_a_reason_is_given_for_what_was_not_read():
    unread = (
        Unread("configuration space beyond the header", "only 64 bytes", "run as root", ("0000:04:00.0",)),
        Unread("the kernel log", "Operation not permitted"),
    )
    seen = tree(unread=unread)
    assert why_unread(seen, [seen.at(GPU1)]).startswith("configuration space beyond the header of 1 function: only 64 bytes")
    assert why_unread(seen, [seen.at(GPU2)]) == "the kernel log: Operation not permitted"
    assert why_unread(tree()) == "it was not read, and the machine did not say why"


R640_LOG = "pcie/linuxhw__excerpts/R640_BIOS1.5.6_centos7_E752263E49.pci-root-excerpt.dmesg"


def test_the_recorded_log_of_a_healthy_machine_holds_no_trouble():
    recorded = Path(os.environ.get("BRINGUP_FIELD_DATA", "nowhere")) / R640_LOG
    if not recorded.exists():
        pytest.skip("no recorded field data here (BRINGUP_FIELD_DATA)")
    lines = tuple(recorded.read_text(encoding="utf-8", errors="replace").splitlines())
    names = sorted(set(re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", "\n".join(lines))))
    assert len(names) > 10
    for number, bdf in enumerate(names):
        path = f"pci0000:00/{number:02x}.0"
        seen = Snapshot((Function(bdf, path),), log=KernelLog(lines))
        assert trouble_lines(seen, Slot(name=bdf, path=path)) == ()


@pytest.mark.parametrize(
    ("counters", "told"),
    [
        ({"correctable": {}}, "the kernel counted 0"),
        ({"correctable": {"RxErr": 3}}, "the kernel counted 3"),
        (None, "keeps no count"),
    ],
    ids=["firmware owns the errors", "the kernel owns them", "an old kernel"],
)
def test_a_corrected_link_error_is_seen_in_the_register_whatever_the_kernel_counted(counters, told):
    aer = Aer(0, 0, 0, 0x2041, 0)  # RxErr, BadTLP, and an advisory error, which tells of no link
    (errors,) = link_errors(tree({PORT1: {"config": config(PortType.DOWNSTREAM, aer=aer), "aer": counters}}), SLOTS[0])
    assert errors.names == ("RxErr", "BadTLP")
    explained = explain_link_errors(SLOTS[0], [errors])
    assert "CESta RxErr+ BadTLP+" in explained
    assert told in explained
    assert ("counters stay at zero" in explained) == (told == "the kernel counted 0")


def test_an_advisory_error_alone_is_no_link_error():
    assert link_errors(tree({PORT1: {"config": config(PortType.DOWNSTREAM, aer=Aer(0, 0, 0, 0x2000, 0))}}), SLOTS[0]) == ()
