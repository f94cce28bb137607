import pytest

from harness.clock import Deadline, VirtualClock, WallClock
from harness.errors import Timeout


def test_a_wait_ends_as_soon_as_what_is_seen_will_do():
    clock = VirtualClock()
    assert clock.until(lambda: clock.now(), lambda seen: seen >= 20, what="twenty", every=5, within=60) == 20


def test_a_wait_looks_once_more_at_its_deadline():
    clock = VirtualClock()
    assert clock.until(lambda: clock.now(), lambda seen: seen >= 12, what="twelve", every=5, within=12) == 12


def test_a_timeout_carries_the_last_thing_seen():
    clock = VirtualClock()
    with pytest.raises(Timeout, match=r"power: not within 30 s; last seen: 'Off'") as caught:
        clock.until(lambda: "Off", lambda seen: seen == "On", what="power", every=7, within=30)
    assert caught.value.last == "Off"
    assert clock.now() == 30


def test_a_wait_of_no_time_still_looks_once():
    clock = VirtualClock()
    assert clock.until(lambda: 1, lambda seen: seen == 1, what="now", every=5, within=0) == 1


def test_dozing_wakes_at_the_next_alarm_and_not_after_the_deadline():
    class Alarms:
        def next_after(self, now):
            return now + 3.5

    clock = VirtualClock()
    clock.heed(Alarms())
    clock.doze(10, Deadline.after(clock, 60))
    assert clock.now() == 3.5
    clock.doze(10, Deadline(5.0))
    assert clock.now() == 5.0


def test_every_look_is_reported():
    clock = VirtualClock()
    heard = []
    clock.progress = lambda what, seconds, seen: heard.append((what, seconds, seen))
    clock.until(lambda: clock.now() > 8, bool, what="eight", every=5, within=60)
    assert heard == [("eight", 0, False), ("eight", 5, False), ("eight", 10, True)]


def test_the_wall_clock_moves_by_itself_and_starts_at_nought():
    clock = WallClock()
    before = clock.now()
    assert 0 <= before < 60
    clock.sleep(0.01)
    assert clock.now() > before
