"""Before anything is written: is the machine free, unlocked and nobody else's? Facts first, then pure judgement.

lockdown, privileges ──▶ Lifecycle Controller and host ──▶ pending values ──▶ jobs
(only matters to a write)                      (matter to any restart)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import BiosState, LcSettings, LcStatus, System
from harness.devices.jobs import LC_IN_USE, Job, Phase
from harness.errors import Blame, RedfishError, Unreadable
from harness.limits import Value
from harness.procedures.host_state import ATTENDED, UNDERWAY, is_at_rest, settle
from harness.procedures.occupancy import occupants
from harness.procedures.stop import Stop
from harness.secret import holds_secret

LOCKDOWN, LC, PENDING, JOBS = "bios.preflight-lockdown", "bios.preflight-lc", "bios.preflight-pending", "bios.preflight-jobs"

NO_INVENTORY = (
    "the Lifecycle Controller collects no inventory on restart (CSIOR, LCAttributes.1.CollectSystemInventoryOnRestart): "
    "a job may be refused or never begin (RAC0772, PR30)"
)
"""A warning and no stop: Dell's EEMI registry tells for these ids to switch it on; no job that failed for it is public."""

LOCKED = "Enabled"
"""Lockdown.1.SystemLockdown of a machine that refuses every change (a recorded iDRAC9 7.10, NVIDIA/libredfish)."""


CONTROLS_SERVER = 0x10
"""The bit of Users.N.Privilege that allows server control commands; an administrator has 0x1ff, a read-only user 0x1 (Dell iDRAC8
2.05.05.05 RACADM reference guide; dell/dellemc-openmanage-ansible-modules, idrac_user)."""

UNTOLD = LcSettings()
"""What is known of how the Lifecycle Controller is set where nobody asked, or it does not tell."""

AT_WORK = 1800.0
"""Seconds more for a POST in which a BIOS job is at work, from a run that was cut off, say: with its own extra reset it takes twice
as long as a bare one, and 45 minutes are the hard cap of any boot (ours)."""


