"""A password that somebody staged, or that stands where none may stand, is told by name and never by value."""

from __future__ import annotations

import pytest

from harness.consent import Consent
from harness.devices.bios_registry import Attribute, Registry
from harness.devices.idrac_facts import BiosState
from harness.errors import UsageMistake
from harness.limits import exactly
from harness.ports import HttpQuestion
from harness.procedures.bios.change import change_bios
from harness.procedures.bios.conflict import Conflict
from harness.procedures.bios.danger import DANGERS
from harness.procedures.bios.plan import make_plan
from harness.procedures.bios.settings import take_unit
from harness.procedures.guard import GuardedBmc
from harness.secret import NOT_SHOWN, holds_secret

VALUE = "hunter2"


def staging(machine, name="SetupPassword"):
    machine.machine.controller.bios.pending[name] = VALUE
    return machine


def change(machine, **more):
    return change_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag, **more)


@pytest.mark.parametrize("name", ["SetupPassword", "NewSetupPassword", "sysPassword", "IscsiDev1Con1ChapSecret"])
def test_the_stop_for_a_password_that_somebody_staged_names_it_only(lab, name):
    machine = staging(lab(), name)
    story = change(machine).story
    assert f"{name}={NOT_SHOWN}" in story.stopped
    assert VALUE not in repr(story)


def test_the_hand_over_of_a_replaced_job_does_not_tell_its_password(lab):
    machine = staging(lab())
    job = machine.machine.controller.jobs.add("BIOSConfiguration", "Configure: somebody's").id
    changed = change(machine, conflict=Conflict("replace", job))
    assert changed.story.stopped == ""
    assert f"it was to apply SetupPassword={NOT_SHOWN}" in machine.handover.line()
    assert VALUE not in machine.handover.line()


def test_the_guard_does_not_tell_the_password_that_it_refuses(lab):
    machine = lab()
    guarded = GuardedBmc(machine.lane, Consent(apply=True), machine.tag, lambda _: None)
    question = HttpQuestion.act("PATCH", "/redfish/v1/Systems/1/Bios/Settings", {"Attributes": {"setuppassword": VALUE}})
    with pytest.raises(UsageMistake, match="--danger password") as refused:
        guarded.ask(question)
    assert VALUE not in str(refused.value)
    assert machine.lane.acts == []


CODED = Registry("r", {"AdminCode": Attribute("AdminCode", "Password"), "NumLock": Attribute("NumLock", "Enumeration", ("On",))})


def test_a_plan_tells_a_password_by_its_type_whatever_it_is_called():
    plan = make_plan({"AdminCode": VALUE, "NumLock": "On"}, {"AdminCode": exactly("other-secret")}, CODED)
    assert [gap.attribute for gap in plan.mistakes] == ["AdminCode"]
    assert f"asks for AdminCode = {NOT_SHOWN}: it is a password" in str(plan)
    assert VALUE not in repr(plan)
    assert "other-secret" not in repr(plan)


def test_an_export_leaves_out_a_password_by_its_type_whatever_it_is_called():
    state = BiosState({"AdminCode": VALUE, "NumLock": "On"}, {}, "r", ())
    unit = take_unit("u", {}, state, CODED)
    assert (unit.values, unit.redacted) == ({"NumLock": "On"}, ("AdminCode",))


def test_every_secret_belongs_to_the_class_that_must_be_named():
    (password,) = [danger for danger in DANGERS if danger.name == "password"]
    names = ("SetupPassword", "OldSysPassword", "sysPASSWORD", "IscsiDev1Con1ChapSecret", "NewSetupPasswd", "TpmPassphrase")
    assert [name for name in names if not holds_secret(name) or not password.covers(name, "x")] == []
