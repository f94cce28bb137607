"""Change power by a row of the table, and believe it only when its proof is there.

standing ─▶ forbidden? ─▶ mark the log ─▶ ask once ─▶ wait for the proof ─▶ Done
                │                                        └(limit)─▶ DeviceError: accepted, and what is missing
                └▶ BenchError, nothing was sent
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LogEntry, System
from harness.devices.idrac_power import cycle_ac, restart_idrac
from harness.errors import BenchError, DeviceError, Timeout, Unreachable
from harness.procedures.endurance import Endurance, Loss
from harness.procedures.occupancy import NOBODY, occupants
from harness.procedures.power import TABLE, ResetSent, Row, Standing, Target, Way, forbidden
from harness.units import duration

EVERY = 5.0
"""Seconds between two looks: a power cycle takes ten, so Off is rarely missed, and the log tells of it anyway."""


@dataclass(frozen=True)
class Done:
    """What was asked for, the log since, the host's power at the end, how long it took, and when the iDRAC was away."""

    sent: ResetSent
    events: tuple[LogEntry, ...]
    power: str
    seconds: float
    losses: tuple[Loss, ...] = ()


def stand(idrac: Idrac, host: Host | None = None) -> Standing:
    """How the machine stands now. Raises BringupError where the iDRAC does not answer."""
    system = idrac.system()
    seen = occupants(host) if system.power_state != "Off" else NOBODY
    pending = tuple(sorted(idrac.bios().pending))
    return Standing(system, tuple(job for job in idrac.jobs() if job.is_active), pending, seen.found or seen.silence)


def carry_out(idrac: Idrac, way: Way, *, expected_tag: str, host: Host | None = None, own: str = "") -> Done:
    """Go one way and wait for its proof; ``own`` is the caller's own job, which may run.

    Raises BenchError for another machine or where something forbids it (then nothing was sent), DeviceError where the firmware
    has no such way or accepts it and nothing comes of it.
    """
    row = TABLE[way]
    if against := forbidden(way, stand(idrac, host), own):
        raise BenchError(f"{way}: {against}; nothing was sent")
    mark = idrac.lc_mark()
    sent = _send(idrac, row, idrac.insist_on(expected_tag))
    return _await(idrac, row, sent, 0 if mark is None else mark.number)


def _send(idrac: Idrac, row: Row, system: System) -> ResetSent:
    """Ask once. A lost answer is no failure: what takes the iDRAC away may take its answer too."""
    kind = row.choose(system)
    try:
        match row.target:
            case Target.CHASSIS:
                answer = cycle_ac(idrac)
            case Target.MANAGER:
                answer = restart_idrac(idrac)
            case Target.SYSTEM:
                answer = idrac.reset(kind)
    except Unreachable:
        return ResetSent(kind, idrac.clock.now(), is_answered=False)
    return ResetSent(kind, answer.at)


def _await(idrac: Idrac, row: Row, sent: ResetSent, mark: int) -> Done:
    endurance = Endurance(idrac.clock, longest=row.limit)

    def look() -> tuple[tuple[LogEntry, ...], str] | None:
        return endurance.ask(lambda: (idrac.lc_log(mark), idrac.system().power_state))

    def is_proven(seen: tuple[tuple[LogEntry, ...], str] | None) -> bool:
        return seen is not None and row.proof.is_given([event.message_id for event in seen[0]], seen[1])

    try:
        seen = idrac.clock.until(look, is_proven, what=f"the {row.way}", every=EVERY, within=row.limit)
    except Timeout as timeout:
        raise DeviceError(f"{row.way}: {sent.kind} was sent, and {_missing(row, timeout)}") from None
    assert seen is not None  # is_proven
    return Done(sent, seen[0], seen[1], idrac.clock.now() - sent.at, endurance.losses)


def _missing(row: Row, timeout: Timeout) -> str:
    within = f"within {duration(row.limit)}"
    if not isinstance(timeout.last, tuple):
        return f"the iDRAC did not answer {within}"
    events, power = timeout.last
    ids = ", ".join(event.message_id for event in events) or "nothing"
    wanted = " then ".join("/".join(sorted(each)) for each in row.proof.log)
    return f"{within} its log tells of {ids} where {wanted} was due; the host is {power}"
