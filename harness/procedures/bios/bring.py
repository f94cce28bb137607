"""Bring the BIOS settings to what the platform wants, or say why not. Nothing differs: nothing is written."""

from __future__ import annotations

from dataclasses import replace

from harness.consent import Consent
from harness.devices.bios_registry import Registry
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.errors import Blame
from harness.platform import Platform
from harness.procedures.bios.apply import apply
from harness.procedures.bios.plan import differing, make_plan
from harness.procedures.bios.preflight import LOCKED, judge, survey
from harness.procedures.bios.story import ATTRIBUTES, BiosStory
from harness.procedures.handover import Handover
from harness.procedures.stop import Stop


def bring_bios(
    idrac: Idrac,
    platform: Platform,
    consent: Consent,
    handover: Handover,
    *,
    expected_tag: str,
    host: Host | None = None,
) -> BiosStory:
    """Compare, and with consent apply with exactly one PATCH, one job and one reset.

    ``expected_tag`` is read first, and again right before every write. ``host`` is asked who uses the machine, where it can be
    reached. Raises BenchError where another machine answers, BenchError and DeviceError where the first reads fail; after that
    it stops instead, takes away what it staged as far as that can be done, and says in ``handover`` what is left.
    """
    idrac = idrac.located()
    idrac.insist_on(expected_tag)
    before = idrac.bios()
    wanted = platform.bios.attributes
    differs = bool(differing(before.attributes, wanted))
    wants_to_write = consent.apply and differs
    found = survey(
        idrac,
        before,
        patience=platform.boot.no_progress if wants_to_write else 0.0,
        host=host if wants_to_write else None,
        assume_free=consent.assume_free,
    )
    registry = idrac.registry() if differs else Registry()
    plan = make_plan(before.attributes, wanted, registry, consent.danger, is_locked_down=found.lockdown == LOCKED)
    story = BiosStory(before, found, plan, consent.apply)
    against = judge(found, plan.values, writes=wants_to_write)
    if against:
        return replace(story, stop=against[0])
    if consent.apply and plan.can_be_written:
        return apply(idrac, story, platform.boot, handover, expected_tag)
    if plan.mistakes:
        text = "\n".join(("the platform file cannot be meant like this, so nothing was changed", *map(str, plan.mistakes)))
        return replace(story, stop=Stop(ATTRIBUTES, text, Blame.BENCH))
    return story if plan.is_empty else replace(story, stop=Stop(ATTRIBUTES, _why_not(story)))


def _why_not(story: BiosStory) -> str:
    """The plan, and what it would take."""
    plan = story.plan
    text = f"the BIOS differs from the platform and was not changed\n{plan}"
    if plan.can_be_written and not story.is_consented:
        return f"{text}\nrun with --apply to change it: one BIOS job and one restart, about ten minutes and more with many GPUs"
    return text
