"""Grow a machine that nobody knows: for each step switch it off, give it that many GPUs, start it, and follow the chain.

    budget ─ growth ─┬─ 1 ─▶ off ─▶ attach ─▶ start ─▶ chain ─▶ 2 ─▶ ... ─▶ all
                     │                            └──────┴─▶ lost something: stop there
                     └─ a step above the predicted limit is never taken

GPUs are attached and detached only while the host is off, and what the fabric says afterwards is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.fabric import Fabric, FabricPart
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.pcie import read_snapshot
from harness.errors import BenchError, DeviceError, UsageMistake
from harness.platform import Platform, Slot
from harness.procedures.boot.bring import bring_up
from harness.procedures.boot.story import BootStory
from harness.procedures.budget.budget import Budget, budgets
from harness.procedures.budget.growth import Growth, populations
from harness.procedures.budget.layout import slots_of
from harness.procedures.chain import Chain, trace
from harness.procedures.handover import Handover
from harness.procedures.power import Way
from harness.procedures.power_proof import carry_out

KEY = "growth"
"""The key under which the hand-over knows what growing leaves."""


@dataclass(frozen=True)
class Scene:
    """The machine that grows: ``tag`` the only one that may be written to, ``owner`` its name in the fabric."""

    idrac: Idrac
    host: Host
    console: Console | None
    fabric: Fabric
    platform: Platform
    consent: Consent
    handover: Handover
    tag: str
    owner: str


@dataclass(frozen=True)
class Step:
    """One start with so many GPUs in ``slots``; ``chain`` is None where the machine did not come back."""

    slots: tuple[str, ...]
    boot: BootStory
    chain: Chain | None = None

    @property
    def trouble(self) -> str:
        """Why growing ends here, "" where all that was attached is there."""
        if self.boot.refusal:
            return f"it was not restarted: {self.boot.refusal}"
        if self.boot.stop is not None:
            return self.boot.stop.text
        if self.chain is None:
            return "the tree was not read"
        lost = [loss.place for loss in self.chain.losses]
        return f"{self.chain.explain(lost[0])}{_more(lost)}" if lost else ""


def own_parts(scene: Scene, slots: Sequence[Slot]) -> dict[str, FabricPart]:
    """The GPUs that this machine may have, by slot: its own, and those that nobody has.

    Raises UsageMistake where the fabric names no slot that the bench populates.
    """
    names = {slot.name for slot in slots}
    parts = {part.slot: part for part in scene.fabric.parts() if part.slot in names and part.owner in ("", scene.owner)}
    if not parts:
        raise UsageMistake(
            f"the fabric lists no part in the slots of {scene.platform.name}; `bringup map learn` ties them together"
        )
    return parts


def budget_for(platform: Platform, parts: Mapping[str, FabricPart]) -> Budget:
    """The budget of these parts where they sit: of the model that the fabric says they are, else of the one that needs most."""
    split = [sum(slot.name in parts for slot in slots_of(platform, stack)) for stack in platform.stacks]
    ids = {part.id for part in parts.values()}
    made = budgets(platform, split=split)
    alike = [budget for budget in made if ids == {budget.model.device}]
    return min(alike or made, key=lambda budget: sum(min(share.gpus, share.safe) for share in budget.shares))


def grow_up(scene: Scene, budget: Budget, growth: Growth, parts: Mapping[str, FabricPart]) -> Iterator[Step]:
    """Take the steps, one start each, and end with the first that lost something.

    Raises BenchError and DeviceError where the machine or the fabric does not obey; the hand-over says what is attached then.
    """
    by_stack = [[slot.name for slot in slots_of(scene.platform, share.stack) if slot.name in parts] for share in budget.shares]
    for counts in populations(budget, growth):
        chosen = tuple(name for names, count in zip(by_stack, counts, strict=True) for name in names[:count])
        _populate(scene, chosen, parts)
        step = _start(scene, chosen)
        if len(chosen) == len(parts):
            scene.handover.clear(KEY)
        yield step
        if step.trouble:
            return


def _populate(scene: Scene, chosen: Sequence[str], parts: Mapping[str, FabricPart]) -> None:
    """With the host off, give the machine exactly the chosen GPUs, and see that the fabric says so."""
    if scene.idrac.insist_on(scene.tag).power_state != "Off":
        scene.handover.leave(KEY, "the host was switched off to change its GPUs", "ComputerSystem.Reset On")
        carry_out(scene.idrac, Way.FORCED_OFF, expected_tag=scene.tag, host=scene.host)
    apart = [slot for slot in parts if slot not in chosen]
    text = f"{len(apart)} of {len(parts)} GPUs are detached ({', '.join(apart)})"
    scene.handover.leave(KEY, text, "give them back in the fabric while the host is off, then start it")
    now = {part.slot: part.owner for part in scene.fabric.parts()}
    away = [replace(part, owner=scene.owner) for slot, part in parts.items() if now.get(slot) == scene.owner and slot not in chosen]
    back = [replace(part, owner=scene.owner) for slot, part in parts.items() if not now.get(slot) and slot in chosen]
    if away:
        scene.fabric.detach(away)
    if back:
        scene.fabric.attach(back)
    ours = {part.slot for part in scene.fabric.parts() if part.owner == scene.owner}
    if ours & set(parts) != set(chosen):
        raise DeviceError(f"the fabric gives {len(ours & set(parts))} GPUs to {scene.owner}, not the {len(chosen)} asked for")


def _start(scene: Scene, chosen: Sequence[str]) -> Step:
    mark = scene.idrac.lc_mark()
    story = bring_up(
        scene.idrac,
        scene.host,
        scene.console,
        scene.platform,
        scene.consent,
        scene.handover,
        expected_tag=scene.tag,
        since=mark,
        changed=f"{len(chosen)} GPUs attached",
    )
    if story.refusal or story.stop is not None:
        return Step(tuple(chosen), story)
    if not story.boot_id:
        raise BenchError("the host was not reached after its start, so nothing can be said of its GPUs")
    slots = [scene.platform.slot(name) for name in chosen]
    return Step(tuple(chosen), story, trace(read_snapshot(scene.host), scene.platform, slots, scene.fabric.parts()))


def _more(lost: Sequence[str]) -> str:
    return f"\n  and {len(lost) - 1} more: {', '.join(lost[1:])}" if len(lost) > 1 else ""
