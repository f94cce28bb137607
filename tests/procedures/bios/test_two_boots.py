"""A plan of two boots that ends between them says what was set, what was not, and who has to do the rest."""

from __future__ import annotations

import pytest

from harness.consent import Consent
from harness.errors import Blame, Unreachable
from harness.limits import exactly
from harness.procedures.bios import bring_bios
from harness.procedures.bios.bring import REST

BOTH = Consent(apply=True, danger=frozenset({"boot-mode", "secure-boot"}))


@pytest.fixture
def machine(lab):
    """A machine that takes BootMode first and SecureBoot after a boot."""
    built = lab()
    attributes = {"BootMode": exactly("Uefi"), "SecureBoot": exactly("Enabled")}
    bios = built.platform.bios.model_copy(update={"attributes": attributes})
    built.platform = built.platform.model_copy(update={"bios": bios})
    built.machine.controller.bios.current["BootMode"] = "Bios"
    return built


def bring(machine, **more):
    return bring_bios(machine.idrac, machine.platform, BOTH, machine.handover, expected_tag=machine.tag, **more)


def before_the_second(machine, act):
    """Let ``act`` happen to every request from the second look's reading of the registry on."""
    looks = []

    def step_in(question):
        if "BiosAttributeRegistry" in question.path and machine.machine.controller.bios.current["BootMode"] == "Uefi":
            looks.append(question)
        if looks:
            act(question)

    machine.lane.before = step_in


def test_without_a_restart_the_hand_over_says_what_the_boot_to_come_does_not_set(machine):
    story = bring(machine, restarts=False)
    assert story.stop is None
    assert machine.lane.resets == []
    (rest,) = [each for each in machine.handover.left if each.key == REST]
    assert rest.text == "SecureBoot Disabled -> Enabled: to be set after that boot, by the same command again (boot 2 of 2)"
    assert "SecureBoot Disabled -> Enabled: to be set after that boot" in machine.handover.line()
    assert list(machine.pending) == ["BootMode"]


def test_a_plan_of_one_boot_leaves_no_rest(machine):
    machine.machine.controller.bios.current["BootMode"] = "Uefi"
    bring(machine, restarts=False)
    assert [each.key for each in machine.handover.left] == ["bios"]


def test_a_stop_after_the_first_boot_does_not_say_that_nothing_was_written(machine):
    before_the_second(machine, lambda _: machine.machine.controller.bios.pending.setdefault("NumLock", "Off"))
    story = bring(machine)
    assert story.stop is not None
    assert [list(each.plan.values) for each in story.earlier] == [["BootMode"]]
    assert "somebody staged NumLock after this run had looked" in story.stop.text
    assert "nothing more was written" in story.stop.text
    assert "nothing was written" not in story.stop.text


def test_a_machine_that_is_lost_between_the_boots_is_a_stop_that_keeps_the_story_of_the_first(machine):
    def cut(_):
        raise Unreachable("no route to host")

    before_the_second(machine, cut)
    story = bring(machine)
    assert story.stop is not None
    assert story.stop.blame is Blame.BENCH
    assert "could not be looked at again: no route to host" in story.stop.text
    assert [list(each.plan.values) for each in story.earlier] == [["BootMode"]]
