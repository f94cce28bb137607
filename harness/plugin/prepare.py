"""From what was asked to a run that can begin: every file read, every name checked, no machine touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path

from harness import locator
from harness.bench import Bench, unsupported
from harness.clock import Clock, VirtualClock, WallClock
from harness.consent import Consent
from harness.errors import TapeError, UsageMistake
from harness.platform import Platform, Slot
from harness.plugin.run import Run
from harness.plugin.settings import Settings, check_stages
from harness.ports import CommandAsks, Lanes
from harness.procedures.stages import STAGES, not_run
from harness.secret import GivenSecret, Secret, SecretReference
from harness.tape.header import TapeInfo, read_info
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks


def prepare(settings: Settings) -> Run:
    """Read and check everything that a run needs. Raises UsageMistake or TapeError with one line."""
    check_stages(settings.stages, (*STAGES, "own") if settings.suites else STAGES)
    _check_dangers(settings)
    for suite in settings.suites:
        if not suite.exists():
            raise UsageMistake(f"no suite {suite}: --suite takes a file or folder of tests")
    bench, bench_file = locator.find_bench(settings.bench)
    platform, _ = locator.find_platform(bench.platform, bench_file)
    slots = bench.slots(platform, str(bench_file))
    if settings.steal_lock and (bench.lab is not None or settings.mode == "replay"):
        raise UsageMistake("--steal-lock takes a real machine over; a replay or a simulated machine has no lock")
    if settings.faults and bench.lab is None:
        raise UsageMistake(f"--fault belongs to the virtual lab; bench {bench.name} is a real machine")
    if settings.faults and settings.mode == "replay":
        raise UsageMistake("--fault changes a simulated machine; a replay has none: use --live")
    if settings.mode == "replay":
        if settings.apply:
            raise UsageMistake("--apply changes a machine; a replay touches none: use --live")
        return _replay(settings, bench, platform, slots)
    if settings.mode == "record":
        _check_target(settings, bench)
    if bench.lab is not None:
        simulated = _simulated if bench.lab.grade == "model" else _virtual
        return simulated(settings, bench, platform, slots)
    return _real(settings, bench, bench_file, platform, slots)


def _check_dangers(settings: Settings) -> None:
    from harness.procedures.bios.danger import NAMES

    for name in sorted(settings.danger):
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UsageMistake(f"no danger class {name!r}{hint} The classes are {', '.join(NAMES)}.")


def _check_target(settings: Settings, bench: Bench) -> None:
    """A tape that cannot be written, or that would lose stages, is said before the machine is touched."""
    target = settings.tape_of(bench.name)
    nearest = next(folder for folder in (target.parent, *target.parent.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageMistake(f"cannot write a tape to {target}: {nearest} is not writable; name another folder with --tapes")
    if (target / "tape.toml").is_file() and settings.stages:
        lost = [stage for stage in read_info(target).stages if stage not in settings.stages]
        if lost:
            raise UsageMistake(
                f"the tape {target} holds {', '.join(lost)} as well, which this recording would lose; "
                f"record all its stages, or name another folder with --tapes"
            )


def _replay(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    folder = locator.find_tape(bench.name, settings.tapes)
    info = read_info(folder)
    _check_whose(info, bench, folder)
    clock = VirtualClock()
    tracks = Tracks(clock)
    player = Player(folder, tracks, clock)
    return Run(
        settings=settings,
        bench=bench,
        platform=platform,
        slots=slots,
        clock=clock,
        tracks=tracks,
        consent=Consent(info.apply, settings.danger, settings.assume_free),
        redactor=Redactor(()),
        source=info.source,
        not_run={stage: "the tape was recorded without it" for stage in STAGES if stage not in info.stages}
        | not_run(bench, platform),
        open_lanes=lambda _: player.lanes(),
        tape=info,
        player=player,
    )


def _check_whose(info: TapeInfo, bench: Bench, folder: Path) -> None:
    """A tape of another machine says nothing about this one."""
    if info.bench != bench.name:
        raise TapeError(f"{folder}: it was recorded on bench {info.bench!r}, not on {bench.name!r}; name that bench")
    recorded = info.identity.get("service_tag", "")
    if bench.service_tag and recorded and recorded != bench.service_tag:
        raise TapeError(
            f"{folder}: it was recorded on service tag {recorded}, and bench {bench.name} pins {bench.service_tag}; record it anew"
        )


def _simulated(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A modelled machine: nothing real can be harmed, so what was not said about consent is a yes.

    It starts as delivered where the bios stage brings its settings up, else as that stage would leave it.
    """
    from harness.lab.catalogue import find, unpopulated
    from harness.lab.model.lanes import open_model
    from harness.lab.model.parts import BMC_PASSWORD

    faults = find(settings.faults)
    populated = frozenset(slot.name for slot in slots)
    for fault in sorted(faults):
        if missing := unpopulated(fault, populated):
            raise UsageMistake(f"--fault {fault} hits {', '.join(missing)}, where bench {bench.name} has no part")
    clock = VirtualClock()

    def open_lanes(_: ExitStack) -> Lanes:
        return open_model(clock, faults, populated=populated, delivered=not settings.stages or "bios" in settings.stages)

    return _touching(
        settings,
        bench,
        platform,
        slots,
        clock=clock,
        consent=Consent(settings.apply is not False, settings.danger, settings.assume_free),
        secrets=(Secret(BMC_PASSWORD),),
        source="model",
        open_lanes=open_lanes,
    )


