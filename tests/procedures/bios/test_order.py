"""In which order settings are written, on small registries and over every recorded one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.devices.bios_registry import Attribute, Condition, Registry, Rule, parse_registry
from harness.limits import exactly
from harness.procedures.bios.danger import NAMES
from harness.procedures.bios.order import arrange
from harness.procedures.bios.plan import make_plan

SWITCH = ("Enabled", "Disabled")


def switch(name: str, *, is_read_only: bool = False) -> Attribute:
    return Attribute(name, "Enumeration", SWITCH, is_read_only=is_read_only)


def lock(target: str, *conditions: Condition) -> Rule:
    return Rule(target, "ReadOnly", True, conditions)


def force(target: str, value: str, *conditions: Condition) -> Rule:
    return Rule(target, "CurrentValue", value, conditions)


def registry(*rules: Rule, locked: tuple[str, ...] = ()) -> Registry:
    names = {rule.target for rule in rules} | {each.attribute for rule in rules for each in rule.conditions} | {"Free"}
    return Registry("r", {name: switch(name, is_read_only=name in locked) for name in names}, rules)


ON, OFF = "Enabled", "Disabled"


def test_what_one_setting_unlocks_goes_with_it_in_one_request():
    rules = registry(lock("B", Condition("A", OFF)), locked=("B",))
    order = arrange({"B": ON, "A": ON}, {"A": OFF, "B": OFF}, rules)
    assert [set(step) for step in order.steps] == [{"A", "B"}]
    assert order.needs == ("B is read-only while A is Disabled: it goes with A in one request",)


def test_what_locks_another_waits_for_a_second_boot():
    rules = registry(lock("B", Condition("A", ON)), lock("A", Condition("B", OFF)))
    order = arrange({"A": ON, "B": ON, "Free": ON}, {"A": OFF, "B": OFF, "Free": OFF}, rules)
    assert [set(step) for step in order.steps] == [{"B", "Free"}, {"A"}]
    assert order.needs == ("A is read-only while B is Disabled: it goes after boot 1",)


def test_what_only_a_forced_change_unlocks_waits_for_a_second_boot():
    rules = registry(force("B", ON, Condition("A", ON)), lock("C", Condition("B", OFF)), locked=("C",))
    order = arrange({"A": ON, "C": ON}, {"A": OFF, "B": OFF, "C": OFF}, rules)
    assert order.steps == (("A",), ("C",))
    assert order.forced == {"B": (ON, "A is Enabled")}


def test_forced_changes_are_followed_to_their_end():
    rules = registry(force("C", ON, Condition("B", ON)), force("B", ON, Condition("A", ON)))
    order = arrange({"A": ON}, {"A": OFF, "B": OFF, "C": OFF}, rules)
    assert order.forced == {"B": (ON, "A is Enabled"), "C": (ON, "B is Enabled")}


def test_what_the_bios_would_force_away_is_blocked_with_the_reason():
    rules = registry(force("B", OFF, Condition("A", ON)))
    order = arrange({"A": ON, "B": ON}, {"A": OFF, "B": OFF}, rules)
    assert order.steps == ()
    assert order.blocked == {"B": "the BIOS itself sets it to Disabled, because A is Enabled"}


def test_rules_that_chase_each_other_end_with_a_warning():
    rules = registry(
        force("B", ON, Condition("A", ON), Condition("C", OFF, joined="AND")),
        force("C", ON, Condition("B", ON)),
        force("B", OFF, Condition("C", ON)),
        force("C", OFF, Condition("B", OFF), Condition("A", ON, joined="AND")),
    )
    order = arrange({"A": ON}, {"A": OFF, "B": OFF, "C": OFF}, rules)
    assert order.warnings
    assert order.steps == (("A",),)


def test_a_rule_that_the_machine_never_carried_out_is_left_asleep():
    rules = registry(force("B", ON, Condition("A", OFF)))
    order = arrange({"Free": ON}, {"A": OFF, "B": OFF, "Free": OFF}, rules)
    assert order.forced == {}


def test_a_forced_change_is_held_to_the_danger_classes():
    attributes = {"Profile": switch("Profile"), "BootMode": Attribute("BootMode", "Enumeration", ("Bios", "Uefi"))}
    rules = Registry("r", attributes, (force("BootMode", "Bios", Condition("Profile", ON)),))
    current = {"Profile": OFF, "BootMode": "Uefi"}
    plan = make_plan(current, {"Profile": exactly(ON)}, rules)
    assert [(change.attribute, danger.name) for change, danger in plan.refused] == [("BootMode", "boot-mode")]
    assert not plan.can_be_written
    assert make_plan(current, {"Profile": exactly(ON)}, rules, {"boot-mode"}).can_be_written


def test_an_integer_that_a_rule_writes_as_text_is_the_same():
    attributes = {"Delay": Attribute("Delay", "Integer", low=0, high=9), "B": switch("B")}
    rules = Registry("r", attributes, (lock("B", Condition("Delay", "3")),))
    plan = make_plan({"Delay": 3, "B": OFF}, {"B": exactly(ON)}, rules)
    assert [gap.attribute for gap in plan.gaps] == ["B"]


def test_without_a_registry_only_the_kind_is_checked_and_a_warning_says_so():
    plan = make_plan({"A": OFF, "Delay": 3}, {"A": exactly(ON)}, Registry())
    assert plan.can_be_written
    assert "no attribute registry" in plan.warnings[0]
    (gap,) = make_plan({"A": OFF, "Delay": 3}, {"Delay": exactly("3")}, Registry()).gaps
    assert "of another kind" in gap.reason


def test_a_rule_about_a_setting_that_is_not_shown_is_passed_over_with_a_warning():
    rules = registry(lock("A", Condition("Elsewhere", ON)))
    plan = make_plan({"A": OFF}, {"A": exactly(ON)}, rules)
    assert plan.can_be_written
    assert "ask for Elsewhere" in plan.warnings[0]


def test_steps_of_an_integer_are_kept():
    attribute = Attribute("Delay", "Integer", low=10, high=90, increment=20)
    assert attribute.objection(50) == ""
    assert attribute.objection(60) == "takes steps of 20 from 10, not 60"


def test_lockdown_says_that_nothing_can_change():
    plan = make_plan({"Free": OFF}, {"Free": exactly(ON)}, registry(lock("Free", Condition("A", ON))), is_locked_down=True)
    assert str(plan).startswith("nothing can change: system lockdown mode is on")


def captures() -> list[Path]:
    folder = os.environ.get("BRINGUP_FIELD_DATA", "")
    return sorted(Path(folder, "idrac").glob("*/*/redfish/v1/Systems/System.Embedded.1/Bios/BiosRegistry")) if folder else []


@pytest.fixture(params=captures() or [None], ids=lambda path: "none" if path is None else path.parents[5].name)
def recorded(request):
    """Current values and registry of one recorded machine."""
    if request.param is None:
        pytest.skip("BRINGUP_FIELD_DATA names no folder of recorded captures")
    index = request.param / "index.json"
    current = json.loads((request.param.parent / "index.json").read_text())["Attributes"]
    return current, parse_registry(json.loads(index.read_text()))


def test_every_current_value_of_a_recorded_machine_is_valid(recorded):
    current, rules = recorded
    checked, wrong = 0, {}
    for name, value in current.items():
        attribute = rules.attributes.get(name)
        if attribute is None or value in (None, "REDACTED-IN-COPY") or attribute.type == "Password":
            continue
        checked += 1
        if objection := attribute.objection(value):
            wrong[name] = objection
    assert checked > 100
    assert wrong == {}


def test_every_dependency_of_a_recorded_machine_evaluates_and_wanting_what_is_there_changes_nothing(recorded):
    current, rules = recorded
    effects = rules.settle(current, {})
    assert effects.is_settled
    assert effects.forced == {}
    assert sum(rule.holds(current) for rule in rules.rules) > 0
    wanted = {name: exactly(value) for name, value in current.items() if value is not None}
    assert make_plan(current, wanted, rules).is_empty


def test_every_other_choice_of_a_recorded_machine_can_be_planned(recorded):
    """Each enumeration turned to each of its other words: a plan, or a reason; never a crash, and never one without the other."""
    current, rules = recorded
    marked = sum(attribute.is_read_only for attribute in rules.attributes.values())
    is_locked_down = marked > len(rules.attributes) * 0.8
    planned = 0
    for name, attribute in rules.attributes.items():
        if name not in current or attribute.type != "Enumeration":
            continue
        for word in attribute.choices[:4]:
            if word == current[name]:
                continue
            plan = make_plan(current, {name: exactly(word)}, rules, NAMES, is_locked_down=is_locked_down)
            assert bool(plan.steps) != bool(plan.gaps), name
            assert all(gap.reason for gap in plan.gaps), name
            planned += bool(plan.steps)
    assert planned > 50


def test_the_recorded_machine_in_lockdown_plans_that_nothing_can_change():
    (folder,) = [path for path in captures() if "lockdown" in str(path)] or [None]
    if folder is None:
        pytest.skip("BRINGUP_FIELD_DATA names no folder of recorded captures")
    root = folder.parents[5]
    current = json.loads((folder.parent / "index.json").read_text())["Attributes"]
    manager = root / "redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/iDRAC.Embedded.1/index.json"
    assert json.loads(manager.read_text())["Attributes"]["Lockdown.1.SystemLockdown"] == "Enabled"
    rules = parse_registry(json.loads((folder / "index.json").read_text()))
    other = "Disabled" if current["LogicalProc"] == "Enabled" else "Enabled"
    plan = make_plan(current, {"LogicalProc": exactly(other)}, rules, is_locked_down=True)
    assert str(plan).startswith("nothing can change: system lockdown mode is on")
    assert plan.values == {"LogicalProc": other}