@dataclass(frozen=True)
class Preflight:
    """How the machine stands before the run touches it.

    ``pending`` are staged BIOS values, ``jobs`` the active jobs, ``occupants`` who uses it or may, empty where it is free.
    ``lc_settings`` say nothing where nothing is to be written, or where they cannot be read. ``privileges`` are those of ``user``,
    who is logged in; None where that is not told.
    """

    system: System
    lockdown: str
    lc: LcStatus
    pending: Mapping[str, Value | None]
    jobs: tuple[Job, ...]
    occupants: str = ""
    lc_settings: LcSettings = UNTOLD
    user: str = ""
    privileges: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not stand against writing, and may be why a job fails all the same."""
        return (NO_INVENTORY,) if self.lc_settings.inventory == "Disabled" else ()


def survey(
    idrac: Idrac, state: BiosState, *, patience: float, host: Host | None = None, assume_free: bool = False, writes: bool = False
) -> Preflight:
    """Read how the machine stands, letting a POST that is under way end within ``patience`` seconds.

    ``writes``: something is to be written, so what matters to a write alone is read too.
    ``host`` is asked who uses it; None where that does not matter, because nothing is to be written.
    """
    if patience and idrac.lc_status().server in UNDERWAY and any(job.is_bios and job.is_active for job in idrac.jobs()):
        patience += AT_WORK
    lc = settle(idrac, patience)
    asked = occupants(host)
    active = tuple(job for job in idrac.jobs() if job.is_active)
    system = idrac.system()
    in_use = asked.hindrance(lc.server, system.boot_progress, assume_free=assume_free)
    access = idrac.access()
    return Preflight(
        system,
        access.lockdown,
        lc,
        state.pending,
        active,
        in_use,
        _lc_settings(idrac) if writes else UNTOLD,
        access.user,
        access.privileges,
    )


def _lc_settings(idrac: Idrac) -> LcSettings:
    """How the Lifecycle Controller is set; nothing where that cannot be read: older firmware keeps it elsewhere."""
    try:
        return idrac.lc_settings()
    except (RedfishError, Unreadable):
        return UNTOLD


def judge(found: Preflight, wanted: Mapping[str, Value], *, writes: bool) -> tuple[Stop, ...]:
    """What stands against going on, the first one first. ``wanted`` is what we would stage ourselves.

    All of it is the bench's blame: the machine is not free, which says nothing about it.
    """
    is_ours = writes and own_job(found.pending, found.jobs, wanted) is not None
    return tuple(_against_writing(found)) * writes + tuple(_of_others(found, wanted)) * (not is_ours)


def _against_writing(found: Preflight) -> Iterator[Stop]:
    if found.lockdown == LOCKED:
        yield _bench(LOCKDOWN, "system lockdown mode is on, so nothing can be set; turn Lockdown.1.SystemLockdown off in iDRAC")
    if found.privileges is not None and not found.privileges & CONTROLS_SERVER:
        yield _bench(
            LOCKDOWN,
            f"user {found.user} may not control the server (privileges {found.privileges:#x}), nor set anything: "
            "use another user in the bench, or have it given Execute Server Control Commands",
        )
    if found.lc.server in ATTENDED:
        yield _bench(
            LC, f"the host is in {found.lc.server}: a job would stay New ({', '.join(sorted(LC_IN_USE))}) until somebody leaves it"
        )
    elif found.lc.server in UNDERWAY:
        yield _bench(LC, f"the host stays in {found.lc.server}; let it finish, or look at its screen")
    elif not is_at_rest(found.lc):
        yield _bench(LC, f"the host is in {found.lc.server}, and what that means is not known; nothing is changed")
    elif found.lc_settings.controller not in ("", "Enabled"):
        yield _bench(LC, f"the Lifecycle Controller is set to {found.lc_settings.controller}, so no job can be made (BIOS010)")
    elif found.lc.lc != "Ready":
        yield _bench(LC, f"the Lifecycle Controller is {found.lc.lc}, not Ready, so it takes no job")
    if found.occupants:
        yield _bench(LC, f"the machine is in use: {found.occupants}; nothing is changed while it is")


def _of_others(found: Preflight, wanted: Mapping[str, Value]) -> Iterator[Stop]:
    bios_job = next((job for job in found.jobs if job.is_bios), None)
    if foreign := foreign_values(found.pending, wanted):
        listed = ", ".join(f"{name}={value}" for name, value in sorted(foreign.items()))
        if bios_job is None:
            yield _bench(
                PENDING,
                f"somebody else has staged {listed}: a job of ours would apply it too; let them apply it, or clear it with "
                f"`bringup bios clear`\n{schedulable(foreign)}",
            )
    if found.jobs:
        listed = "; ".join(str(job) for job in found.jobs)
        yield _bench(JOBS, f"the queue holds what is not ours: {listed}; wait for it, or delete it if nobody wants it")


def schedulable(foreign: Mapping[str, Value | None]) -> str:
    """How to schedule what somebody staged and nothing would ever apply, once it is agreed to. A secret stands in no file."""
    if any(holds_secret(name) for name in foreign):
        return "next: ask around; a password among them can be applied by whoever staged it alone"
    listed = ", ".join(f"{name} = {json.dumps(value)}" for name, value in sorted(foreign.items()))
    return (
        f"next: ask around; where they are to be applied, write just them to a file (TOML: {listed}) and run "
        "`bringup bios apply --attributes FILE`: it sends no values, makes only the job, and restarts the host"
    )


def own_job(pending: Mapping[str, Value | None], active: tuple[Job, ...], wanted: Mapping[str, Value]) -> Job | None:
    """The job that a run of this plan left when it was cut off: the only active one, and what is pending is the plan, whole.

    Then a restart applies what we want and nothing else, whoever staged it. A job that failed already is nobody's to go on with.
    """
    if len(active) != 1 or not wanted or dict(pending) != dict(wanted):
        return None
    (job,) = active
    return job if job.is_bios and job.phase in (Phase.WAITING, Phase.SCHEDULED, Phase.RUNNING) else None


def foreign_values(pending: Mapping[str, Value | None], own: Mapping[str, Value | None]) -> dict[str, Value | None]:
    """The pending values that are not exactly what we want ourselves."""
    return {name: value for name, value in pending.items() if name not in own or own[name] != value}


def _bench(check: str, text: str) -> Stop:
    return Stop(check, text, Blame.BENCH)
