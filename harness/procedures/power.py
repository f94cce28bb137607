"""Power: the ways to change it, each as a row of one table; what forbids it, and how it is asked for once.

    way          from   asked for, the first that this firmware offers   proof in the Lifecycle log        limit
    ───────────  ─────  ───────────────────────────────────────────────  ────────────────────────────────  ──────
    on           off    On, PushPowerButton                              turned on, and power is On        300 s
    graceful off on     GracefulShutdown, PushPowerButton                turned off, and power is Off      300 s
    forced off   on     ForceOff                                         turned off, and power is Off       60 s
    warm         on     ForceRestart, GracefulRestart, PowerCycle        processors reset or turned on     300 s
    cold         on     PowerCycle                                       turned off, then turned on        300 s
    AC cycle     off    DellOemChassis.ExtendedReset                     the iDRAC itself started again    900 s
    iDRAC reset  any    Manager.Reset                                    the iDRAC itself started again    900 s

Firmware differs in what it offers: iDRAC9 3.15 has no ForceRestart (sailfishdell/sailfish, R740), 3.34 and 3.36 no GracefulRestart
(github.com/quadsproject/badfish/issues/118, R640). ForceRestart comes first because a graceful one needs an operating system that
listens, and a machine in bring-up often has none; that nobody uses the machine is checked before.

An answer of 204 proves nothing: an R650 with iDRAC9 5.10.10.05 accepted a power-on and did nothing
(github.com/redhat-performance/jetlag/issues/245). power_proof.py carries a row out and waits for its proof.

None of these touches an expansion chassis or the fabric switch. To start: chassis, switch, links up, then the host; to stop, the
reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import System
from harness.devices.jobs import Job
from harness.devices.redfish import suffix
from harness.errors import BenchError, DeviceError, RedfishError, Timeout, Unreachable

ALREADY = frozenset({"PSU501", "PSU502"})
"""Refusals that mean the wanted state is there: already on, already off (EEMI registry 2.9.0)."""


COMING_ON = 60.0
"""Seconds in which a machine that was asked to start is seen to be on; recorded ones are within ten."""


GRACEFUL = "GracefulRestart"
"""The only restart of iDRAC9 3.15: the operating system is asked, and where none listens nothing happens."""

LISTENING = 300.0
"""Seconds in which an operating system that heard it is down: what Dell's Ansible modules give one to end."""


class Wanted(StrEnum):
    """What a reset is for, whatever state the machine is in."""

    RESTART = "restart"
    OFF = "off"


class Way(StrEnum):
    """The ways to change power; the value is how a person calls them."""

    ON = "on"
    GRACEFUL_OFF = "graceful off"
    FORCED_OFF = "forced off"
    WARM = "warm restart"
    COLD = "power cycle"
    AC_CYCLE = "virtual AC cycle"
    IDRAC_RESET = "iDRAC reset"


class Target(StrEnum):
    """What a request goes to."""

    SYSTEM = "ComputerSystem.Reset"
    CHASSIS = "DellOemChassis.ExtendedReset"
    MANAGER = "Manager.Reset"


class Bar(StrEnum):
    """What may forbid a way."""

    JOB = "a job at work, or one of somebody else that would run"
    PENDING = "BIOS values that are staged"
    OCCUPANTS = "people or processes on the host"


@dataclass(frozen=True)
class Proof:
    """What shows that it happened: one of each set of message ids in the Lifecycle log, in this order, and the power at the end.

    Ids are of the EEMI registry 2.9.0: SYS1000 turns on, SYS1001 turns off, SYS1003 resets the processors, RAC0182 is the iDRAC's
    own start. ``power`` is empty where the host's power stays as it was.
    """

    log: tuple[frozenset[str], ...]
    power: str = ""

    def is_given(self, message_ids: Sequence[str], power: str) -> bool:
        """True where the log since the request and the power show it."""
        rest = iter(message_ids)
        return all(any(seen in wanted for seen in rest) for wanted in self.log) and self.power in ("", power)