def _virtual(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A virtual machine in QEMU, reached by the live adapters as a real one is; it exists as long as the run."""
    from harness.lab.catalogue import find, qemu_catalogue
    from harness.lab.qemu.endpoints import open_qemu
    from harness.lab.qemu.faults import SSH_DEAD
    from harness.lab.qemu.machine import BMC_PASSWORD
    from harness.live.http import RedfishHttp
    from harness.live.serial import SerialStream
    from harness.live.shell import ConsoleShell
    from harness.live.ssh import SshCommands

    faults = find(settings.faults, qemu_catalogue())
    over_ssh = not bench.host_is_on_console
    if SSH_DEAD in faults and not over_ssh:
        raise UsageMistake(f"--fault {SSH_DEAD} needs a host over ssh, and bench {bench.name} has it on the console")
    clock = WallClock()

    def open_lanes(held: ExitStack) -> Lanes:
        machine = held.enter_context(open_qemu(clock, faults))
        bmc = RedfishHttp(machine.bmc_url, machine.user, GivenSecret(machine.password), clock, pin=machine.pin)
        console = SerialStream(machine.console_url, clock)
        if over_ssh:
            ssh = SshCommands(machine.door.address, clock, options=machine.door.options)
            return Lanes(bmc=bmc, host=ssh, console=console)
        shell = ConsoleShell(console, clock, user="root")
        return Lanes(bmc=bmc, host=shell, console=shell.listener())

    return _touching(
        settings,
        bench,
        platform,
        slots,
        clock=clock,
        consent=Consent(settings.apply is True, settings.danger, settings.assume_free),
        secrets=(Secret(BMC_PASSWORD),),
        source="virtual-lab",
        open_lanes=open_lanes,
    )


def _real(settings: Settings, bench: Bench, bench_file: Path, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A real machine: locked for this run, changed only with --apply."""
    from harness.live.lock import MachineLock, machine_name, owner_of_run

    for refusal in unsupported(bench, str(bench_file)):
        raise refusal
    if settings.apply and bench.bmc is not None and bench.host is not None and bench.host.via == "local":
        raise UsageMistake(f"{bench_file}: --apply would restart the machine that this run stands on; run it from another one")
    references = bench.password(str(bench_file)), bench.host_password(str(bench_file))
    secrets = tuple(reference.read() for reference in references if reference is not None)
    clock = WallClock()
    lock = MachineLock(machine_name(bench), owner_of_run(bench.name))

    def open_lanes(held: ExitStack) -> Lanes:
        lock.acquire(steal_from=settings.steal_lock)
        held.callback(lock.release)
        return _live_lanes(bench, *references, clock)

    return _touching(
        settings,
        bench,
        platform,
        slots,
        clock=clock,
        consent=Consent(settings.apply is True, settings.danger, settings.assume_free),
        secrets=secrets,
        source="hardware",
        open_lanes=open_lanes,
        insist_on_lock=lock.check,
    )


def _live_lanes(bench: Bench, reference: SecretReference | None, login: SecretReference | None, clock: Clock) -> Lanes:
    from harness.live.console import open_console
    from harness.live.http import RedfishHttp

    bmc = None
    if bench.bmc is not None and reference is not None:
        bmc = RedfishHttp(bench.bmc.url, bench.bmc.user, reference, clock, pin=bench.bmc.pin, ca=bench.bmc.ca)
    loose_ends = () if bmc is None else (bmc.loose_end,)
    console = None if bench.console is None else open_console(bench.console, clock)
    if bench.host is not None and bench.host.via == "console" and console is not None:
        from harness.live.shell import ConsoleShell

        shell = ConsoleShell(console, clock, user=bench.host.user, password=login)
        return Lanes(bmc=bmc, host=shell, console=shell.listener(), loose_ends=loose_ends)
    return Lanes(bmc=bmc, host=_live_host(bench, clock), console=console, loose_ends=loose_ends)


def _live_host(bench: Bench, clock: Clock) -> CommandAsks | None:
    """The lane to the host's commands; connected with the first of them."""
    if bench.host is None:
        return None
    if bench.host.via == "ssh":
        from harness.live.ssh import SshCommands

        return SshCommands(bench.host.address, clock)
    from harness.live.local import LocalCommands

    return LocalCommands(clock)


def _touching(
    settings: Settings,
    bench: Bench,
    platform: Platform,
    slots: tuple[Slot, ...],
    *,
    clock: Clock,
    consent: Consent,
    secrets: tuple[Secret, ...],
    source: str,
    open_lanes: Callable[[ExitStack], Lanes],
    insist_on_lock: Callable[[], None] = lambda: None,
) -> Run:
    """A run that touches something records everything: as evidence always, as the new tape with --record."""
    tracks = Tracks(clock)
    redactor = Redactor(secrets)
    return Run(
        settings=settings,
        bench=bench,
        platform=platform,
        slots=slots,
        clock=clock,
        tracks=tracks,
        consent=consent,
        redactor=redactor,
        source=source,
        not_run=not_run(bench, platform),
        open_lanes=open_lanes,
        recorder=Recorder(tracks, clock, redactor),
        insist_on_lock=insist_on_lock,
    )
