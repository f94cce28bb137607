"""Power: what to ask for so that a machine restarts, and what forbids asking.

    wanted      machine is   asked for, the first that this firmware offers
    ─────────   ──────────   ──────────────────────────────────────────────
    restart     on           ForceRestart, GracefulRestart, PowerCycle
    restart     off          On, PushPowerButton
    off         on           ForceOff

Firmware differs in what it offers: iDRAC9 3.15 has no ForceRestart (sailfishdell/sailfish, R740), 3.34 and 3.36 no GracefulRestart
(github.com/quadsproject/badfish/issues/118, R640). ForceRestart comes first because a graceful one needs an operating system that
listens, and a machine in bring-up often has none; that nobody uses the machine is checked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import System
from harness.devices.jobs import Job
from harness.devices.redfish import suffix
from harness.errors import DeviceError, RedfishError, Unreachable

ALREADY = frozenset({"PSU501", "PSU502"})
"""Refusals that mean the wanted state is there: already on, already off (EEMI registry 2.9.0)."""


class Wanted(StrEnum):
    """What a reset is for."""

    RESTART = "restart"
    OFF = "off"


_ON, _OFF = True, False
RESETS: Mapping[tuple[Wanted, bool], tuple[str, ...]] = {
    (Wanted.RESTART, _ON): ("ForceRestart", "GracefulRestart", "PowerCycle"),
    (Wanted.RESTART, _OFF): ("On", "PushPowerButton"),
    (Wanted.OFF, _ON): ("ForceOff",),
}


@dataclass(frozen=True)
class ResetSent:
    """A reset that was asked for, once. ``is_answered`` is False where the answer was lost: only what happens can tell."""

    kind: str
    at: float
    is_answered: bool = True


def choose_reset(wanted: Wanted, system: System) -> str:
    """The reset type to ask for. Raises DeviceError where the firmware offers none that fits."""
    fitting = RESETS.get((wanted, system.power_state != "Off"), ())
    for kind in fitting:
        if kind in system.reset_types:
            return kind
    offered = ", ".join(system.reset_types) or "nothing"
    raise DeviceError(f"no way to {wanted} a machine that is {system.power_state}: it offers {offered}")


def obstacle(jobs: Sequence[Job], own: str = "") -> str:
    """Why the machine must not be reset now, or nothing: a job at work, or one that our reset would start for somebody else."""
    for job in jobs:
        if job.is_running:
            return f"{job} is at work"
        if job.is_active and job.id != own:
            return f"{job} is not ours and would run at the reset"
    return ""


def send_reset(idrac: Idrac, wanted: Wanted, *, expected_tag: str) -> ResetSent:
    """Ask for a reset once, right after reading the service tag again. Raises BenchError for another machine, DeviceError."""
    system = idrac.insist_on(expected_tag)
    kind = choose_reset(wanted, system)
    try:
        return ResetSent(kind, idrac.reset(kind).at)
    except Unreachable:
        return ResetSent(kind, idrac.clock.now(), is_answered=False)
    except RedfishError as error:
        if {suffix(message_id) for message_id in error.message_ids} & ALREADY:
            return ResetSent(kind, idrac.clock.now())
        raise
