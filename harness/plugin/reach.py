"""How a bench's machine is reached: its clock, its secrets, and what opens its lanes. Nothing is opened here, pytest is not needed.

bench ─┬─ model ── in process, on a virtual clock
       ├─ qemu ─── a virtual machine of its own, or the one that `bringup lab up` keeps
       └─ real ─── locked, then Redfish over TLS, console, ssh, the fabric's list
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.bench import Bench
from harness.clock import Clock, VirtualClock, WallClock
from harness.errors import UsageMistake
from harness.platform import Slot
from harness.ports import CommandAsks, HttpAsks, Lanes
from harness.secret import GivenSecret, Secret, SecretReference


@dataclass(frozen=True)
class Reach:
    """``source`` is hardware, virtual-lab or model; ``open_lanes`` is the first touch and is ended by the stack it is given.

    ``insist_on_lock`` raises OwnershipError where somebody has taken the machine over meanwhile; it is asked before every write.
    """

    clock: Clock
    source: str
    secrets: tuple[Secret, ...]
    open_lanes: Callable[[ExitStack], Lanes]
    insist_on_lock: Callable[[], None] = lambda: None


def reach_model(
    faults: Sequence[str],
    slots: Sequence[Slot],
    bench: str,
    *,
    delivered: bool = True,
    restarted: bool = False,
    libraries: Path | None = None,
) -> Reach:
    """A modelled machine: it starts as delivered, or as bringing it up would leave it.

    ``restarted``: somebody restarted it a while ago, so that a fault of its start shows. ``libraries``: a folder with driver
    libraries on which the real GPU workers run. Raises UsageMistake for unknown faults.
    """
    from harness.lab.catalogue import find, unpopulated
    from harness.lab.model.lanes import open_model
    from harness.lab.model.parts import BMC_PASSWORD

    found = find(faults)
    populated = frozenset(slot.name for slot in slots)
    for fault in sorted(found):
        if missing := unpopulated(fault, populated):
            raise UsageMistake(f"--fault {fault} hits {', '.join(missing)}, where bench {bench} has no part")
    clock = VirtualClock()

    def open_lanes(_: ExitStack) -> Lanes:
        return open_model(clock, found, populated=populated, delivered=delivered, restarted=restarted, libraries=libraries)

    return Reach(clock, "model", (Secret(BMC_PASSWORD),), open_lanes)


def reach_virtual(bench: Bench, faults: Sequence[str], *, standing: bool = False, delivered: bool = True) -> Reach:
    """A virtual machine in QEMU, reached by the live adapters as a real one is; it exists as long as its lanes.

    ``standing``: the one that `bringup lab up` keeps, where there is one. ``delivered``: one of the run's own starts as delivered,
    else as bringing it up would leave it.
    """
    from harness.lab.catalogue import find, qemu_catalogue
    from harness.lab.qemu.endpoints import open_qemu
    from harness.lab.qemu.faults import SSH_DEAD
    from harness.lab.qemu.machine import BMC_PASSWORD
    from harness.lab.qemu.standing import Standing, find_standing
    from harness.live.http import RedfishHttp
    from harness.live.serial import SerialStream
    from harness.live.shell import ConsoleShell
    from harness.live.ssh import SshCommands

    found = find(faults, qemu_catalogue())
    over_ssh = not bench.host_is_on_console
    if SSH_DEAD in found and not over_ssh:
        raise UsageMistake(f"--fault {SSH_DEAD} needs a host over ssh, and bench {bench.name} has it on the console")
    clock = WallClock()
    there = find_standing() if standing else None
    if there is not None and found:
        raise UsageMistake("a virtual machine is kept up without these faults; `bringup lab down` first, or leave --fault out")

    def open_lanes(held: ExitStack) -> Lanes:
        machine = there or held.enter_context(open_qemu(clock, found, delivered=delivered))
        bmc = RedfishHttp(machine.bmc_url, machine.user, GivenSecret(machine.password), clock, pin=machine.pin)
        console = SerialStream(machine.console_url, clock)
        if over_ssh and not isinstance(machine, Standing):
            ssh = SshCommands(machine.door.address, clock, options=machine.door.options)
            return Lanes(bmc=bmc, host=ssh, console=console, bmc_user=machine.user)
        shell = ConsoleShell(console, clock, user="root")
        return Lanes(bmc=bmc, host=shell, console=shell.listener(), bmc_user=machine.user)

    secrets = (Secret(BMC_PASSWORD),) if there is None else (Secret(BMC_PASSWORD), Secret(there.password))
    return Reach(clock, "virtual-lab", secrets, open_lanes)


def reach_real(bench: Bench, bench_file: Path, *, locked: bool = True, steal_from: str = "") -> Reach:
    """A real machine, locked as long as its lanes are open; a mere look needs no lock.

    ``steal_from`` names the owner whose lock is taken over. Raises ConfigError, also of secrets.
    """
    from harness.live.lock import MachineLock, machine_name, owner_of_run

    where = str(bench_file)
    references = bench.password(where), bench.host_password(where), bench.fabric_password(where)
    secrets = tuple(reference.read() for reference in references if reference is not None)
    clock = WallClock()
    lock = MachineLock(machine_name(bench), owner_of_run(bench.name))

    def open_lanes(held: ExitStack) -> Lanes:
        if locked:
            lock.acquire(steal_from=steal_from)
            held.callback(lock.release)
        return _live_lanes(bench, *references[:2], clock, references[2])

    return Reach(clock, "hardware", secrets, open_lanes, lock.check if locked else lambda: None)


def _live_lanes(
    bench: Bench, reference: SecretReference | None, login: SecretReference | None, clock: Clock, key: SecretReference | None = None
) -> Lanes:
    from harness.live.console import open_console
    from harness.live.http import RedfishHttp

    bmc = None
    if bench.bmc is not None and reference is not None:
        bmc = RedfishHttp(bench.bmc.url, bench.bmc.user, reference, clock, pin=bench.bmc.pin, ca=bench.bmc.ca)
    loose_ends = () if bmc is None else (bmc.loose_end,)
    fabric = _live_fabric(bench, key, clock)
    user = "" if bench.bmc is None else bench.bmc.user
    console = None if bench.console is None else open_console(bench.console, clock)
    if bench.host is not None and bench.host.via == "console" and console is not None:
        from harness.live.shell import ConsoleShell

        shell = ConsoleShell(console, clock, user=bench.host.user, password=login)
        return Lanes(bmc=bmc, host=shell, console=shell.listener(), fabric=fabric, loose_ends=loose_ends, bmc_user=user)
    return Lanes(bmc=bmc, host=_live_host(bench, clock), console=console, fabric=fabric, loose_ends=loose_ends, bmc_user=user)


def _live_fabric(bench: Bench, key: SecretReference | None, clock: Clock) -> HttpAsks | None:
    """The lane to the fabric's controller, which only reads."""
    if bench.fabric is None:
        return None
    from harness.live.fabric import FabricHttp

    table = bench.fabric
    return FabricHttp(table.url, clock, user=table.user, password=key, pin=table.pin, ca=table.ca)


def _live_host(bench: Bench, clock: Clock) -> CommandAsks | None:
    """The lane to the host's commands; connected with the first of them."""
    if bench.host is None:
        return None
    if bench.host.via == "ssh":
        from harness.live.ssh import SshCommands

        return SshCommands(bench.host.address, clock)
    from harness.live.local import LocalCommands

    return LocalCommands(clock)
