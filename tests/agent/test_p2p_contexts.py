"""How long contexts live follows from what they cost here, not from a table."""

import pytest

from harness.agent.p2p_contexts import GPU, PAIR, ROUND, arrange, choose, estimate
from harness.agent.p2p_schedule import schedule

TWENTY = schedule({gpu: ("a" if gpu < 10 else "b",) for gpu in range(20)})
TWO = schedule({0: ("a",), 1: ("a",)})


@pytest.mark.parametrize(
    ("steps", "context", "copy", "life"),
    [
        (TWENTY, 0.3, 1.3, GPU),  # what drivers take: contexts would cost more than the copies
        (TWENTY, 0.001, 1.3, ROUND),  # contexts that cost nothing are made anew for every step
        (TWO, 0.3, 1.3, ROUND),  # one step: both take the same, and the finer one is taken
        ([((0, 1),)], 0.3, 1.3, PAIR),
    ],
)
def test_the_finest_life_that_costs_no_time_is_chosen(steps, context, copy, life):
    assert choose(estimate(steps, context, copy)) == life


def test_the_estimate_counts_contexts_and_copies():
    assert estimate([((0, 1), (2, 3)), ((0, 2),)], context=1.0, copy=10.0) == {PAIR: 36.0, ROUND: 26.0, GPU: 24.0}


def test_a_child_for_every_pair_does_one_pair_at_a_time():
    assert arrange(PAIR, [((0, 1), (2, 3)), ((0, 2),)]) == [((0, 1),), ((2, 3),), ((0, 2),)]
    assert arrange(ROUND, TWO) == list(TWO)
