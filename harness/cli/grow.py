"""``bringup run --grow``: 1, 2, 4, 8, ... GPUs, a start each, and never into one that the budget foretells to fail.

GROW on bench B: what it is, which steps, why it stops where it stops
  8 GPUs (8 of 8 in place, restart took 6 min)            one line a step
grown to N of N, or where it ended and why
hand-over line
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness import locator
from harness.cli.machine import Machine, Wish, opened
from harness.errors import UsageMistake
from harness.procedures.budget.growth import Growth, grow_within
from harness.procedures.grow_up import Scene, Step, budget_for, grow_up, own_parts
from harness.units import duration

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    bench: str
    assume_free: bool = False
    steal_lock: str = ""
    faults: tuple[str, ...] = ()


def grow(asked: Asked, say: Say) -> int:
    """Grow the modelled machine and tell every step. Returns 0 where all GPUs are in place, 1 where it ended before.

    Raises UsageMistake for a bench whose GPUs nothing here may attach and detach.
    """
    bench, bench_file = locator.find_bench(asked.bench)
    if bench.lab is None or bench.lab.grade != "model":
        raise UsageMistake(
            f"{bench_file}: --grow attaches and detaches GPUs, which this version does on the modelled machine only; grow it by "
            "hand: bringup pcie budget says the steps"
        )
    wish = Wish(
        asked.bench, writes=True, assume_free=asked.assume_free, steal_lock=asked.steal_lock, faults=asked.faults, settled=True
    )
    with opened(wish) as machine:
        status = _grow(machine, str(bench_file), say)
        say(f"hand-over: {machine.handover.line()}")
        return status


def _grow(machine: Machine, bench_file: str, say: Say) -> int:
    scene = _scene(machine)
    parts = own_parts(scene, machine.bench.slots(machine.platform, bench_file))
    budget = budget_for(machine.platform, parts)
    growth = grow_within(budget)
    say(f"GROW on bench {machine.bench.name}: a MODELLED machine with its settings as wanted; no hardware is touched")
    say(f"  steps for {len(parts)} {budget.model.name}: {' '.join(map(str, growth.steps)) or 'none'}")
    done = 0
    for step in grow_up(scene, budget, growth, parts):
        say(_line(step))
        if step.trouble:
            say(f"ended at {len(step.slots)} GPUs; {done} were in place before:")
            say("\n".join(f"  {line}" for line in step.trouble.splitlines()))
            return 1
        done = len(step.slots)
    return _end(growth, done, len(parts), say)


def _scene(machine: Machine) -> Scene:
    if machine.host is None or machine.fabric is None:
        raise UsageMistake(f"bench {machine.bench.name} has no {'[host]' if machine.host is None else '[fabric]'}")
    return Scene(
        machine.idrac.located(),
        machine.host,
        machine.console,
        machine.fabric,
        machine.platform,
        machine.consent,
        machine.handover,
        machine.tag,
        machine.bench.name,
    )


def _line(step: Step) -> str:
    story = step.boot
    took = ""
    if story.reset is not None and story.reached_at is not None:
        took = f", up after {duration(story.reached_at - story.reset.at)}"
    present = len(step.chain.present) if step.chain is not None else 0
    return f"  {len(step.slots)} GPU{'s' * (len(step.slots) != 1)}: {present} of {len(step.slots)} in place{took}"


def _end(growth: Growth, done: int, total: int, say: Say) -> int:
    if growth.stopped:
        say(growth.stopped)
        return 1
    say(f"grown to {done} of {total} GPUs")
    return 0
