import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.devices.pcie import Resource, RootResource, parse_kernel_log, strip_stamp

OLDER = "pci 0000:3b:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]"
NEWER = "pci 0000:3b:00.0: BAR 1 [mem size 0x1000000000 64bit pref]: can't assign; no space"


@pytest.mark.parametrize(
    "stamped",
    [
        "{}",
        "[    1.465561] {}",
        "<4>[ 1465.465561] {}",
        "<4>{}",
        "[Sun Feb 23 16:24:18 2025] {}",
        "[Sun Feb  3 16:24:18 2025] {}",
        "[    1.465561][    T1] {}",
        "[    1.465561] [   C12] {}",
        "kern  :warn  : [    1.465561] {}",
        "Feb 23 16:24:18 lab-7 kernel: {}",
        "Feb 23 16:24:18 lab-7 kernel: [    1.465561] {}",
        "2025-02-23T16:24:18,123456+01:00 {}",
        "2025-02-23T16:24:18+0100 lab-7 kernel: {}",
        "{}\r\n",
    ],
)
def test_a_stamp_of_any_form_is_stripped_and_the_line_is_found(stamped):
    line = stamped.format(NEWER)
    assert strip_stamp(line) == NEWER
    assert [shortage.line for shortage in parse_kernel_log([line]).shortages] == [NEWER]


@pytest.mark.parametrize("text", ["[mem 0x1000-0x1fff]", "[bus 3a-5c]", "ACPI: PCI Root Bridge [PC02]", "pci: x", ""])
def test_what_is_no_stamp_stays(text):
    assert strip_stamp(text) == text


@pytest.mark.parametrize("line", [OLDER, NEWER, NEWER.replace("pci ", "nvidia "), NEWER.replace("pci ", "pcieport ")])
def test_both_wordings_of_a_missing_bar_say_the_same(line):
    (shortage,) = parse_kernel_log([line]).shortages
    assert (shortage.bdf, shortage.name, shortage.event) == ("0000:3b:00.0", "BAR 1", "no space")
    assert shortage.resource == Resource("mem", None, 64 << 30, is_64bit=True, prefetchable=True)
    assert not shortage.is_harmless


@pytest.mark.parametrize(
    ("older", "newer", "name"),
    [
        ("BAR 0: failed to assign [mem size 0x01000000]", "BAR 0 [mem size 0x01000000]: failed to assign", "BAR 0"),
        ("BAR 6: no space for [mem size 0x80000 pref]", "ROM [mem size 0x80000 pref]: can't assign; no space", "ROM"),
        ("BAR 7: no space for [mem size 0x80000]", "VF BAR 0 [mem size 0x80000]: can't assign; no space", "VF BAR 0"),
        ("BAR 13: no space for [io  size 0x1000]", "bridge window [io  size 0x1000]: can't assign; no space", "bridge window"),
        ("BAR 14: no space for [mem size 0x200000]", "bridge window [mem size 0x200000]: can't assign; no space", "bridge window"),
        (
            "can't claim BAR 6 [mem 0xfffc0000-0xffffffff pref]: no compatible bridge window",
            "ROM [mem 0xfffc0000-0xffffffff pref]: can't claim; no compatible bridge window",
            "ROM",
        ),
    ],
)
def test_each_resource_has_one_name_in_both_wordings(older, newer, name):
    (one,) = parse_kernel_log([f"pci 0000:3b:00.0: {older}"]).shortages
    (two,) = parse_kernel_log([f"pci 0000:3b:00.0: {newer}"]).shortages
    assert one.name == two.name == name
    assert (one.event, one.resource) == (two.event, two.resource)


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("BAR 0 [mem size 0x01000000]: failed to assign", False),
        ("bridge window [mem size 0x01100000]: can't assign; no space", False),
        ("BAR 5 [io  size 0x0080]: failed to assign", True),
        ("bridge window [io  size 0x1000]: can't assign; no space", True),
        ("ROM [mem size 0x00080000 pref]: can't assign; no space", True),
        ("VF BAR 2 [mem size 0x3000000000 64bit pref]: can't assign; no space", True),
    ],
)
def test_io_roms_and_virtual_functions_are_harmless_and_nothing_else_is(text, harmless):
    (shortage,) = parse_kernel_log([f"pci 0000:3b:00.0: {text}"]).shortages
    assert shortage.is_harmless == harmless


def test_a_later_assigned_cancels_an_earlier_no_space():
    lines = [
        "pci 0000:3b:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space",
        "pci 0000:3b:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign",
        "pci 0000:3b:00.0: BAR 3 [mem size 0x02000000 64bit pref]: can't assign; no space",
        "pci 0000:3b:00.0: BAR 1 [mem 0x382000000000-0x38200fffffff 64bit pref]: assigned",
    ]
    assert [shortage.name for shortage in parse_kernel_log(lines).shortages] == ["BAR 3"]


def test_an_assigned_in_the_other_wording_or_of_another_function_cancels_only_its_own():
    lines = [
        "pci 0000:3b:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]",
        "pci 0000:3c:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]",
        "pci 0000:3b:00.0: BAR 1 [mem 0x382000000000-0x38200fffffff 64bit pref]: assigned",
    ]
    assert [shortage.bdf for shortage in parse_kernel_log(lines).shortages] == ["0000:3c:00.0"]


