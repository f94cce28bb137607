"""Change BIOS settings for a person at a terminal: others first, then the change, then the proof that the machine started anew.

others' jobs and values ─▶ bring_bios ─▶ through POST ─▶ restarts in the log, a new boot id ─▶ done
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from harness.consent import Consent
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.errors import BringupError, TapeError, Timeout
from harness.platform import Platform
from harness.procedures.bios.bring import bring_bios, look
from harness.procedures.bios.conflict import REFUSE, WAIT, Conflict, make_way
from harness.procedures.bios.preflight import JOBS, PENDING
from harness.procedures.bios.story import RESULT, BiosStory
from harness.procedures.boot.post import RESTARTS
from harness.procedures.handover import Handover
from harness.procedures.stop import Stop

LOADING = 600.0
"""Seconds that an operating system which answered before is given to answer again, once POST is over."""


@dataclass(frozen=True)
class Changed:
    """What came of it: the story, and how the new boot shows (empty where none was needed or seen)."""

    story: BiosStory
    proof: tuple[str, ...] = ()


def change_bios(
    idrac: Idrac,
    platform: Platform,
    consent: Consent,
    handover: Handover,
    *,
    expected_tag: str,
    host: Host | None = None,
    restarts: bool = True,
    conflict: Conflict | None = None,
) -> Changed:
    """Bring the settings about and stay until the machine is proven to have started with them.

    Raises as ``bring_bios`` and ``make_way``; what is left is in ``handover``.
    """
    idrac = idrac.located()
    if conflict is not None and conflict.way != REFUSE:
        idrac.insist_on(expected_tag)
        story = look(idrac, platform, consent, host=host)
        if not story.plan.is_empty and (conflict.way == WAIT or _would_write(story)):
            make_way(idrac, story.plan.step(0).values, conflict, handover, expected_tag=expected_tag)
    previous = _boot_id(host) if restarts else ""
    story = bring_bios(idrac, platform, consent, handover, expected_tag=expected_tag, host=host, restarts=restarts)
    if story.stop is not None or not restarts or not _took_a_boot(story):
        return Changed(story)
    return _prove(idrac, host, story, previous)


def _took_a_boot(story: BiosStory) -> bool:
    """Whether anything of it was carried out by a start of the machine, whoever had it started."""
    return any(each.writes or each.is_resumed for each in (*story.earlier, story))


def _would_write(story: BiosStory) -> bool:
    """Nobody's job is deleted for a change that will not be made: of a machine in use or locked, or one that is not agreed to."""
    return story.plan.can_be_written and (story.stop is None or story.stop.check in (JOBS, PENDING))


def _prove(idrac: Idrac, host: Host | None, story: BiosStory, previous: str) -> Changed:
    """A new boot shows in the log and, where the operating system answered before, in its boot id; never in PowerState."""
    events = [entry for each in (*story.earlier, story) for entry in each.log if entry.message_id in RESTARTS]
    proof = [f"the Lifecycle log has {len(events)} restart{'s' * (len(events) != 1)}, the last {events[-1]}"] if events else []
    if not events and story.is_resumed and story.reset is None and story.job is not None:
        proof.append(f"{story.job}, which only a start of the machine carries out: it had restarted before this run looked")
        return Changed(story, tuple(proof))
    if previous and host is not None:
        proof.append(_new_boot_id(idrac, host, previous))
    if not events and not any(line.startswith("the operating system has a new") for line in proof):
        text = "the values are set, but neither the log nor the operating system shows a new boot"
        return Changed(replace(story, stop=Stop(RESULT, text)), tuple(proof))
    return Changed(story, tuple(proof))


def _new_boot_id(idrac: Idrac, host: Host, previous: str) -> str:
    with suppress(Timeout):
        found = idrac.clock.until(
            lambda: _boot_id(host),
            lambda boot_id: boot_id not in ("", previous),
            what="the operating system to answer again",
            every=10,
            within=LOADING,
        )
        return f"the operating system has a new boot id, {found}"
    return f"the operating system, which answered before, did not within {LOADING:g} s"


def _boot_id(host: Host | None) -> str:
    if host is None:
        return ""
    try:
        return host.boot_id()
    except TapeError:
        raise
    except BringupError:
        return ""
