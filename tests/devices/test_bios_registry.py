from __future__ import annotations

import json

import pytest

from harness.devices.bios_registry import parse_registry


def attribute(name, kind="Enumeration", values=("Enabled", "Disabled"), **more):
    return {"AttributeName": name, "Type": kind, "Value": [{"ValueName": value} for value in values], "ReadOnly": False, **more}


def rule(target, prop, result, *conditions):
    terms = [
        {
            "MapFromAttribute": name,
            "MapFromProperty": "CurrentValue",
            "MapFromCondition": condition,
            "MapFromValue": value,
            **({"MapTerms": joined} if joined else {}),
        }
        for name, condition, value, joined in conditions
    ]
    dependency = {"MapFrom": terms, "MapToAttribute": target, "MapToProperty": prop, "MapToValue": result}
    return {"Type": "Map", "DependencyFor": target, "Dependency": dependency}


REGISTRY = parse_registry(
    {
        "Id": "BiosAttributeRegistry.v1_0_3",
        "RegistryEntries": {
            "Attributes": [
                attribute("SysProfile", values=("PerfOptimized", "Custom")),
                attribute("PcieAspmL1", ReadOnly=True),
                attribute("HttpDev1Ip", "String", (), MinLength=0, MaxLength=8, ValueExpression="^[0-9.]*$", ReadOnly=True),
                attribute("Delay", "Integer", (), LowerBound=60, UpperBound=240),
                attribute("SetupPassword", "Password", ()),
                attribute("Odd", "String", (), ValueExpression="([", MaxLength=3),
            ],
            "Dependencies": [
                rule("PcieAspmL1", "ReadOnly", True, ("SysProfile", "NEQ", "Custom", "")),
                rule("PcieAspmL1", "CurrentValue", "Disabled", ("SysProfile", "EQU", "PerfOptimized", "")),
                rule("PcieAspmL1", "Value", [{"ValueName": "Disabled"}], ("SysProfile", "EQU", "PerfOptimized", "")),
                rule("HttpDev1Ip", "ReadOnly", True, ("On", "EQU", "Disabled", ""), ("Dhcp", "EQU", "Enabled", "")),
                rule("Delay", "ReadOnly", True, ("On", "EQU", "Disabled", ""), ("Dhcp", "EQU", "Enabled", "AND")),
                {"Type": "Map", "Dependency": {}},
            ],
        },
    }
)


@pytest.mark.parametrize(
    ("name", "value", "objection"),
    [
        ("SysProfile", "Custom", ""),
        ("SysProfile", "custom", "takes one of PerfOptimized, Custom"),
        ("SysProfile", 1, "takes text"),
        ("Delay", 60, ""),
        ("Delay", 59, "takes 60 to 240"),
        ("Delay", "60", "takes a whole number"),
        ("Delay", True, "takes a whole number"),
        ("HttpDev1Ip", "1.2.3.4", ""),
        ("HttpDev1Ip", "one", "takes text like"),
        ("HttpDev1Ip", "1.2.3.4.5.6", "takes 0 to 8 characters"),
        ("SetupPassword", "x", "is a password"),
        ("Odd", "abc", ""),
    ],
)
def test_a_value_is_checked_against_its_type(name, value, objection):
    assert objection in REGISTRY.attributes[name].objection(value)
    assert bool(objection) == bool(REGISTRY.attributes[name].objection(value))


def test_read_only_is_judged_by_the_values_after_the_same_request():
    before = {"SysProfile": "PerfOptimized", "PcieAspmL1": "Disabled"}
    assert REGISTRY.is_read_only("PcieAspmL1", before, before)
    assert not REGISTRY.is_read_only("PcieAspmL1", before, before | {"SysProfile": "Custom"})


def test_read_only_that_no_rule_explains_stays():
    values = {"SysProfile": "Custom", "PcieAspmL1": "Disabled"}
    assert REGISTRY.is_read_only("PcieAspmL1", values, values)


def test_under_lockdown_only_the_rules_lock():
    values = {"SysProfile": "Custom", "PcieAspmL1": "Disabled"}
    assert not REGISTRY.unlocked().is_read_only("PcieAspmL1", values, values)
    locked = values | {"SysProfile": "PerfOptimized"}
    assert REGISTRY.unlocked().is_read_only("PcieAspmL1", locked, locked)


def test_several_conditions_mean_or_unless_they_say_and():
    either = {"On": "Enabled", "Dhcp": "Enabled", "HttpDev1Ip": "", "Delay": 60}
    assert REGISTRY.is_read_only("HttpDev1Ip", either, either)
    assert not REGISTRY.is_read_only("Delay", either, either)
    both = either | {"On": "Disabled"}
    assert REGISTRY.is_read_only("Delay", both, both)


def test_a_condition_on_an_attribute_that_is_not_there_holds_neither_way():
    assert not REGISTRY.unlocked().is_read_only("PcieAspmL1", {}, {})


def test_what_the_bios_changes_by_itself_is_foretold():
    before = {"SysProfile": "Custom", "PcieAspmL1": "Enabled"}
    effects = REGISTRY.settle(before, {"SysProfile": "PerfOptimized"})
    assert effects.values["PcieAspmL1"] == "Disabled"
    assert effects.forced["PcieAspmL1"].reason() == "SysProfile is PerfOptimized"
    assert REGISTRY.settle(before | {"PcieAspmL1": "Disabled"}, {"SysProfile": "PerfOptimized"}).forced == {}


def test_a_rule_narrows_what_may_be_chosen():
    assert REGISTRY.choices("PcieAspmL1", {"SysProfile": "PerfOptimized"}) == ("Disabled",)
    assert REGISTRY.choices("PcieAspmL1", {"SysProfile": "Custom"}) == ("Enabled", "Disabled")


@pytest.mark.parametrize(
    ("capture", "attributes", "rules"),
    [
        ("NVIDIA__libredfish/R750_idrac9_6.00.30.00_bios_1.8.2_H100", 682, 588),
        ("sailfishdell__sailfish/R740_idrac9_3.15.15.15_bios_0.4.1", 358, 228),
        ("harvester__seeder/R630_idrac8_2.81.81.81_bios_2.13.0", 249, 172),
    ],
)
def test_recorded_registries_are_read_whole(field_data, capture, attributes, rules):
    folder = field_data / "idrac" / capture / "redfish/v1/Systems/System.Embedded.1/Bios"
    registry = parse_registry(json.loads((folder / "BiosRegistry/index.json").read_text()))
    current = json.loads((folder / "index.json").read_text())["Attributes"]
    assert len(registry.attributes) == attributes
    assert len(registry.rules) == rules
    assert not set(current) - set(registry.attributes) - {"SHA256SetupPassword", "SHA256SetupPasswordSalt"}
    assert registry.attributes["MmioAbove4Gb"].choices == ("Enabled", "Disabled") or "MmioAbove4Gb" in current
