"""``bringup rescue``: show the ladder, and climb it rung by rung, each one asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli.attributes import read_attributes
from harness.cli.machine import Machine, Wish, opened
from harness.clock import wall_time
from harness.errors import BenchError, BringupError
from harness.limits import Limit
from harness.procedures.bios.danger import check_dangers
from harness.procedures.rescue import EVIDENCE, Rung, Scene, Trouble, ladder, save_evidence, survey, take

Say = Callable[[str], object]
Ask = Callable[[str], bool]


@dataclass(frozen=True)
class Asked:
    """What the command line says. ``yes`` takes every rung, else each is asked for where there is a terminal."""

    bench: str
    yes: bool = False
    chassis_off: bool = False
    restore: Path | None = None
    danger: Sequence[str] = ()
    folder: Path = Path("reports")
    faults: Sequence[str] = ()
    steal_lock: str = ""


def rescue(asked: Asked, say: Say, ask: Ask | None) -> int:
    """Show what is wrong and the rungs; take those that are agreed to. ``ask`` is None where nobody can be asked.

    Returns 0 where nothing is wrong or the machine started bare, 1 where it did not or nothing was taken, 3 where hands are needed.
    """
    check_dangers(asked.danger)
    restore = {} if asked.restore is None else read_attributes(asked.restore)
    climbs = asked.yes or ask is not None
    wish = Wish(
        asked.bench,
        writes=climbs,
        danger=frozenset(asked.danger),
        steal_lock=asked.steal_lock,
        faults=asked.faults,
        restarted=bool(asked.faults),
    )
    with opened(wish) as machine:
        say(machine.headline("RESCUE"))
        status = _climb(_scene(machine, asked, restore), asked, say, ask, machine)
        if climbs:
            say(f"hand-over: {machine.handover.line()}")
        return status


def _scene(machine: Machine, asked: Asked, restore: Mapping[str, Limit]) -> Scene:
    is_only_read = machine.bench.fabric is not None
    return Scene(
        machine.idrac.located(),
        machine.console,
        None if is_only_read else machine.fabric,
        machine.platform,
        machine.consent,
        machine.handover,
        machine.tag,
        machine.bench.name,
        asked.chassis_off,
        restore,
    )


def _climb(scene: Scene, asked: Asked, say: Say, ask: Ask | None, machine: Machine) -> int:
    trouble = survey(scene)
    if not trouble.wrong:
        say(f"nothing to rescue: the host is {trouble.sight}")
        return 0
    rungs = ladder(scene, trouble)
    say(f"what is wrong: {trouble.wrong}")
    say("the ladder:")
    for number, rung in enumerate(rungs, 1):
        say(f"  {number}. {rung}")
    if not asked.yes and ask is None:
        say("nothing was touched; --yes takes the rungs, a terminal asks for each")
        return 1
    for rung in rungs:
        if rung.needs_hands:
            say(f"stopped before {rung}")
            return 3
        if not asked.yes and ask is not None and not ask(f"take {rung}?"):
            say(f"stopped before {rung.name}: not agreed to")
            return 1
        say(_take(scene, rung, trouble, asked, machine))
    return 0


def _take(scene: Scene, rung: Rung, trouble: Trouble, asked: Asked, machine: Machine) -> str:
    if rung.name != EVIDENCE:
        return f"{rung.name}: {take(scene, rung, trouble)}"
    try:
        folder = _keep(save_evidence(scene, trouble).files, asked.folder, machine)
    except BringupError as error:
        raise BenchError(f"evidence could not be saved ({error}); nothing was changed") from None
    return f"{rung.name}: saved in {folder}"


def _keep(files: Mapping[str, bytes], reports: Path, machine: Machine) -> Path:
    """Write the evidence to a folder of its own, texts without secrets."""
    stamp = wall_time().strftime("%Y%m%d-%H%M%S")
    folder = reports / f"rescue-{machine.bench.name}-{stamp}-{os.getpid()}"
    folder.mkdir(parents=True)
    for name, data in files.items():
        text = name.endswith(".txt")
        content = machine.redactor.text(data.decode("utf-8", "backslashreplace")).encode() if text else data
        (folder / name).write_bytes(content)
    return folder


def on_terminal() -> bool:
    """True where somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
