"""The schedule is compared with a lower bound that this file computes for itself, from GPUs and uplinks alone."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agent.p2p_schedule import colour, lines_of, schedule, schedule_both, serial


def switched(*sizes):
    """GPUs 0.. below switches of these sizes."""
    gpus = iter(range(sum(sizes)))
    return {next(gpus): (f"switch{number}",) for number, size in enumerate(sizes) for _ in range(size)}


def least_steps(uplinks):
    """No schedule can be shorter: every GPU sends and receives one copy a step, every uplink carries one each way."""
    count = len(uplinks)
    behind = Counter(above[0] for above in uplinks.values())
    return max([count - 1, *(own * (count - own) for own in behind.values())])


def assert_complete_and_undisturbed(steps, uplinks):
    copies = Counter(copy for step in steps for copy in step)
    assert copies == Counter((a, b) for a in uplinks for b in uplinks if a != b)
    for step in steps:
        lines = [line for copy in step for line in lines_of(copy, uplinks)]
        assert len(lines) == len(set(lines)), step


@pytest.mark.parametrize("sizes", [(20,), (10, 10), (5, 5, 5, 5), (4, 4, 4, 4, 4)], ids=["1x20", "2x10", "4x5", "5x4"])
def test_the_full_matrix_takes_at_most_a_tenth_more_steps_than_it_must(sizes):
    uplinks = switched(*sizes)
    steps = schedule(uplinks)
    assert_complete_and_undisturbed(steps, uplinks)
    assert least_steps(uplinks) <= len(steps) <= 1.1 * least_steps(uplinks)
    assert len(serial(copy for step in steps for copy in step)) == 380


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 1))
def test_uneven_machines_take_at_most_two_steps_more(sizes):
    uplinks = switched(*sizes)
    steps = schedule(uplinks)
    assert_complete_and_undisturbed(steps, uplinks)
    assert len(steps) <= 1.1 * least_steps(uplinks) + 2


def test_pairs_below_a_switch_go_beside_pairs_across():
    uplinks = switched(10, 10)
    kinds = [{uplinks[a] == uplinks[b] for a, b in step} for step in schedule(uplinks)]
    assert kinds.count({True, False}) >= 9


def test_full_duplex_lines_carry_one_copy_each_way():
    (step, *_) = schedule(switched(1, 1))
    assert step == ((0, 1), (1, 0))


def test_switches_behind_switches_share_all_their_uplinks():
    uplinks = {gpu: (f"leaf{gpu // 5}", f"root{gpu // 10}") for gpu in range(20)}
    steps = schedule(uplinks)
    assert_complete_and_undisturbed(steps, uplinks)
    assert len(steps) == 100


def test_an_unknown_place_makes_everything_serial():
    uplinks = switched(2, 2) | {3: None}
    steps = schedule(uplinks)
    assert len(steps) == 12
    assert {len(step) for step in steps} == {1}


def test_only_wanted_copies_are_scheduled():
    assert schedule(switched(4), [(0, 1), (2, 3)]) == [((0, 1), (2, 3))]
    assert schedule(switched(4), []) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=60))
def test_a_colouring_is_right_and_takes_no_more_colours_than_the_busiest_end_has_edges(edges):
    colours = colour(edges)
    for side in (0, 1):
        taken = Counter((edge[side], number) for edge, number in zip(edges, colours, strict=True))
        assert set(taken.values()) <= {1}
    busiest = max([0, *Counter(a for a, _ in edges).values(), *Counter(b for _, b in edges).values()])
    assert max([-1, *colours]) + 1 == busiest


def least_steps_both(uplinks):
    """A GPU meets one other a step, an uplink carries one pair; with an odd count somebody rests in every step."""
    behind = Counter(above[0] for above in uplinks.values())
    across = max(own * (len(uplinks) - own) for own in behind.values())
    pairs, at_once = len(uplinks) * (len(uplinks) - 1) // 2, len(uplinks) // 2
    return max(across, -(-pairs // at_once))


@pytest.mark.parametrize(
    ("sizes", "at_most"), [((20,), 1.0), ((10, 10), 1.0), ((5, 5, 5, 5), 1.1), ((4, 4, 4, 4, 4), 1.3), ((3,), 1.0), ((7, 7), 1.1)]
)
def test_pairs_that_copy_both_ways_meet_once_and_undisturbed(sizes, at_most):
    uplinks = switched(*sizes)
    pairs = [(a, b) for a in uplinks for b in uplinks if a < b]
    steps = schedule_both(uplinks, pairs)
    assert Counter(pair for step in steps for pair in step) == Counter(pairs)
    for step in steps:
        lines = [line for a, b in step for copy in ((a, b), (b, a)) for line in lines_of(copy, uplinks)]
        assert len(lines) == len(set(lines)), step
    assert len(steps) <= at_most * least_steps_both(uplinks)


@pytest.mark.parametrize("of", [schedule, schedule_both])
def test_gpus_whose_ports_send_copies_up_share_their_uplink_even_below_one_switch(of):
    uplinks = switched(4, 4)
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert {len(step) for step in of(uplinks, pairs, frozenset(range(8)))} == {1}
    assert max(len(step) for step in of(uplinks, pairs)) > 1


def test_redirected_gpus_still_take_no_more_steps_than_their_uplink_must():
    uplinks = switched(4, 4)
    steps = schedule(uplinks, None, frozenset({0}))
    for step in steps:
        lines = [line for copy in step for line in lines_of(copy, uplinks, frozenset({0}))]
        assert len(lines) == len(set(lines)), step
    assert len(steps) == 16 + 6