@dataclass(frozen=True)
class Row:
    """One way: ``state`` before (On, Off, or empty for either), what is asked for, the proof, and what forbids it.

    ``kinds`` are reset types in order of preference. ``usual`` and ``limit`` are seconds until the proof is there: ``usual`` is
    what a person may expect, an assumption where no source is named, and ``limit`` ends the wait.
    """

    way: Way
    state: str
    target: Target
    kinds: tuple[str, ...]
    proof: Proof
    usual: float
    limit: float
    bars: frozenset[Bar]

    def choose(self, system: System, wanted: str = "") -> str:
        """The reset type to ask for, for what is ``wanted``. Raises DeviceError where the firmware offers none that fits."""
        if self.target is not Target.SYSTEM:
            return self.kinds[0]
        for kind in self.kinds:
            if kind in system.reset_types:
                return kind
        raise _no_way(wanted or f"do a {self.way} of", system)


_TURNED_ON, _TURNED_OFF = frozenset({"SYS1000"}), frozenset({"SYS1001"})
_RESTARTED, _BMC_STARTED = frozenset({"SYS1000", "SYS1003"}), frozenset({"RAC0182"})
_HOST = frozenset({Bar.JOB, Bar.OCCUPANTS})
_ROWS = (
    # from Off nobody is on the host; its limit is that of a restart, for a start is as little heard of
    Row(Way.ON, "Off", Target.SYSTEM, ("On", "PushPowerButton"), Proof((_TURNED_ON,), "On"), 10, 300, frozenset({Bar.JOB})),
    # five minutes is what Dell's Ansible modules give an operating system to end (dell/dellemc-openmanage-ansible-modules)
    Row(
        Way.GRACEFUL_OFF, "On", Target.SYSTEM, ("GracefulShutdown", "PushPowerButton"), Proof((_TURNED_OFF,), "Off"), 60, 300, _HOST
    ),
    Row(Way.FORCED_OFF, "On", Target.SYSTEM, ("ForceOff",), Proof((_TURNED_OFF,), "Off"), 5, 60, _HOST),
    Row(
        Way.WARM,
        "On",
        Target.SYSTEM,
        ("ForceRestart", "GracefulRestart", "PowerCycle"),
        Proof((_RESTARTED,), "On"),
        10,
        300,
        _HOST,
    ),
    Row(Way.COLD, "On", Target.SYSTEM, ("PowerCycle",), Proof((_TURNED_OFF, _TURNED_ON), "On"), 20, 300, _HOST),
    # the host is off first, and stays off: chassis and links come up before it. At least 180 s away (NVIDIA/libredfish)
    Row(
        Way.AC_CYCLE,
        "Off",
        Target.CHASSIS,
        ("PowerCycle",),
        Proof((_BMC_STARTED,), "Off"),
        200,
        900,
        frozenset({Bar.JOB, Bar.PENDING}),
    ),
    # the host runs on, but a job of the Lifecycle Controller would lose its master in the middle
    Row(Way.IDRAC_RESET, "", Target.MANAGER, ("GracefulRestart",), Proof((_BMC_STARTED,)), 200, 900, frozenset({Bar.JOB})),
)
TABLE: Mapping[Way, Row] = {row.way: row for row in _ROWS}

_ON, _OFF = True, False
WAYS: Mapping[tuple[Wanted, bool], Way] = {
    (Wanted.RESTART, _ON): Way.WARM,
    (Wanted.RESTART, _OFF): Way.ON,
    (Wanted.OFF, _ON): Way.FORCED_OFF,
}
"""The way to what is wanted, by whether the machine is on."""


@dataclass(frozen=True)
class ResetSent:
    """A reset that was asked for. ``is_answered`` is False where the answer was lost: only what happens can tell.

    ``asked`` is 2 where a power-on or a graceful restart came to nothing and was asked for again; ``at`` is the last one's time.
    """

    kind: str
    at: float
    is_answered: bool = True
    asked: int = 1


def choose_reset(wanted: Wanted, system: System) -> str:
    """The reset type to ask for. Raises DeviceError where the firmware offers none that fits."""
    way = WAYS.get((wanted, system.power_state != "Off"))
    if way is None:
        raise _no_way(wanted, system)
    return TABLE[way].choose(system, wanted)


def _no_way(wanted: str, system: System) -> DeviceError:
    offered = ", ".join(system.reset_types) or "nothing"
    return DeviceError(f"no way to {wanted} a machine that is {system.power_state}: it offers {offered}")


