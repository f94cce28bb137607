from __future__ import annotations

import pytest

from harness.devices.bios_registry import Attribute, Condition, Registry, Rule
from harness.limits import at_least, between, exactly, matches, one_of
from harness.procedures.bios.danger import DANGERS, NAMES, unnamed
from harness.procedures.bios.plan import make_plan

SWITCH = ("Enabled", "Disabled")
REGISTRY = Registry(
    "r",
    {
        "MmioAbove4Gb": Attribute("MmioAbove4Gb", "Enumeration", SWITCH),
        "AcPwrRcvry": Attribute("AcPwrRcvry", "Enumeration", ("Last", "On", "Off")),
        "MemoryMappedIOH": Attribute("MemoryMappedIOH", "Enumeration", ("56TB", "12TB", "512GB")),
        "BootMode": Attribute("BootMode", "Enumeration", ("Bios", "Uefi")),
        "Slot1": Attribute("Slot1", "Enumeration", ("Enabled", "Disabled", "BootDriverDisabled")),
        "Delay": Attribute("Delay", "Integer", low=60, high=240),
        "SysProfile": Attribute("SysProfile", "Enumeration", ("PerfOptimized", "Custom")),
        "PcieAspmL1": Attribute("PcieAspmL1", "Enumeration", SWITCH, is_read_only=True),
        "Locked": Attribute("Locked", "Enumeration", SWITCH, is_read_only=True),
        "Hidden": Attribute("Hidden", "Enumeration", SWITCH),
        "SetupPassword": Attribute("SetupPassword", "Password"),
    },
    (
        Rule("PcieAspmL1", "ReadOnly", True, (Condition("SysProfile", "Custom", is_negated=True),)),
        Rule("PcieAspmL1", "CurrentValue", "Disabled", (Condition("SysProfile", "PerfOptimized"),)),
    ),
)
CURRENT = {
    "MmioAbove4Gb": "Disabled",
    "AcPwrRcvry": "Off",
    "MemoryMappedIOH": "56TB",
    "BootMode": "Uefi",
    "Slot1": "Enabled",
    "Delay": 60,
    "SysProfile": "PerfOptimized",
    "PcieAspmL1": "Disabled",
    "Locked": "Enabled",
    "SetupPassword": None,
}


def plan(wanted, named=(), **more):
    return make_plan(CURRENT, wanted, REGISTRY, named, **more)


def test_what_is_as_wanted_is_left_alone():
    found = plan({"BootMode": exactly("Uefi"), "MemoryMappedIOH": one_of("56TB", "12TB"), "Delay": at_least(60)})
    assert found.is_empty
    assert not found.can_be_written
    assert str(found) == "the BIOS is as the platform wants it"


def test_only_what_differs_is_written():
    found = plan({"MmioAbove4Gb": exactly("Enabled"), "BootMode": exactly("Uefi")})
    assert found.values == {"MmioAbove4Gb": "Enabled"}
    assert found.can_be_written
    assert str(found) == "would change MmioAbove4Gb Disabled -> Enabled"


@pytest.mark.parametrize(
    ("name", "limit", "target"),
    [
        ("AcPwrRcvry", one_of("Last", "On"), "Last"),
        ("AcPwrRcvry", one_of("Never", "On"), "On"),
        ("Delay", at_least(90), 90),
        ("Delay", between(120, 180), 120),
        ("Delay", exactly(120.0), 120),
        ("AcPwrRcvry", matches("L.*"), "Last"),
    ],
)
def test_the_value_to_write_satisfies_the_limit(name, limit, target):
    value = plan({name: limit}).values[name]
    assert value == target
    assert type(value) is type(target)


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [
        ("Hidden", exactly("Enabled"), "does not show it"),
        ("Locked", exactly("Disabled"), "read-only"),
        ("PcieAspmL1", exactly("Enabled"), "read-only"),
    ],
)
def test_what_cannot_be_written_is_a_gap_and_stops_the_rest(name, limit, reason):
    found = plan({name: limit, "MmioAbove4Gb": exactly("Enabled")} if name != "MmioAbove4Gb" else {name: limit}, NAMES)
    (gap,) = found.gaps
    assert reason in gap.reason
    assert not found.can_be_written
    assert not found.mistakes
    assert f"cannot set {name}, which " in str(found)
    assert "None" not in str(found)


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [
        ("MmioAbove4GB", exactly("Enabled"), "this BIOS has no attribute MmioAbove4GB; did you mean 'MmioAbove4Gb'?"),
        ("Nowhere", exactly("Enabled"), "this BIOS has no attribute Nowhere"),
        ("MmioAbove4Gb", exactly("Off"), "it takes one of Enabled, Disabled, not 'Off'"),
        ("AcPwrRcvry", one_of("Never", "Always"), "this BIOS takes no such value of Last, On, Off"),
        ("AcPwrRcvry", matches("X.*"), "this BIOS takes no such value of Last, On, Off"),
        ("Delay", exactly("60"), "it takes a whole number, not '60'"),
        ("Delay", exactly(20), "it takes 60 to 240, not 20"),
        ("Delay", at_least(500), "this BIOS takes no such value"),
        ("SetupPassword", exactly("x"), "it is a password"),
    ],
)
def test_what_this_bios_does_not_know_is_a_mistake_of_the_platform_file(name, limit, reason):
    found = plan({name: limit, "BootMode": exactly("Bios")}, NAMES)
    (mistake,) = found.mistakes
    assert mistake.reason == reason
    assert not found.can_be_written
    assert "None" not in str(found)


