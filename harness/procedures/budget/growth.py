"""The first runs on a machine that nobody knows: 1, 2, 4, 8, ... GPUs, and never into a start that the budget foretells to fail.

populated 20, limit 24:   1  2  4  8  16  20
populated 20, limit 13:   1  2  4  8  13         stopped at 13 of 20 GPUs: PCIe Slot 1 holds 7 safely ...
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageMistake
from harness.procedures.budget.budget import Budget, Share


@dataclass(frozen=True)
class Growth:
    """How many GPUs to start with, one start after the other, and why it ends before all are attached ("" where it does not)."""

    steps: tuple[int, ...]
    stopped: str = ""


def grow(populated: int, limit: int, why: str = "the predicted limit") -> Growth:
    """Doubling steps up to ``populated`` and never above ``limit``. ``why`` says what sets the limit.

    Raises UsageMistake where there is no GPU to begin with.
    """
    if populated < 1:
        raise UsageMistake("there is no GPU to grow to")
    top = min(populated, limit)
    steps = [1 << power for power in range(top.bit_length()) if 1 << power < top] + [top] * (top > 0)
    stopped = "" if limit >= populated else f"stopped at {max(0, top)} of {populated} GPUs: {why}"
    return Growth(tuple(steps), stopped)


def grow_within(budget: Budget) -> Growth:
    """The steps for all GPUs of a budget, up to what nothing is foretold to go wrong with."""
    limit = sum(min(share.gpus, share.safe) for share in budget.shares)
    full = [
        f"{share.stack.slot} holds {share.safe} safely ({_narrowest(share)})" for share in budget.shares if share.gpus > share.safe
    ]
    return grow(budget.gpus, limit, "; ".join(full))


def populations(budget: Budget, growth: Growth) -> tuple[tuple[int, ...], ...]:
    """For each step how many GPUs sit behind each share of the budget: as evenly as each holds them."""
    most = [min(share.gpus, share.safe) for share in budget.shares]
    counts = [0] * len(most)
    steps = []
    for step in growth.steps:
        while sum(counts) < step:
            counts[min((index for index in range(len(most)) if counts[index] < most[index]), key=lambda index: counts[index])] += 1
        steps.append(tuple(counts))
    return tuple(steps)


def _narrowest(share: Share) -> str:
    """What the first GPU too many would run into."""
    if share.io_most < min(share.most, share.kernel_most):
        return "I/O windows at POST, UEFI0256"
    return "windows and bus numbers at POST" if share.most <= share.kernel_most else "windows where Linux places them"
