"""From what was asked to a run that can begin: every file read, every name checked, no machine touched."""

from __future__ import annotations

import os
from pathlib import Path

from harness import locator
from harness.bench import Bench
from harness.clock import VirtualClock, wall_time
from harness.consent import Consent
from harness.errors import TapeError, UsageMistake
from harness.files import read_plain
from harness.platform import Platform, Slot
from harness.plugin.reach import Reach, reach_model, reach_real, reach_virtual
from harness.plugin.run import Run
from harness.plugin.settings import Settings, check_stages
from harness.plugin.waiving import Waiving
from harness.procedures.bios.danger import check_dangers
from harness.procedures.stages import STAGES, not_run
from harness.record.seal import digest
from harness.tape.currency import doubts
from harness.tape.header import TapeInfo, read_info
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks
from harness.waivers import load_waivers


def prepare(settings: Settings) -> Run:
    """Read and check everything that a run needs. Raises UsageMistake or TapeError with one line."""
    check_stages(settings.stages, (*STAGES, "own") if settings.suites else STAGES)
    check_dangers(settings.danger)
    for suite in settings.suites:
        if not suite.exists():
            raise UsageMistake(f"no suite {suite}: --suite takes a file or folder of tests")
    bench, bench_file = locator.find_bench(settings.bench)
    platform, platform_file = locator.find_platform(bench.platform, bench_file)
    slots = bench.slots(platform, str(bench_file))
    if settings.steal_lock and (bench.lab is not None or settings.mode == "replay"):
        raise UsageMistake("--steal-lock takes a real machine over; a replay or a simulated machine has no lock")
    if settings.faults and bench.lab is None:
        raise UsageMistake(f"--fault belongs to the virtual lab; bench {bench.name} is a real machine")
    if settings.faults and settings.mode == "replay":
        raise UsageMistake("--fault changes a simulated machine; a replay has none: use --live")
    if settings.lab_driver is not None and (settings.mode == "replay" or bench.lab is None or bench.lab.grade != "model"):
        raise UsageMistake("--lab-driver is for a live run of a modelled machine: name such a bench, and --live or --record")
    text = None if settings.waivers is None else read_plain(settings.waivers, "waivers file")
    waivers = None if text is None else load_waivers(text, str(settings.waivers))
    run = _choose(settings, bench, bench_file, platform, slots)
    run.checksums = {"bench": digest(bench_file.read_bytes()), "platform": digest(platform_file.read_bytes())}
    if settings.verify:
        run.verified_against = _tape_to_verify(settings, bench)
    if text is not None and waivers is not None:
        run.waiving = Waiving(waivers, platform.name, wall_time().date())
        run.checksums |= {"waivers": digest(text.encode())}
    return run


