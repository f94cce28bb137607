"""Discard what is pending, for a person who has looked at it: the values that are ours or named, and the one waiting job named.

looked at ─▶ nobody else's but what was named ─▶ nobody at the machine ─▶ job deleted ─▶ values cleared ─▶ seen to be gone
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.jobs import Job
from harness.errors import BenchError, DeviceError, OwnershipError
from harness.limits import Limit, Value
from harness.procedures.bios.clearing import clear_only
from harness.procedures.bios.preflight import foreign_values
from harness.procedures.handover import Handover
from harness.procedures.host_state import ATTENDED, UNDERWAY
from harness.procedures.occupancy import occupants

KEY = "bios.discard"
"""The key under which the hand-over knows what may be there still."""


@dataclass(frozen=True)
class Choice:
    """What may go: pending values that are ``wanted`` here anyway or ``named``, and the waiting BIOS ``job``, empty for none.

    ``command`` is what is typed to try it again, without names and job.
    """

    wanted: Mapping[str, Limit]
    named: Collection[str] = ()
    job: str = ""
    command: str = "bringup bios clear"
    assume_free: bool = False

    def again(self, names: Collection[str], jobs: Sequence[Job]) -> str:
        """The command that discards these, to be typed as it stands."""
        words = [shlex.quote(name) for name in sorted(names)]
        return " ".join([self.command, *words, *(f"--job {each.id}" for each in jobs)])


@dataclass(frozen=True)
class Discarded:
    """What went: ids of jobs, and values by name."""

    jobs: tuple[str, ...] = ()
    values: Mapping[str, Value | None] = field(default_factory=dict)


def discard(idrac: Idrac, choice: Choice, handover: Handover, *, expected_tag: str, host: Host | None = None) -> Discarded:
    """Take away what was chosen, or nothing at all; an empty result where nothing was there.

    Raises OwnershipError where somebody else's would go too or a job waits that was not named, BenchError where somebody uses the
    machine or its start is under way, DeviceError where what was taken away is there still. ``handover`` says what may be left.
    """
    idrac.insist_on(expected_tag)
    pending = idrac.bios().pending
    _refuse_foreign(pending, choice)
    jobs = _deletable(idrac.jobs(), choice.job, pending)
    if not pending and not jobs:
        return Discarded()
    _refuse_in_use(idrac, host, has_job=bool(jobs), assume_free=choice.assume_free)
    _carry_out(idrac, choice, handover, pending, jobs, tag=expected_tag)
    return Discarded(tuple(each.id for each in jobs), pending)


def _refuse_foreign(pending: Mapping[str, Value | None], choice: Choice) -> None:
    own = {name: limit.bounds[0] for name, limit in choice.wanted.items() if limit.kind == "exactly"}
    foreign = set(foreign_values(pending, own)) - set(choice.named)
    if foreign:
        raise OwnershipError(
            f"somebody else staged {', '.join(sorted(foreign))}, and clearing takes all pending values away; name them to clear "
            f"them too: {choice.again({*foreign, *choice.named}, ())}"
        )


def _deletable(queue: Sequence[Job], named: str, pending: Mapping[str, Value | None]) -> list[Job]:
    """The waiting BIOS job that was named. Raises OwnershipError for one that was not, and while any job is at work."""
    active = [each for each in queue if each.is_active]
    jobs = [each for each in active if each.is_bios]
    at_work = next((each for each in active if each.is_running), None)
    if at_work is not None and (jobs or pending):
        raise OwnershipError(f"{at_work} is at work and must not be cut off; nothing was taken away")
    for each in jobs:
        if each.id != named:
            raise OwnershipError(f"{each} waits; name it with --job {each.id}; nothing was taken away")
    if named and not jobs:
        raise OwnershipError(f"{named} is no BIOS job that waits; nothing was taken away")
    return jobs


def _refuse_in_use(idrac: Idrac, host: Host | None, *, has_job: bool, assume_free: bool) -> None:
    """Somebody who uses the machine may be about to apply what is pending; a start under way may be carrying the job out."""
    lc, system = idrac.lc_status(), idrac.system()
    if lc.server in ATTENDED:
        raise BenchError(f"somebody left the host in {lc.server}, where the settings are his; nothing was taken away")
    if has_job and lc.server in UNDERWAY:
        raise BenchError(f"the host is in {lc.server} and may be carrying the job out; let it finish; nothing was taken away")
    if in_use := occupants(host).hindrance(lc.server, system.boot_progress, assume_free=assume_free):
        raise BenchError(f"the machine is in use: {in_use}; nothing was taken away")


def _carry_out(
    idrac: Idrac, choice: Choice, handover: Handover, pending: Mapping[str, Value | None], jobs: Sequence[Job], *, tag: str
) -> None:
    gone: list[str] = []
    for number, each in enumerate(jobs):
        _leave(handover, choice, pending, jobs[number:], gone)
        idrac.insist_on(tag)
        idrac.delete_job(each.id)
        gone.append(each.id)
    _leave(handover, choice, pending, (), gone)
    clear_only(idrac, pending, expected_tag=tag)
    stay = set(pending) & set(idrac.bios().pending) | {each.id for each in idrac.jobs() if each.id in gone and each.is_active}
    if stay:
        raise DeviceError(f"{', '.join(sorted(stay))} stay although they were taken away")
    handover.clear(KEY)


def _leave(
    handover: Handover, choice: Choice, pending: Mapping[str, Value | None], jobs: Sequence[Job], gone: Sequence[str]
) -> None:
    listed = ", ".join([*(f"{each.id} (applies at the next reboot by anyone)" for each in jobs), *sorted(pending)])
    deleted = f"{', '.join(gone)} deleted; " if gone else ""
    handover.leave(KEY, f"{deleted}{listed} may be there still", choice.again(pending, jobs))
