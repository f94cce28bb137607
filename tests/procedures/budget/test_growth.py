import pytest

from harness.errors import UsageMistake
from harness.procedures.budget.budget import budgets
from harness.procedures.budget.growth import grow, grow_within, populations


@pytest.mark.parametrize(
    ("populated", "limit", "steps"),
    [
        (1, 9, (1,)),
        (2, 9, (1, 2)),
        (20, 24, (1, 2, 4, 8, 16, 20)),
        (20, 13, (1, 2, 4, 8, 13)),
        (16, 16, (1, 2, 4, 8, 16)),
        (20, 1, (1,)),
        (20, 0, ()),
    ],
)
def test_steps_double_up_to_what_there_is_and_never_pass_the_limit(populated, limit, steps):
    assert grow(populated, limit).steps == steps


def test_stopping_early_says_where_and_why():
    assert grow(20, 13, "the window is full").stopped == "stopped at 13 of 20 GPUs: the window is full"
    assert not grow(20, 20).stopped


def test_without_gpus_there_is_nothing_to_grow_to():
    with pytest.raises(UsageMistake):
        grow(0, 5)


def test_the_modelled_machine_grows_to_twenty_over_both_slots(lqd8360):
    (budget,) = budgets(lqd8360, model="Quadro RTX 8000 (passive)")
    growth = grow_within(budget)
    assert growth.steps == (1, 2, 4, 8, 16, 20)
    assert populations(budget, growth) == ((1, 0), (1, 1), (2, 2), (4, 4), (8, 8), (10, 10))


def test_cards_with_io_ports_stop_before_post_runs_out_of_windows(lqd8360):
    (budget,) = budgets(lqd8360, model="Quadro RTX 8000 (active)")
    growth = grow_within(budget)
    assert growth.steps == (1, 2, 4)
    assert "PCIe Slot 1 holds 2 safely (I/O windows at POST, UEFI0256)" in growth.stopped
    assert populations(budget, growth)[-1] == (2, 2)
