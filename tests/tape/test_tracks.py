import pytest

from harness.clock import VirtualClock
from harness.tape.tracks import LOOSE, Tracks, check_track, track_name


def test_a_stopwatch_runs_only_while_its_track_is_on_top():
    clock = VirtualClock()
    tracks = Tracks(clock)
    with tracks.on("a"):
        clock.sleep(2)
        with tracks.on("b"):
            clock.sleep(3)
            assert (tracks.current, tracks.time()) == ("b", 3)
        clock.sleep(1)
        assert (tracks.current, tracks.time()) == ("a", 3)
    assert (tracks.current, tracks.time()) == (LOOSE, 0)
    with tracks.on("a"):
        assert tracks.time() == 3


def test_a_track_is_left_when_its_block_explodes():
    tracks = Tracks(VirtualClock())
    with pytest.raises(ZeroDivisionError), tracks.on("a"):
        raise ZeroDivisionError
    assert tracks.current == LOOSE


def test_only_the_track_on_top_can_be_left():
    tracks = Tracks(VirtualClock())
    tracks.enter("a")
    with pytest.raises(RuntimeError, match="track b is not on top"):
        tracks.leave("b")


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        (("session", "pcie"), "session/pcie"),
        (("pcie", "test_links", "test_width[jbogA/slot01]"), "pcie/test_links/test_width-jbogA-slot01"),
        (("..", "a\nb", "ü"), "none/a-b/none"),
    ],
)
def test_a_track_is_named_by_its_steps(steps, name):
    assert track_name(*steps) == check_track(name) == name


def test_long_names_differ_although_they_are_cut():
    one, other = track_name("x" * 400 + "a"), track_name("x" * 400 + "b")
    assert one != other
    assert len(one) <= 120
