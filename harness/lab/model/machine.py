"""The modelled R640: power, POST, operating system and console, all of them functions of the clock.

        On                          reset (any)
    Off ───▶ POST stages ──▶ OS ◀──────────────┐
     ▲          │   └ BIOS job ─▶ apply ─▶ reset ─▶ POST stages ─▶ verified ─▶ OS
     └──────────┴── ForceOff, GracefulShutdown

Whoever looks at it first calls ``settle()``: everything that should have happened by now then has, each at its own time. Faults of
the boot stage touch only boots that carry no BIOS job, so that the BIOS stage before it passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.clock import Clock
from harness.lab.idrac.controller import Controller, Status
from harness.lab.idrac.profile import DEFAULT, Profile
from harness.lab.idrac.queue import BIOS, Job
from harness.lab.idrac.registry import Value
from harness.lab.model import parts, post
from harness.lab.model.delivery import BEFORE, deliver, identify
from harness.lab.model.listing import listed
from harness.lab.model.post import Stage

_REQUESTS = {
    "On": "RAC0701",
    "ForceOff": "RAC0704",
    "ForceRestart": "RAC0703",
    "GracefulRestart": "RAC0705",
    "GracefulShutdown": "RAC0705",
    "PushPowerButton": "RAC0701",
    "Nmi": "RAC0706",
    "PowerCycle": "RAC0702",
}
"""What the log says of each request (Dell's EEMI registry 2.9.0)."""


@dataclass(frozen=True)
class Emission:
    """Bytes that left the serial port at one moment (seconds of the clock)."""

    at: float
    data: bytes


class Machine:
    """One machine, its operating system running, with some faults switched on.

    ``populated`` are the slots with a GPU, None for all. ``is_delivered``: its BIOS is as delivered, else as it is left by bringing
    it up.
    """

    def __init__(
        self,
        clock: Clock,
        faults: frozenset[str] = frozenset(),
        *,
        populated: frozenset[str] | None = None,
        is_delivered: bool = True,
        profile: Profile = DEFAULT,
        password: str = "",
        session_clock: Clock | None = None,
    ) -> None:
        self.faults = faults
        self.cabled = parts.SLOTS if populated is None else populated
        self.detached: frozenset[str] = frozenset()
        self._controller = Controller(
            clock, identify(faults, profile, password or parts.BMC_PASSWORD), faults, profile, session_clock=session_clock
        )
        self._controller.gpus = lambda: listed(self.view())
        self._timeline = self._controller.timeline
        self.console: list[Emission] = []
        self.boots = 1
        self._status = deliver(self._controller, is_commissioned=not is_delivered)
        self.os_started: float | None = -BEFORE if self._status.progress == "OSRunning" else None
        self.is_reachable = True
        self._in_effect: dict[str, Value] = dict(self._controller.bios.current)
        self._carries_job = False
        self._resets_to_come = 0

    @property
    def controller(self) -> Controller:
        """Its iDRAC."""
        return self._controller

    @property
    def now(self) -> float:
        """Seconds of the clock, or the time of what is happening."""
        return self._timeline.now

    @property
    def _populated(self) -> frozenset[str]:
        """The slots whose GPU is given to this machine."""
        return self.cabled - self.detached

    def settle(self) -> None:
        """Let everything happen that is due by now."""
        self._timeline.settle()

    def status(self) -> Status:
        """Power and POST state now."""
        self.settle()
        return self._status

    def view(self) -> parts.View:
        """What the hardware looks like now."""
        self.settle()
        return parts.View(self.faults, self.boots, dict(self._in_effect), self.now, self._populated)

    @property
    def os_is_up(self) -> bool:
        """Whether the operating system answers."""
        self.settle()
        return self._status.progress == "OSRunning" and self._status.power == "On"

    @property
    def boot_id(self) -> str:
        """The kernel's random id of this boot; the same in every run of the model."""
        return parts.boot_id(self.boots)

    # power

    def reset(self, kind: str) -> None:
        """Do what ``kind`` asks for. Raises KeyError for another."""
        self.settle()
        message = _REQUESTS[kind]
        has_job = self._controller.jobs.open(BIOS) is not None
        if ("boot.new-boot" in self.faults and not has_job) or self._ignores(kind):
            return
        self._controller.log.add(message, category="Audit")
        is_off = self._status.power == "Off"
        match kind:
            case "Nmi":
                self._say("NMI received")
            case "On" | "PushPowerButton" if is_off:
                self._power_on()
            case "On":
                pass
            case "ForceOff":
                self._power_off()
            case "GracefulShutdown" | "PushPowerButton":
                self._shut_down(self._power_off)
            case "GracefulRestart":
                self._shut_down(self._restart)
            case "PowerCycle":
                self._power_off()
                self._timeline.after(post.POWER_OFF_GAP, self._power_on, tag="post")
            case _:
                self._restart()

    def _ignores(self, kind: str) -> bool:
        """Whether a reset is accepted and comes to nothing; iDRAC may then keep a reboot job that failed."""
        if "idrac.reboot-failed" in self.faults:
            reboot = self._controller.jobs.add("RebootForce", "Reboot: Force")
            self._controller.jobs.change(reboot.id, state="RebootFailed", message_id="PR21", percent=0)
            return True
        return kind == "On" and "idrac.power-on-ignored" in self.faults and self._controller.strikes("idrac.power-on-ignored")

    def _power_on(self) -> None:
        self._controller.log.add("SYS1000")
        self._status = Status("PoweringOn", "InPOST", "None")
        self._begin_post()

    def _power_off(self) -> None:
        if self._status.power != "Off":
            self._controller.log.add("SYS1001")
        if "idrac.memory-halt" in self.faults and self._status.progress == post.MEMORY:
            self._controller.bios.load_defaults()
        self._timeline.drop("post")
        self.os_started = None
        self._status = Status("Off", "PoweredOff", "None")

    def _restart(self) -> None:
        self._controller.log.add("SYS1003")
        self._status = Status("On", "InPOST", "None")
        self._begin_post()

    def _shut_down(self, then: Callable[[], None]) -> None:
        """Ask the operating system; where none runs, nothing happens."""
        if not self.os_is_up:
            return

        def down() -> None:
            self._controller.log.add("OSE0003")
            then()

        self._timeline.after(post.SHUTDOWN, down, tag="post")

    # POST

    def _begin_post(self) -> None:
        self._timeline.drop("post")
        self.os_started = None
        self._carries_job = self._carries_job or self._controller.jobs.open(BIOS) is not None
        self._timeline.after(post.RESET_GAP, lambda: self._enter(0), tag="post")

    def _enter(self, index: int) -> None:
        stage = post.STAGES[index]
        self._status = Status("On", stage.server, stage.progress)
        self._say(*stage.text)
        if self._has("boot.post-progress") and stage.progress == post.RESOURCES:
            return
        if "idrac.memory-halt" in self.faults and stage.progress == post.MEMORY:
            return
        is_crowded = bool(parts.present(self.faults, self._populated))
        loops = self._has("boot.loop") or "idrac.io-space-loop" in self.faults
        if loops and stage.progress == post.RESOURCES and is_crowded:
            self._timeline.after(post.LOOP, self._loop, tag="post")
            return
        self._timeline.after(
            stage.length(len(parts.present(self.faults, self._populated))), lambda: self._leave(index, stage), tag="post"
        )

    def _leave(self, index: int, stage: Stage) -> None:
        if stage.progress == post.RESOURCES and self._controller.bios.current["MmioAbove4Gb"] == "Disabled":
            self._controller.log.add("UEFI0134")
        if stage.progress == post.RESOURCES and self._has("boot.events"):
            self._controller.log.add("UEFI0080", "PCIe Slot 1", "3", "2")
        if stage.progress == "SecondaryProcessorInitializationStarted" and self._resets_to_come:
            self._resets_to_come -= 1
            self._restart()
        elif index + 1 < len(post.STAGES):
            self._enter(index + 1)
        else:
            self._finish_post()

    def _finish_post(self) -> None:
        self._controller.inventory_at = self.now
        if "benign.pr7-events" in self.faults:
            for gpu in parts.present(self.faults, self._populated):
                self._controller.log.add("PR7", gpu.slot, category="Configuration")
        job = self._controller.jobs.open(BIOS)
        if job is not None and self._controller.jobs.open("RAIDConfiguration") is not None and self._mixes_jobs:
            self._status = Status("On", "AutomatedTaskExecution", post.INVENTORY)
            self._timeline.after(post.APPLY, self._restart, tag="post")
        elif job is not None and job.state == "Scheduled" and job.message_id != "PR30":
            self._run(job)
        elif self._has("boot.post-halt"):
            self._controller.log.add("PST0080")
            self._status = Status("On", "HaltedF1/F2Prompt", post.INVENTORY)
            self._say(*post.HALT_TEXT)
        else:
            if self._carries_job and "bios.events" in self.faults:
                self._controller.log.add("UEFI0080", "PCIe Slot 1", "3", "2")
            self._start_os()

    @property
    def _mixes_jobs(self) -> bool:
        """Whether BIOS and RAID jobs at one reset end in a loop of the Lifecycle Controller."""
        return "idrac.raid-job-beside" in self.faults

    def _loop(self) -> None:
        self._controller.log.add("UEFI0256")
        self.emit("".join(f"{line}\r\n" for line in post.LOOP_TEXT))  # at once: the restart drops what is still to be said
        self._restart()

    def _has(self, fault: str) -> bool:
        """Whether a fault of the boot stage acts on this boot."""
        return fault in self.faults and not self._carries_job

    # the BIOS job

    def _run(self, job: Job) -> None:
        """Work on a job between two POSTs."""
        jobs = self._controller.jobs
        if self.faults & {"bios.job-state", "idrac.pr30-for-ever"}:
            jobs.change(job.id, state="Scheduled", message_id="PR30", percent=1)
            self._start_os()
            return
        jobs.change(job.id, state="Running", message_id="PR20", percent=20)
        self._status = Status("On", "AutomatedTaskExecution", post.INVENTORY)
        self._say("Lifecycle Controller: 1 task")
        if self.faults & {"bmc.continuity", "idrac.restart-mid-job"}:
            self._timeline.after(20.0, lambda: self._controller.restart("watchdog"))
        self._timeline.after(post.APPLY, lambda: self._apply(job), tag="post")

    def _apply(self, job: Job) -> None:
        self._controller.bios.apply(but=self._left_out())
        self._controller.jobs.change(job.id, state="Running", message_id="PR20", percent=75)
        self._resets_to_come = 1 if "benign.extra-bios-reset" in self.faults else 0
        self._restart()
        self._timeline.after(post.VERIFY, lambda: self._complete(job), tag="job")

    def _complete(self, job: Job) -> None:
        self._controller.bios.clear()
        if "benign.old-shortage" in self.faults:
            self._controller.log.add("UEFI0134")
        if "bios.job-result" in self.faults:
            self._controller.jobs.change(job.id, state="CompletedWithErrors", message_id="PR31", percent=100)
        elif "idrac.completed-critical" in self.faults:
            self._controller.jobs.change(job.id, state="Completed", message_id="JCP052", percent=100)
        else:
            self._controller.jobs.change(job.id, state="Completed", message_id="PR19", percent=100)

    def _left_out(self) -> str:
        """The one attribute that a faulty job does not set."""
        pending = self._controller.bios.pending
        if not self.faults & {"bios.readback", "bios.job-result", "idrac.completed-unchanged"} or not pending:
            return ""
        return "OsWatchdogTimer" if "OsWatchdogTimer" in pending else next(iter(pending))

    # operating system

    def _start_os(self) -> None:
        self._status = Status("On", "OutOfPOST", "OSBootStarted")
        self._in_effect = dict(self._controller.bios.current)
        self._say(*post.LOADER_TEXT)
        self._timeline.after(post.LOADER, self._start_kernel, tag="post")

    def _start_kernel(self) -> None:
        self.boots += 1
        self.os_started = self.now
        self.is_reachable = not self._has("boot.host-reach")
        self._say(*post.KERNEL_TEXT)
        self._timeline.after(post.KERNEL, self._finish_boot, tag="post")

    def _finish_boot(self) -> None:
        self._status = Status("On", "OutOfPOST", "OSRunning")
        self._controller.log.add("OSE1000")
        self._carries_job = False
        self.emit(post.LOGIN_TEXT)

    # console

    def _say(self, *lines: str) -> None:
        """Print lines, a little apart from each other."""
        for number, line in enumerate(lines):
            text = f"{line}\r\n"
            self._timeline.after(0.25 * number, lambda text=text: self.emit(text), tag="post")  # type: ignore[misc]

    def emit(self, text: str) -> None:
        """Send ``text`` out of the serial port now, as it arrives at the other end."""
        if "boot.console.silent" in self.faults:
            return
        data = text.encode()
        if "boot.console" in self.faults:
            data = bytes(0x80 | (byte * 37 + 13) & 0x7F for byte in data)
        self.console.append(Emission(self.now, data))
