"""The iDRAC itself: what it knows and keeps, apart from the server it manages.

Controller ─┬─ timeline   what will happen
            ├─ log        Lifecycle Controller log
            ├─ bios       current and pending settings
            ├─ jobs       the queue
            └─ sessions   who is logged in
Server      power and POST of the machine under it: the model, or a machine in QEMU
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.clock import Clock
from harness.lab.idrac.generations import generation
from harness.lab.idrac.log import LifecycleLog
from harness.lab.idrac.profile import DEFAULT, Profile
from harness.lab.idrac.queue import BIOS, Job, JobQueue
from harness.lab.idrac.sessions import Sessions
from harness.lab.idrac.settings import BiosSettings
from harness.lab.idrac.timeline import Timeline

RESTART = 170.0
"""Seconds that a restarting iDRAC is away: "at least 180 s" is what NVIDIA/libredfish allows for it."""

JOB_NAME = "Configure: BIOS.Setup.1-1"
"""The name in Dell's own job resources; JobService says ConfigBIOS:BIOS.Setup.1-1 of the same job (NVIDIA/libredfish)."""


@dataclass(frozen=True)
class Identity:
    """Who the machine and its controller say they are, who may log in, and what in the lab it is (``model``, ``virtual-lab``)."""

    service_tag: str
    model: str
    bios_version: str
    firmware: str
    user: str
    password: str
    simulated: str = "model"


@dataclass(frozen=True)
class Status:
    """The server at one moment, in the words of the API.

    ``power`` is On, Off, PoweringOn or PoweringOff; ``server`` a ServerStatus of GetRemoteServicesAPIStatus (``InPOST``);
    ``progress`` a BootProgress.LastState (``PCIResourceConfigStarted``).
    """

    power: str
    server: str
    progress: str


@dataclass(frozen=True)
class ListedGpu:
    """One GPU that the iDRAC lists: its bus and device, and its serial number, "" for one that is listed as a mere PCIe device."""

    bus: int
    device: int = 0
    serial: str = ""

    @property
    def key(self) -> str:
        """The id of its PCIe device: bus and device in decimal."""
        return f"{self.bus}-{self.device}"

    @property
    def fqdd(self) -> str:
        """The id of its processor. Dell names slots; what it would name a slot of an external chassis is an assumption."""
        return f"Video.Slot.{self.bus}-1"


class Controller:
    """The state of one iDRAC.

    ``staged_at`` is when the settings were written last, ``back_at`` when it came back from its last restart; None for never.
    ``gpus`` tells which GPUs its inventory lists now: none, unless the machine says otherwise. ``session_clock`` is the clock by
    which sessions end, where the machine's own runs faster than its clients'.
    """

    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        faults: frozenset[str] = frozenset(),
        profile: Profile = DEFAULT,
        *,
        session_clock: Clock | None = None,
    ) -> None:
        self.identity = identity
        self.profile = profile
        self.faults = faults
        self.timeline = Timeline(clock)
        self.log = LifecycleLog(self.timeline)
        self.bios = BiosSettings(generation(profile.generation))
        self.jobs = JobQueue(self.timeline, self.log)
        self.sessions = Sessions(Timeline(session_clock or clock), self.log, identity.user, identity.password)
        self.gpus: Callable[[], Sequence[ListedGpu]] = tuple
        self.is_up = True
        self.is_locked_down = "bios.preflight-lockdown" in faults
        self.has_lifecycle_controller = "bios.preflight-lc.disabled" not in faults
        self.inventory_at = -1.0
        self.staged_at: float | None = None
        self.back_at: float | None = None
        self._struck: set[str] = set()
        self._unready_until = 0.0

    @property
    def is_ready(self) -> bool:
        """False while its services start again and data requests are answered with SWC0700."""
        return self.timeline.now >= self._unready_until

    def restart(self, reason: str) -> None:
        """Be away for RESTART seconds. Sessions are lost, jobs and pending values are not; the server runs on."""
        self.is_up = False
        self.sessions.drop_all()

        def come_back() -> None:
            self.is_up = True
            self.back_at = self.timeline.now
            self.log.add("RAC0182", reason, category="Audit")

        self.timeline.after(RESTART, come_back)

    def forbids(self, locked: str, *, makes_job: bool) -> str:
        """The message id that refuses a change of settings as the iDRAC is set, ``locked`` under lockdown; empty for none."""
        if self.is_locked_down:
            return locked
        return "BIOS010" if makes_job and not self.has_lifecycle_controller else ""

    def strikes(self, fault: str) -> bool:
        """True the first time, for a fault that happens once."""
        is_first = fault not in self._struck
        self._struck.add(fault)
        return is_first

    def restart_services(self, seconds: float) -> None:
        """Answer every data request with SWC0700 for so long, as after a forced clearing of the queue."""
        self._unready_until = self.timeline.now + seconds

    def schedule_bios_job(self) -> Job:
        """Make the job that applies what is pending. It stays New while the Lifecycle Controller is in use."""
        if self.faults & {"bios.preflight-lc", "idrac.job-stays-new"}:
            return self.jobs.add(BIOS, JOB_NAME, state="New", message_id="JCP024")
        return self.jobs.add(BIOS, JOB_NAME)


class Server(Protocol):
    """The machine that an iDRAC manages."""

    @property
    def controller(self) -> Controller:
        """Its iDRAC."""

    def status(self) -> Status:
        """Power and POST state now."""

    def reset(self, kind: str) -> None:
        """Do what one of the AllowableValues of ComputerSystem.Reset asks for; the effect comes later."""
