from __future__ import annotations

from harness.procedures.handover import NOTHING, Handover


def test_nothing_left_says_so():
    assert Handover().line() == NOTHING == "nothing was left on the machine"


def test_what_is_left_is_said_with_its_undo():
    handover = Handover()
    handover.leave("bios", "JID_1 Scheduled: applies at the next reboot by anyone", "DELETE JID_1")
    assert handover.line() == "JID_1 Scheduled: applies at the next reboot by anyone; undo: DELETE JID_1"


def test_the_same_key_says_it_anew_and_is_cleared_once():
    handover = Handover()
    handover.leave("bios", "may be staged", "a")
    handover.leave("boot", "restarted", "")
    handover.leave("bios", "is staged", "b")
    assert handover.line() == "is staged; undo: b | restarted"
    handover.clear("bios")
    handover.clear("bios")
    assert handover.line() == "restarted"


def test_the_line_is_one_line():
    handover = Handover()
    handover.leave("boot", "first\nsecond   third", "undo")
    assert handover.line() == "first second third; undo: undo"