def obstacle(jobs: Sequence[Job], own: str = "") -> str:
    """Why the machine must not be reset now, or nothing: a job at work, or one that our reset would start for somebody else."""
    for job in jobs:
        if job.is_running:
            return f"{job} is at work"
        if job.is_active and job.id != own:
            return f"{job} is not ours and would run at the reset"
    return ""


@dataclass(frozen=True)
class Standing:
    """How a machine stands before its power is changed: ``pending`` are names of staged BIOS values, ``occupants`` who uses it."""

    system: System
    jobs: tuple[Job, ...] = ()
    pending: tuple[str, ...] = ()
    occupants: str = ""


def forbidden(way: Way, standing: Standing, own: str = "") -> str:
    """Why ``way`` must not be gone now, or nothing; ``own`` is the job that the caller made itself."""
    row = TABLE[way]
    if row.state and standing.system.power_state != row.state:
        first = " first" if row.state == "Off" else ""
        return f"the host is {standing.system.power_state}; it has to be {row.state}{first}"
    if Bar.JOB in row.bars and (against := obstacle(standing.jobs, own)):
        return against
    if Bar.PENDING in row.bars and standing.pending:
        return f"BIOS values are staged ({', '.join(standing.pending)}): apply them or take them back first"
    if Bar.OCCUPANTS in row.bars and standing.occupants:
        return f"the host is in use: {standing.occupants}"
    return ""


def send_reset(idrac: Idrac, wanted: Wanted, *, expected_tag: str) -> ResetSent:
    """Ask for a reset once, right after reading the service tag again. Raises BenchError for another machine, DeviceError.

    A machine that is off and stays off is asked to start once more: firmware of the R640 and R650 took a power-on and did nothing
    (redhat-performance/jetlag#245). Not where a job has begun to work meanwhile. A graceful restart, where the firmware offers no
    other, is asked for once more too: an operating system that is still being loaded does not hear the first.
    """
    system = idrac.insist_on(expected_tag)
    kind = choose_reset(wanted, system)
    if kind == GRACEFUL:
        return _ask_until_heard(idrac, kind, expected_tag)
    sent = _ask(idrac, kind)
    if system.power_state != "Off" or wanted is not Wanted.RESTART or _comes_on(idrac):
        return sent
    if any(job.is_running for job in idrac.jobs()):  # an update of firmware, say, began while the host was off
        return sent
    idrac.insist_on(expected_tag)
    return replace(_ask(idrac, kind), asked=2)


def _ask_until_heard(idrac: Idrac, kind: str, tag: str) -> ResetSent:
    """Ask; where the host stays as it is for LISTENING seconds, ask once more, unless somebody's job has come meanwhile."""
    known = {job.id for job in idrac.jobs()}
    idrac.insist_on(tag)
    sent = _ask(idrac, kind)
    if _moves(idrac) or any(job.is_running or (job.is_active and job.id not in known) for job in idrac.jobs()):
        return sent
    idrac.insist_on(tag)
    return replace(_ask(idrac, kind), asked=2)


def _moves(idrac: Idrac) -> bool:
    """False only where the host is seen to stay through POST and on."""

    def look() -> bool:
        return idrac.lc_status().server != "OutOfPOST" or idrac.system().power_state != "On"

    try:
        return idrac.clock.until(look, bool, what="the host to obey the graceful restart", every=10, within=LISTENING)
    except Timeout as timeout:
        return timeout.last is not False
    except (BenchError, DeviceError):
        return True


def _comes_on(idrac: Idrac) -> bool:
    """False only where the machine is seen to stay off; a BMC that does not answer may well have started it."""
    try:
        idrac.clock.until(
            lambda: idrac.system().power_state,
            lambda power: power != "Off",
            what="the host to switch on",
            every=5,
            within=COMING_ON,
        )
    except Timeout as timeout:
        return timeout.last != "Off"
    except (BenchError, DeviceError):
        return True
    return True


def _ask(idrac: Idrac, kind: str) -> ResetSent:
    try:
        return ResetSent(kind, idrac.reset(kind).at)
    except Unreachable:
        return ResetSent(kind, idrac.clock.now(), is_answered=False)
    except RedfishError as error:
        if {suffix(message_id) for message_id in error.message_ids} & ALREADY:
            return ResetSent(kind, idrac.clock.now())
        raise
