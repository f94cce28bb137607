"""What the list of field failures asks of the harness and it does not do yet; run by name: pytest tests/field_failures/unmet.py"""

from __future__ import annotations


def test_18_the_attribute_that_was_refused_is_named(failing):
    story = failing("one-bad-value").bring_bios()
    assert "OsWatchdogTimer" in story.stopped.partition("\n")[0]


def test_24_a_412_is_tried_once_more_after_a_fresh_look(failing):
    machine = failing("transient-412")
    assert machine.bring_bios().stopped == ""
    assert machine.patches == 2


def test_14_a_power_on_that_comes_to_nothing_is_asked_for_once_more(failing):
    machine = failing("power-on-ignored")
    machine.machine.reset("ForceOff")
    story = machine.bring_up()
    assert (machine.resets, story.stop) == (["On", "On"], None)


def test_17_a_request_is_judged_by_its_effect_and_not_by_its_own_value(failing):
    machine = failing("request-attribute").wanting(WorkloadProfile="HpcProfile")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert machine.patches == 1