def test_a_memory_window_does_not_cancel_a_prefetchable_one():
    lines = [
        "pci 0000:3a:00.0: bridge window [mem size 0x10000000 64bit pref]: can't assign; no space",
        "pci 0000:3a:00.0: bridge window [mem 0xab000000-0xac0fffff]: assigned",
    ]
    (shortage,) = parse_kernel_log(lines).shortages
    assert shortage.resource.prefetchable


def test_a_later_failure_of_the_same_resource_replaces_the_earlier_one():
    lines = [OLDER, "pci 0000:3b:00.0: BAR 1: failed to assign [mem size 0x1000000000 64bit pref]"]
    assert [shortage.event for shortage in parse_kernel_log(lines).shortages] == ["failed to assign"]


@pytest.mark.parametrize(
    "text",
    [
        "pcieport 0000:3b:00.0: No bus number available for hot-added bridge",
        "pci 0000:3b:00.0: devices behind bridge are unusable because [bus 5d] cannot be assigned for them",
        "pci 0000:3b:00.0: bridge has subordinate 60 but max busn 5c",
    ],
)
def test_a_bridge_without_bus_numbers_is_found(text):
    (shortage,) = parse_kernel_log([f"[    2.000000] {text}"]).buses
    assert (shortage.bdf, shortage.line) == ("0000:3b:00.0", text)


def test_a_reconfigured_bridge_is_no_bus_shortage():
    line = "pci 0000:3b:00.0: bridge configuration invalid ([bus ff-ff]), reconfiguring"
    assert parse_kernel_log([line]).buses == ()


def test_root_windows_and_bus_ranges_are_read_once_each():
    lines = [
        "pci_bus 0000:3a: root bus resource [mem 0xab000000-0xb87fffff window]",
        "pci_bus 0000:3a: root bus resource [mem 0xab000000-0xb87fffff window]",
        "pci_bus 0000:3a: root bus resource [io  0x6000-0x7fff window]",
        "pci_bus 0000:3a: root bus resource [bus 3a-5c]",
        "pci_bus 0001:00: root bus resource [bus 00]",
    ]
    roots = parse_kernel_log(lines).roots
    assert roots == (
        RootResource("pci0000:3a", "mem", 0xAB000000, 0xB87FFFFF),
        RootResource("pci0000:3a", "io", 0x6000, 0x7FFF),
        RootResource("pci0000:3a", "bus", 0x3A, 0x5C),
        RootResource("pci0001:00", "bus", 0, 0),
    )
    assert [root.size for root in roots] == [216 << 20, 8 << 10, 35, 1]


def test_a_bar_that_the_driver_refuses_is_found():
    log = parse_kernel_log(["[ 9.1] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)"])
    assert [(found.bdf, found.bar) for found in log.invalid_bars] == [("0000:14:00.0", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:9b:00): 79, pid=7992, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:9b:00.0): 79, GPU has fallen off the bus.",
    ],
)
def test_an_xid_is_found_with_its_address(text):
    assert [(xid.address, xid.number) for xid in parse_kernel_log([text]).xids] == [("0000:9b:00", 79)]


def test_the_log_says_whether_it_still_reaches_the_boot():
    assert parse_kernel_log(["[    0.000000] Linux version 6.1.0 (builder)"]).reaches_boot
    assert not parse_kernel_log(["[ 9999.000000] usb 1-1: new device"]).reaches_boot
    assert not parse_kernel_log([]).reaches_boot


@given(
    st.lists(
        st.text(max_size=120) | st.sampled_from([OLDER, NEWER]).flatmap(lambda line: st.integers(0, 90).map(lambda n: line[:n]))
    )
)
@settings(max_examples=80, deadline=None)
def test_no_line_makes_the_parser_raise(lines):
    assert parse_kernel_log(lines).lines == tuple(lines)


FIELD_DATA = os.environ.get("BRINGUP_FIELD_DATA", "")
recorded = pytest.mark.skipif(not FIELD_DATA, reason="set BRINGUP_FIELD_DATA to the folder with recorded field data")


@recorded
def test_an_untouched_r640_has_only_harmless_claims_and_its_windows():
    (file,) = (Path(FIELD_DATA) / "pcie/linuxhw__excerpts").glob("R640_BIOS1.5.6*.dmesg")
    lines = file.read_text().splitlines()
    log = parse_kernel_log(lines)
    claimed = {line.split("pci ")[1].split(": ")[0] for line in lines if "can't claim BAR 6" in line}
    assigned = {line.split("pci ")[1].split(": ")[0] for line in lines if ": BAR 6: assigned" in line}
    assert len(claimed) == 5
    assert {shortage.bdf for shortage in log.shortages} == claimed - assigned
    assert all(shortage.is_harmless for shortage in log.shortages)
    (buses,) = [root for root in log.roots if (root.root, root.kind) == ("pci0000:3a", "bus")]
    assert buses.size == 35
    slot_1 = [root.size for root in log.roots if (root.root, root.kind) == ("pci0000:3a", "mem")]
    assert slot_1 == [216 << 20, 64 << 30]
    assert not log.buses


@recorded
def test_every_recorded_xid_line_is_found():
    (file,) = (Path(FIELD_DATA) / "pcie/leptonai__gpud/components/accelerator/nvidia/xid/testdata").glob("dmesg-with-xid-119.log")
    lines = file.read_text().splitlines()
    xids = parse_kernel_log(lines).xids
    assert len(xids) == sum("NVRM: Xid (PCI" in line for line in lines) > 0
    assert {xid.number for xid in xids} == {119}
