"""Random trees of bridges and parts, and the machine that is bundled."""

from __future__ import annotations

import random

import pytest

from harness import locator
from harness.procedures.budget.demand import KIB, MIB, Ask, Device, Space

SIZES = {
    Space.IO: (32, 128, 256),
    Space.LOW: (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB),
    Space.WIDE: (64 * KIB, 32 * MIB, 256 * MIB, 1024 * MIB),
}


@pytest.fixture(scope="session")
def lqd8360():
    return locator.find_platform("lqd8360")[0]


@pytest.fixture(params=range(60))
def tree(request):
    """The devices on a root bus; the same for the same number."""
    chance = random.Random(request.param)

    def device(place, depth):
        asks = tuple(
            Ask(f"BAR {index}", chance.choice(SIZES[space]), space)
            for index, space in enumerate(chance.choices(list(Space), weights=(1, 3, 3), k=chance.randint(0, 3)))
        )
        if depth and chance.random() < 0.7:
            below = tuple(device(f"{number:02x}.0", depth - 1) for number in range(chance.randint(0, 4)))
            return Device(place, asks[:1], True, below)
        return Device(place, asks)

    return tuple(device(f"{number:02x}.0", 3) for number in range(chance.randint(1, 4)))