def _choose(settings: Settings, bench: Bench, bench_file: Path, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """The run of the mode and of the kind of machine."""
    if settings.mode == "replay":
        if settings.force_p2p:
            raise UsageMistake("--force-p2p copies on a machine; a replay touches none: use --live")
        if settings.apply:
            raise UsageMistake("--apply changes a machine; a replay touches none: use --live")
        return _replay(settings, bench, platform, slots)
    if settings.mode == "record":
        _check_target(settings, bench)
    if bench.lab is not None:
        simulated = _simulated if bench.lab.grade == "model" else _virtual
        return simulated(settings, bench, platform, slots)
    return _real(settings, bench, bench_file, platform, slots)


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


def _tape_to_verify(settings: Settings, bench: Bench) -> Path:
    """The tape that a live run is compared with. Raises UsageMistake, TapeError before the machine is touched."""
    if settings.mode != "live":
        raise UsageMistake("--verify compares a live machine with its tape: it goes with --live, not with --record or --replay")
    folder = locator.find_tape(bench.name, settings.tapes)
    _check_whose(read_info(folder), bench, folder)
    return folder


def _replay(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    folder = locator.find_tape(bench.name, settings.tapes)
    info = read_info(folder)
    _check_whose(info, bench, folder)
    bench = _under_pseudonym(bench, info)
    told = doubts(info, platform, wall_time())
    if told and settings.strict_tapes:
        raise TapeError(f"{folder}: {'; '.join(told)}; without --strict-tapes it is replayed with a warning")
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
        consent=Consent(info.apply, settings.danger, settings.assume_free, info.force_p2p),
        redactor=Redactor(()),
        source=info.source,
        not_run={stage: "the tape was recorded without it" for stage in STAGES if stage not in info.stages}
        | not_run(bench, platform),
        open_lanes=lambda _: player.lanes(),
        tape=info,
        player=player,
        doubts=told,
    )


def _check_whose(info: TapeInfo, bench: Bench, folder: Path) -> None:
    """A tape of another machine says nothing about this one."""
    if info.bench != bench.name:
        raise TapeError(f"{folder}: it was recorded on bench {info.bench!r}, not on {bench.name!r}; name that bench")
    recorded = "" if info.pseudonyms else info.identity.get("service_tag", "")
    if bench.service_tag and recorded and recorded != bench.service_tag:
        raise TapeError(
            f"{folder}: it was recorded on service tag {recorded}, and bench {bench.name} pins {bench.service_tag}; record it anew"
        )


def _under_pseudonym(bench: Bench, info: TapeInfo) -> Bench:
    """The bench as a tape with pseudonyms knows its machine: what is pinned there is the pseudonym."""
    if not info.pseudonyms or not bench.service_tag:
        return bench
    return bench.model_copy(update={"service_tag": info.identity.get("service_tag", bench.service_tag)})


def _simulated(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A modelled machine: nothing real can be harmed, so what was not said about consent is a yes.

    It starts as delivered where the bios stage brings its settings up, else as that stage would leave it.
    """
    delivered = not settings.stages or "bios" in settings.stages
    reach = reach_model(settings.faults, slots, bench.name, delivered=delivered, libraries=settings.lab_driver)
    return _touching(settings, bench, platform, slots, reach=reach, consent=_consent(settings, settings.apply is not False))


def _virtual(settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A virtual machine in QEMU, reached by the live adapters as a real one is; it exists as long as the run.

    As the modelled one, it starts as delivered where the bios stage brings its settings up.
    """
    reach = reach_virtual(bench, settings.faults, delivered=not settings.stages or "bios" in settings.stages)
    return _touching(settings, bench, platform, slots, reach=reach, consent=_consent(settings, settings.apply is True))


def _real(settings: Settings, bench: Bench, bench_file: Path, platform: Platform, slots: tuple[Slot, ...]) -> Run:
    """A real machine: locked for this run, changed only with --apply."""
    if settings.apply and bench.bmc is not None and bench.host is not None and bench.host.via == "local":
        raise UsageMistake(f"{bench_file}: --apply would restart the machine that this run stands on; run it from another one")
    reach = reach_real(bench, bench_file, steal_from=settings.steal_lock)
    return _touching(settings, bench, platform, slots, reach=reach, consent=_consent(settings, settings.apply is True))


def _consent(settings: Settings, apply: bool) -> Consent:
    return Consent(apply, settings.danger, settings.assume_free, settings.force_p2p)


def _touching(
    settings: Settings, bench: Bench, platform: Platform, slots: tuple[Slot, ...], *, reach: Reach, consent: Consent
) -> Run:
    """A run that touches something records everything: as evidence always, as the new tape with --record."""
    tracks = Tracks(reach.clock)
    redactor = Redactor(reach.secrets)
    return Run(
        settings=settings,
        bench=bench,
        platform=platform,
        slots=slots,
        clock=reach.clock,
        tracks=tracks,
        consent=consent,
        redactor=redactor,
        source=reach.source,
        not_run=not_run(bench, platform),
        open_lanes=reach.open_lanes,
        recorder=Recorder(tracks, reach.clock, redactor),
        insist_on_lock=reach.insist_on_lock,
    )
