"""A virtual machine as the server of a simulated iDRAC: power, POST and BIOS jobs drive a real QEMU.

        On, ForceRestart                          guest: reboot
    Off ───▶ start ─▶ POST ─▶ loader ─▶ OS ────────────┐
     ▲         ▲                        └─ poweroff ─┐ │
     │         └─────────────────────────────────────┼─┘
     └── ForceOff ───────────────────────────────────┘

    with a BIOS job:  start (firmware alone) ─ APPLY ─▶ settings take effect ─▶ start ─ firmware through POST ─▶ Completed

Each start is a new process, so that settings take effect. A thread looks every TICK, because an iDRAC goes on when nobody asks;
what it and the Redfish application do is one at a time (``turn``).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from harness.clock import WallClock
from harness.errors import BenchError, BringupError, Unreachable
from harness.lab.idrac import registry
from harness.lab.idrac.controller import Controller, Identity, Status
from harness.lab.idrac.queue import BIOS
from harness.lab.qemu import faults as known
from harness.lab.qemu import hardware, pcie_faults
from harness.lab.qemu.door import Door
from harness.lab.qemu.guest import Guest, start_guest
from harness.lab.qemu.hardware import SERVICE_TAG, Board, Lines, prepare_board
from harness.lab.qemu.image import Image
from harness.lab.qemu.post import HALTED, LOADING, RUNNING, STAGES, Post
from harness.lab.qemu.relay import ConsoleRelay
from harness.lab.qemu.tools import Tools
from harness.lab.qemu.workplace import Workplace

BMC_USER = "bringup"
BMC_PASSWORD = "virtual-lab-only"  # noqa: S105 - the credentials of a machine that exists only on this host's loopback
SIMULATED = "virtual-lab"

APPLY = 3.0
"""Seconds that a BIOS job works before its own reset: a job of the lab, not a measure of a real one."""

COMMISSIONED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
"""What bringing up the settings leaves, beside what is so as delivered."""

DARK = 2.0
"""Seconds without power in a power cycle."""

TICK = 0.1

_OFF = Status("Off", "PoweredOff", "None")
_WORKING = Status("On", "AutomatedTaskExecution", "SystemHardwareInitializationComplete")
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


class QemuMachine:
    """One virtual machine, off until somebody turns it on. Use it as a context manager: the end takes everything away.

    ``is_delivered``: its BIOS is as it comes, else as it is left by bringing it up.
    """

    def __init__(
        self,
        clock: WallClock,
        tools: Tools,
        image: Image,
        faults: frozenset[str] = frozenset(),
        workplace: Workplace | None = None,
        *,
        is_delivered: bool = True,
    ) -> None:
        identity = Identity(
            SERVICE_TAG, "PowerEdge R640", registry.BIOS_VERSION, "7.00.00.182", BMC_USER, BMC_PASSWORD, simulated=SIMULATED
        )
        self.turn = threading.RLock()
        self._clock = clock
        self._tools = tools
        self._image = image
        self._faults = faults
        self._workplace = Workplace() if workplace is None else workplace
        self._controller = Controller(clock, identity, faults)
        if not is_delivered:
            self._controller.bios.current.update(COMMISSIONED)
        self._controller.bios.current["SystemBiosVersion"] = identity.bios_version
        self._controller.inventory_at = 0.0
        self._board: Board | None = None
        self._relay: ConsoleRelay | None = None
        self._aside: ConsoleRelay | None = None
        self._guest: Guest | None = None
        self._line = 0
        self._post = Post()
        self._status = _OFF
        self._job = ""
        self._reason = ""
        self._restarts_after_shutdown = False
        self._looked_at_buses = 0.0
        self._deeds: tuple[pcie_faults.Deed, ...] = ()
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None
        self.trouble = ""

    def __enter__(self) -> QemuMachine:
        self._workplace.open()
        try:
            folder = self._workplace.folder
            self._board = prepare_board(self._tools, self._image, folder)
            self._relay = ConsoleRelay(folder / "console.log", is_cut=known.CONSOLE_DEAD in self._faults)
            self._relay.open()
            self._aside = ConsoleRelay(folder / "aside.log")
            self._aside.open()
        except BaseException:
            self._hang_up()
            self._workplace.close()
            raise
        self._ticker = threading.Thread(target=self._tick, name="lab-machine", daemon=True)
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stop.set()
        if self._ticker is not None:
            self._ticker.join()
        if self._guest is not None:
            self._guest.end()
        self._hang_up()
        self._workplace.close()

    def _hang_up(self) -> None:
        for relay in (self._relay, self._aside):
            if relay is not None:
                relay.close()

    # the Server of an iDRAC

    @property
    def controller(self) -> Controller:
        """Its iDRAC."""
        return self._controller

    def status(self) -> Status:
        """Power and POST state now."""
        with self.turn:
            self.settle()
            return self._status

    def reset(self, kind: str) -> None:
        """Do what ``kind`` asks for. Raises KeyError for another, BenchError where QEMU does not start."""
        with self.turn:
            self.settle()
            self._controller.log.add(_REQUESTS[kind], category="Audit")
            is_off = self._status.power == "Off"
            match kind:
                case "Nmi":
                    self._ask("inject-nmi")
                case "On" | "PushPowerButton" if is_off:
                    self._power_on()
                case "On":
                    pass
                case "ForceOff":
                    self._power_off()
                case "GracefulShutdown" | "GracefulRestart" | "PushPowerButton":
                    self._restarts_after_shutdown = kind == "GracefulRestart"
                    self._ask("system_powerdown")
                case "PowerCycle":
                    self._power_off()
                    self._controller.timeline.after(DARK, self._power_on, tag="post")
                case _:
                    self._restart()

    # for the lab

    @property
    def console_url(self) -> str:
        """The pyserial URL of the console, or of what the bench takes for it."""
        relay = self._aside if known.WRONG_PORT in self._faults else self._relay
        if relay is None:
            raise BenchError("the machine is not open")
        return relay.url

    @property
    def door(self) -> Door:
        """The way in over ssh."""
        if self._board is None:
            raise BenchError("the machine is not open")
        return self._board.door

    @property
    def pid(self) -> int | None:
        """QEMU's process, None while the machine is off."""
        return None if self._guest is None else self._guest.pid

    def ask(self, name: str, **arguments: object) -> object:
        """A command to QEMU's monitor, such as ``device_del``. Raises Unreachable while the machine is off, BenchError."""
        with self.turn:
            if self._guest is None:
                raise Unreachable("the virtual machine is off")
            return self._guest.ask(name, **arguments)

    def settle(self) -> None:
        """Look at QEMU and let everything happen that is due."""
        with self.turn:
            self._controller.timeline.settle()
            if self._guest is None:
                return
            guest = self._guest
            with suppress(Unreachable):  # it may end at any moment; that is looked at next
                self._follow(guest)
            has_ended = guest.has_ended()
            for event in guest.events():
                if event.name == "SHUTDOWN":  # QEMU says why, and ends a moment later
                    self._reason = str(event.data.get("reason", ""))
            if has_ended:
                self._ended(self._reason, guest)

    def _tick(self) -> None:
        while not self._stop.is_set():
            self._guarded(self.settle)
            self._clock.sleep(TICK)

    def _guarded(self, act: Callable[[], None]) -> None:
        """What goes wrong while nobody asks is kept for whoever asks, and the machine is off."""
        try:
            act()
        except BringupError as error:
            self.trouble = str(error)
            with self.turn:
                self._forget_guest()
                self._status = _OFF

    def _do(self, guest: Guest) -> None:
        """What a fault does to a machine that runs, once in each start."""
        deeds, self._deeds = self._deeds, ()
        for deed in deeds:
            guest.do(deed.name, deed.arguments)

    # power

    def _power_on(self) -> None:
        self._controller.log.add("SYS1000")
        self._start()

    def _power_off(self) -> None:
        if self._status.power != "Off":
            self._controller.log.add("SYS1001")
        self._controller.timeline.drop("post")
        self._forget_guest()
        self._status = _OFF

    def _restart(self) -> None:
        self._controller.log.add("SYS1003")
        self._start()

    def _start(self) -> None:
        """A new process, with the settings in effect; with a BIOS job that waits, firmware alone, and then the job."""
        self._controller.timeline.drop("post")
        self._forget_guest()
        self._restarts_after_shutdown = False
        job = self._controller.jobs.open(BIOS)
        waits = job is not None and job.state == "Scheduled" and job.message_id != "PR30"
        self._spawn(self._faults, boots=not waits)
        if job is not None and waits:
            self._controller.jobs.change(job.id, state="Running", message_id="PR20", percent=20)
            self._status = _WORKING
            self._job = job.id
            self._controller.timeline.after(APPLY, self._apply, tag="post")

    def _spawn(self, faults: frozenset[str], *, boots: bool) -> None:
        if self._board is None or self._relay is None or self._aside is None:
            raise BenchError("the machine is not open")
        bits = hardware.address_bits(self._controller.bios.current, faults)
        ours, monitor = socket.socketpair()
        self._line, console = self._relay.attach()
        _, aside = self._aside.attach()
        lines = Lines(console.fileno(), aside.fileno(), monitor.fileno())
        line = hardware.command(self._board, bits, faults, lines, boots=boots)
        self._guest = start_guest(line, (console, aside, monitor), ours, self._board.folder)
        self._deeds = pcie_faults.rig(faults).deeds
        self._post = Post()
        self._status = self._post.status
        self._reason = self.trouble = ""

    def _forget_guest(self) -> None:
        if self._guest is not None:
            self._guest.end()
            self._guest = None

    def _ended(self, reason: str, guest: Guest) -> None:
        """QEMU is over: the guest switched itself off or restarted, or something killed it."""
        self._forget_guest()
        wants_restart = reason == "guest-reset" or (reason == "guest-shutdown" and self._restarts_after_shutdown)
        if reason == "guest-shutdown":
            self._controller.log.add("OSE0003")
        if not reason:
            self.trouble = f"QEMU ended by itself: {guest.complaint()}"
        if wants_restart:
            self._restart()
        else:
            self._power_off()

    def _ask(self, name: str) -> None:
        if self._guest is not None:
            self._guest.ask(name)

    # the BIOS job

    def _apply(self) -> None:
        self._controller.bios.apply()
        self._controller.jobs.change(self._job, state="Running", message_id="PR20", percent=75)
        self._controller.log.add("SYS1003")
        self._forget_guest()
        self._spawn(self._faults - known.BOOT, boots=True)

    def _finish_job(self) -> None:
        """Firmware is through with the new settings."""
        self._controller.bios.clear()
        self._controller.jobs.change(self._job, state="Completed", message_id="PR19", percent=100)
        self._job = ""

    # POST

    def _follow(self, guest: Guest) -> None:
        assert self._relay is not None
        before = self._post.status
        assert self._aside is not None
        self._post = self._post.hear(self._relay.heard(self._line))
        self._aside.heard(0)  # nobody asks for it
        if self._deeds and pcie_faults.is_time(self._post.tail):
            self._do(guest)
        now = self._clock.now()
        if self._post.status is STAGES[0] and now - self._looked_at_buses >= 5 * TICK and not guest.has_ended():
            self._looked_at_buses = now
            if guest.has_numbered_buses():
                self._post = self._post.number_buses()
        if self._status == _WORKING:
            return
        self._status = self._post.status
        if self._post.status == before:
            return
        if self._job and STAGES.index(self._status) > 1:
            self._finish_job()
        if before not in (LOADING, RUNNING, HALTED) and STAGES.index(self._status) > 1:
            self._controller.inventory_at = now
        if self._status == HALTED:
            self._controller.log.add("PST0080")
        if self._status == RUNNING:
            self._controller.log.add("OSE1000")
