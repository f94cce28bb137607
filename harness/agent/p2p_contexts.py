"""How long a context lives: for one pair, for one round, or on its GPU for the whole run. What one costs is measured first.

    pair    a new child for every pair      what hangs spoils nothing else; copies go one after the other
    round   a new child for every step      what hangs spoils the contexts of that step
    gpu     one child for all steps         as many contexts as GPUs, made once

The finest of them is taken whose time is at most a tenth above the quickest one's. On twenty GPUs a context costs a good part of a
second, and then it is the last.
"""

from typing import Dict, List, Sequence

from .p2p_schedule import Copy, Step, serial

PAIR, ROUND, GPU = "pair", "round", "gpu"
LIVES = (PAIR, ROUND, GPU)
"""From the finest to the coarsest."""

_WORTH = 1.1


def estimate(steps: Sequence[Step], context: float, copy: float) -> Dict[str, float]:
    """Seconds of all ``steps`` by the life of a context, where making one takes ``context`` and one pair's copies ``copy``."""
    pairs = sum(len(step) for step in steps)
    gpus = [len({gpu for pair in step for gpu in pair}) for step in steps]
    everyone = len({gpu for step in steps for pair in step for gpu in pair})
    return {
        PAIR: pairs * (copy + 2 * context),
        ROUND: len(steps) * copy + sum(gpus) * context,
        GPU: len(steps) * copy + everyone * context,
    }


def choose(seconds: Dict[str, float]) -> str:
    """The life whose estimate is worth it."""
    quickest = min(seconds.values())
    return next(life for life in LIVES if seconds[life] <= _WORTH * quickest)


def arrange(life: str, steps: Sequence[Step]) -> List[Step]:
    """The steps as that life needs them: a child of its own for each pair does one pair at a time."""
    copies: List[Copy] = [copy for step in steps for copy in step]
    return serial(copies) if life == PAIR else list(steps)
