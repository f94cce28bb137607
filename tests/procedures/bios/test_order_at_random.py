"""The planner against two judges: its own steps carried out, and the simulated iDRAC, which has rules of its own making."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from harness.devices.bios_registry import parse_registry
from harness.errors import RedfishError
from harness.limits import exactly
from harness.procedures.bios.danger import NAMES
from harness.procedures.bios.plan import make_plan


def wishes(current, registry, seed, count, size):
    """``count`` sets of ``size`` enumerations, each turned to another of its words; the same for the same seed."""
    dice = random.Random(seed)
    names = sorted(
        name
        for name, attribute in registry.attributes.items()
        if name in current and attribute.type == "Enumeration" and len(attribute.choices) > 1
    )
    for _ in range(count):
        chosen = dice.sample(names, size)
        yield {
            name: dice.choice([word for word in registry.attributes[name].choices if word != current[name]] or [current[name]])
            for name in chosen
        }


def captures():
    folder = os.environ.get("BRINGUP_FIELD_DATA", "")
    return sorted(Path(folder, "idrac").glob("*/*/redfish/v1/Systems/System.Embedded.1/Bios/BiosRegistry")) if folder else []


def check_steps(current, registry, wish):
    """True where there is a plan; then each step may be written when its turn comes, and at the end all is as wished."""
    plan = make_plan(current, {name: exactly(word) for name, word in wish.items()}, registry, NAMES)
    assert bool(plan.steps) != bool(plan.gaps)
    assert len(plan.steps) <= 2
    if not plan.steps:
        assert all(gap.reason for gap in plan.gaps)
        return False
    values, free = current, registry.freed(current)
    for step in plan.steps:
        request = {change.attribute: change.target for change in step}
        for name, word in request.items():
            assert not free.is_read_only(name, values, {**values, **request}), name
            assert word in free.choices(name, {**values, **request}), name
        values = free.settle(values, request).values
    assert {name: values[name] for name in wish} == wish
    assert {name for name in values if values[name] != current[name]} <= set(wish) | set(plan.forced)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_every_plan_of_the_model_s_registry_leads_where_it_says(lab, seed):
    machine = lab()
    registry, current = machine.idrac.registry(), machine.idrac.bios().attributes
    planned = [check_steps(current, registry, wish) for wish in wishes(current, registry, seed, 60, 4)]
    assert True in planned
    assert False in planned


def test_every_plan_of_a_recorded_registry_leads_where_it_says():
    folders = [folder for folder in captures() if "lockdown" not in str(folder)]
    if not folders:
        pytest.skip("BRINGUP_FIELD_DATA names no folder of recorded captures")
    for folder in folders:
        registry = parse_registry(json.loads((folder / "index.json").read_text()))
        current = json.loads((folder.parent / "index.json").read_text())["Attributes"]
        planned = [check_steps(current, registry, wish) for wish in wishes(current, registry, 7, 60, 2)]
        assert True in planned, folder


@pytest.mark.parametrize("seed", range(4))
def test_the_simulated_idrac_takes_what_is_planned_and_refuses_what_is_not(lab, seed):
    machine = lab()
    registry, current = machine.idrac.registry(), machine.idrac.bios().attributes
    taken = refused = 0
    for wish in wishes(current, registry, seed, 40, 3):
        plan = make_plan(current, {name: exactly(word) for name, word in wish.items()}, registry, NAMES)
        if plan.steps:
            values = plan.step(0).values
            machine.idrac.stage_bios(values, apply_time="")
            assert machine.pending == values
            machine.idrac.clear_pending()
            taken += 1
        elif not any("itself" in gap.reason for gap in plan.gaps):
            with pytest.raises(RedfishError):
                machine.idrac.stage_bios(wish, apply_time="")
            assert machine.pending == {}
            refused += 1
    assert taken
    assert refused
