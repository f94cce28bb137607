"""Bring the BIOS settings to what the platform wants, or say why not. Nothing differs: nothing is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.consent import Consent
from harness.devices.bios_registry import Registry
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.errors import Blame, BringupError, RedfishError, TapeError, Unreadable
from harness.platform import Platform
from harness.procedures.bios.apply import apply
from harness.procedures.bios.plan import Change, differing, make_plan
from harness.procedures.bios.preflight import LOCKED, judge, survey
from harness.procedures.bios.story import ATTRIBUTES, RESULT, BiosStory
from harness.procedures.handover import Handover
from harness.procedures.stop import Stop

REST = "bios.rest"
"""The key under which the hand-over knows what a boot that is still to come leaves to be set."""

_NOTHING = re.compile(r"\bnothing (was|is) (?=written|changed|restarted|staged)")


@dataclass(frozen=True)
class _Scene:
    """What every look and every attempt shares."""

    idrac: Idrac
    platform: Platform
    consent: Consent
    handover: Handover
    tag: str
    host: Host | None
    restarts: bool


def bring_bios(
    idrac: Idrac,
    platform: Platform,
    consent: Consent,
    handover: Handover,
    *,
    expected_tag: str,
    host: Host | None = None,
    restarts: bool = True,
) -> BiosStory:
    """Compare, and with consent apply: one PATCH, one job and one reset for each step of the plan, mostly one.

    ``expected_tag`` is read first, and again right before every write. ``host`` is asked who uses the machine, where it can be
    reached. Without ``restarts`` the first step's job is left Scheduled. Raises BenchError where another machine answers,
    BenchError and DeviceError where the first reads fail; after that it stops instead, takes away what it staged as far as that can
    be done, and says in ``handover`` what is left.
    """
    idrac = idrac.located()
    idrac.insist_on(expected_tag)
    scene = _Scene(idrac, platform, consent, handover, expected_tag, host, restarts)
    story = look(idrac, platform, consent, host=host)
    if story.stop is not None:
        return story
    plan = story.plan
    if consent.apply and plan.can_be_written:
        return _carry_out(scene, story)
    if plan.mistakes:
        text = "\n".join(("the platform file cannot be meant like this, so nothing was changed", *map(str, plan.mistakes)))
        return replace(story, stop=Stop(ATTRIBUTES, text, Blame.BENCH))
    return story if plan.is_empty else replace(story, stop=Stop(ATTRIBUTES, _why_not(story)))


def look(idrac: Idrac, platform: Platform, consent: Consent, *, host: Host | None = None, every: bool = False) -> BiosStory:
    """Compare and plan, writing nothing. ``stop`` is the first thing that stands against going on.

    ``every``: also what stands only against writing, whatever the consent. Raises BenchError and DeviceError where reads fail.
    """
    before = idrac.bios()
    wanted = platform.bios.attributes
    differs = bool(differing(before.attributes, wanted))
    wants_to_write = (consent.apply or every) and differs
    found = survey(
        idrac,
        before,
        patience=platform.boot.no_progress if wants_to_write and not every else 0.0,
        host=host if wants_to_write else None,
        assume_free=consent.assume_free,
        writes=wants_to_write,
    )
    registry, warning = _registry(idrac) if differs else (Registry(), "")
    plan = make_plan(before.attributes, wanted, registry, consent.danger, is_locked_down=found.lockdown == LOCKED)
    if differs and platform.system and found.system.model and platform.system != found.system.model:
        plan = replace(plan, warnings=(_another_system(platform, found.system.model), *plan.warnings))
    if warning:
        plan = replace(plan, warnings=(warning, *plan.warnings))
    story = BiosStory(before, found, plan, consent.apply)
    against = judge(found, plan.step(0).values, writes=wants_to_write)
    return replace(story, stop=against[0]) if against else story


def _another_system(platform: Platform, model: str) -> str:
    return f"platform {platform.name} is for a {platform.system}, and this is a {model}: what it wants may not be meant for it"


def _registry(idrac: Idrac) -> tuple[Registry, str]:
    """The registry; where it is missing, cannot be read or a dangling link leads to it, none and a warning."""
    try:
        return idrac.registry(), ""
    except (RedfishError, Unreadable) as error:
        return Registry(), f"the attribute registry cannot be read ({error}), so values are checked less well"


def _carry_out(scene: _Scene, story: BiosStory) -> BiosStory:
    """Attempt after attempt, each planned afresh from what the one before has left."""
    earlier: tuple[BiosStory, ...] = ()
    while True:
        steps = story.plan.steps
        first = replace(story, plan=story.plan.step(0), earlier=earlier)
        done = apply(scene.idrac, first, scene.platform.boot, scene.handover, scene.tag, restarts=scene.restarts)
        if done.stop is not None:
            return _since_then(done)
        if len(steps) < 2:
            return done
        if not scene.restarts:
            _leave_rest(scene.handover, steps[1:])
            return done
        earlier = (*earlier, done)
        try:
            story = replace(look(scene.idrac, scene.platform, scene.consent, host=scene.host), earlier=earlier)
        except TapeError:
            raise
        except BringupError as error:
            text = f"the machine could not be looked at again: {error}"
            return _since_then(replace(done, earlier=earlier, stop=Stop(RESULT, text, error.blame)))
        if story.stop is not None or story.plan.is_empty:
            return _since_then(story)
        if not story.plan.can_be_written or len(story.plan.steps) >= len(steps):
            text = f"boot {len(earlier)} of {len(earlier) + len(steps) - 1} did not free what was to come after it\n{story.plan}"
            return replace(story, stop=Stop(ATTRIBUTES, text))


def _since_then(story: BiosStory) -> BiosStory:
    """After an earlier boot, "nothing was written" of a stop is true of the rest alone, and says so."""
    if story.stop is None or not story.earlier:
        return story
    return replace(story, stop=replace(story.stop, text=_NOTHING.sub(r"nothing more \1 ", story.stop.text)))


def _leave_rest(handover: Handover, steps: Sequence[Sequence[Change]]) -> None:
    """Say in the hand-over what the boot to come does not set yet, and who does."""
    boots = ", then ".join(" and ".join(map(str, step)) for step in steps)
    handover.leave(REST, f"{boots}: to be set after that boot, by the same command again (boot 2 of {len(steps) + 1})")


def _why_not(story: BiosStory) -> str:
    """The plan, and what it would take."""
    plan = story.plan
    text = f"the BIOS differs from the platform and was not changed\n{plan}"
    if plan.can_be_written and not story.is_consented:
        boots = "one BIOS job and one restart" if len(plan.steps) < 2 else f"{len(plan.steps)} BIOS jobs and restarts"
        return f"{text}\nrun with --apply to change it: {boots}, about ten minutes and more with many GPUs"
    return text