def test_an_unreadable_registry_accuses_nobody():
    found = make_plan(CURRENT, {"Nowhere": exactly("x")}, Registry())
    assert found.gaps
    assert not found.mistakes


def test_a_range_that_the_bios_meets_within_its_own_bounds_is_written():
    assert plan({"Delay": between(200, 999)}).values == {"Delay": 200}
    assert plan({"Delay": between(61, 999)}).values == {"Delay": 61}


def test_what_may_not_be_changed_is_not_listed_as_what_would_be():
    found = plan({"BootMode": exactly("Bios"), "MmioAbove4Gb": exactly("Enabled")})
    would, may_not = str(found).splitlines()
    assert would == "would change MmioAbove4Gb Disabled -> Enabled"
    assert may_not.startswith("may not change BootMode Uefi -> Bios: ")
    assert str(plan({"BootMode": exactly("Bios")})).startswith("may not change BootMode")


def test_read_only_is_judged_after_the_whole_request():
    found = plan({"SysProfile": exactly("Custom"), "PcieAspmL1": exactly("Enabled")})
    assert found.values == {"SysProfile": "Custom", "PcieAspmL1": "Enabled"}
    assert found.gaps == ()


def test_under_lockdown_the_plan_still_says_what_it_would_change():
    found = plan({"Locked": exactly("Disabled")}, is_locked_down=True)
    assert found.values == {"Locked": "Disabled"}


def test_what_the_bios_changes_beside_is_told():
    current = CURRENT | {"SysProfile": "Custom", "PcieAspmL1": "Enabled"}
    found = make_plan(current, {"SysProfile": exactly("PerfOptimized")}, REGISTRY)
    assert found.forced == {"PcieAspmL1": "Disabled"}
    assert "the BIOS itself would change PcieAspmL1 -> Disabled" in str(found)


@pytest.mark.parametrize(
    ("name", "limit", "danger"),
    [
        ("BootMode", exactly("Bios"), "boot-mode"),
        ("Slot1", exactly("Disabled"), "slot"),
        ("MemoryMappedIOH", exactly("512GB"), "memory"),
    ],
)
def test_a_dangerous_change_is_refused_until_it_is_named(name, limit, danger):
    refused = plan({name: limit})
    assert not refused.can_be_written
    assert refused.refused[0][1].name == danger
    assert f"name it with --danger {danger}" in str(refused)
    assert plan({name: limit}, {danger}).can_be_written


@pytest.mark.parametrize(
    ("attribute", "value", "danger"),
    [
        ("SerialComm", "Off", "console"),
        ("SerialPortAddress", "Com1", "console"),
        ("FailSafeBaud", "9600", "console"),
        ("BootMode", "Uefi", "boot-mode"),
        ("SecureBoot", "Enabled", "secure-boot"),
        ("SecureBootPolicy", "Custom", "secure-boot"),
        ("SetupPassword", "x", "password"),
        ("TpmSecurity", "Off", "tpm"),
        ("NvmeMode", "Raid", "storage-mode"),
        ("EmbSata", "RaidMode", "storage-mode"),
        ("Slot3", "Disabled", "slot"),
        ("Slot1Bif", "x4x4x8", "slot"),
        ("MmioAbove4Gb", "Disabled", "mmio"),
        ("MemoryMappedIOH", "512GB", "memory"),
        ("UefiVariableAccess", "Controlled", "uefi-variables"),
        ("InBandManageabilityInterface", "Disabled", "in-band-management"),
        ("AcPwrRcvry", "Off", "ac-recovery"),
    ],
)
def test_every_class_of_danger_covers_what_it_is_about(attribute, value, danger):
    assert [found.name for found in unnamed(attribute, value, ())] == [danger]
    assert unnamed(attribute, value, {danger}) == ()


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("MmioAbove4Gb", "Enabled"),
        ("MemoryMappedIOH", "12TB"),
        ("AcPwrRcvry", "Last"),
        ("Slot1", "Enabled"),
        ("OsWatchdogTimer", "Disabled"),
        ("EmbVideo", "Enabled"),
    ],
)
def test_what_a_platform_usually_wants_is_no_danger(attribute, value):
    assert unnamed(attribute, value, ()) == ()


def test_the_names_of_dangers_are_told_once_each():
    assert sorted(NAMES) == sorted({danger.name for danger in DANGERS})
