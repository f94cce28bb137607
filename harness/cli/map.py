"""``bringup map learn``: the map of chassis slots and downstream ports, for a person to review.

MAP of bench B (source): N of N GPUs that the fabric gave to MACHINE have their place
what is missing, what the platform says otherwise          one line each
the piece of the platform file                             printed, or written with --out
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from harness import locator
from harness.bench import Bench
from harness.cli.machine import SOURCES
from harness.clock import Clock, VirtualClock
from harness.devices.fabric import Fabric, FabricPart
from harness.devices.gpu import read_inventory
from harness.devices.host import Host
from harness.devices.pcie import Snapshot, read_snapshot
from harness.errors import ConfigError, DeviceError, UsageMistake
from harness.platform import Platform, Stack
from harness.plugin.reach import Reach, reach_model, reach_real
from harness.ports import CommandAsks
from harness.procedures.budget.measured import as_toml as stack_as_toml
from harness.procedures.budget.measured import differences, measure_stacks
from harness.procedures.slot_map import SlotMap, as_toml, contradictions, hba_of, learn, needs_the_driver, owner_in
from harness.tape.player import Player
from harness.tape.tracks import Tracks


@dataclass(frozen=True)
class Seen:
    """What was asked, of whom: ``source`` in words."""

    bench: Bench
    platform: Platform
    source: str
    fabric: tuple[FabricPart, ...]
    snapshot: Snapshot
    driver: dict[str, str]


def look(bench: str, *, replay: bool = False, tapes: Path | None = None, faults: tuple[str, ...] = ()) -> Seen:
    """Ask a bench's fabric and operating system, or its tape. Nothing is written anywhere.

    Raises UsageMistake for a bench without fabric or operating system, BenchError where they cannot be reached.
    """
    if replay:
        if faults:
            raise UsageMistake("--fault belongs to a live machine of the virtual lab, and --replay touches none")
        return _recorded(bench, tapes)
    found, bench_file = locator.find_bench(bench)
    platform, _ = locator.find_platform(found.platform, bench_file)
    reach = _reach(found, bench_file, platform, faults)
    with ExitStack() as held:
        lanes = reach.open_lanes(held)
        held.callback(lanes.close)
        if lanes.fabric is None or lanes.host is None:
            raise UsageMistake(f"{bench_file}: there is no {'[fabric]' if lanes.fabric is None else '[host]'} to ask")
        parts, host = Fabric(lanes.fabric).parts(), _host(found, lanes.host, reach.clock)
        snapshot = read_snapshot(host)
        driver = _driver(host) if needs_the_driver(parts, snapshot) else {}
    source = f"bench {found.name}, LIVE: {SOURCES.get(reach.source, reach.source).split(',')[0]}"
    return Seen(found, platform, source, parts, snapshot, driver)


def _reach(bench: Bench, bench_file: Path, platform: Platform, faults: tuple[str, ...]) -> Reach:
    """A mere look: no lock, and the management controller is not asked. A modelled machine has its settings as wanted."""
    if bench.lab is None:
        if faults:
            raise UsageMistake(f"--fault belongs to the virtual lab; bench {bench.name} is a real machine")
        return reach_real(bench, bench_file, locked=False)
    if bench.lab.grade == "model":
        return reach_model(faults, bench.slots(platform, str(bench_file)), bench.name, delivered=False)
    raise UsageMistake(f"{bench_file}: a virtual machine has no fabric to ask")


def _host(bench: Bench, asks: CommandAsks, clock: Clock) -> Host:
    if bench.host is None:
        return Host(asks, clock)
    return Host(asks, clock, python=bench.host.python, wrapper=bench.host.wrapper, is_on_console=bench.host_is_on_console)


def _recorded(name: str, tapes: Path | None) -> Seen:
    bench, bench_file = locator.find_bench(name)
    platform, _ = locator.find_platform(bench.platform, bench_file)
    clock = VirtualClock()
    tracks = Tracks(clock)
    player = Player(locator.find_tape(bench.name, tapes), tracks, clock)
    info, lanes = player.open().info, player.lanes()
    if lanes.fabric is None or lanes.host is None:
        raise UsageMistake(f"the tape of bench {bench.name} has no {'fabric' if lanes.fabric is None else 'host'} on it")
    with tracks.on("session/fabric_parts"):
        parts = Fabric(lanes.fabric).parts()
    host = Host(lanes.host, clock)
    with tracks.on("session/pcie"):
        snapshot = read_snapshot(host)
    driver = {}
    with tracks.on("session/gpus") if needs_the_driver(parts, snapshot) else nullcontext():
        driver = _driver(host) if needs_the_driver(parts, snapshot) else {}
    source = f"bench {bench.name}, REPLAY of {info.recorded_at} (source {info.source})"
    return Seen(bench, platform, source, parts, snapshot, driver)


def _driver(host: Host) -> dict[str, str]:
    """The serial numbers that the driver reads, by address; none where it does not work."""
    return {gpu.address: gpu.serial for gpu in read_inventory(host).gpus if gpu.address and gpu.serial}


def learned(seen: Seen) -> SlotMap:
    """The map of what was seen; a tree that is another machine's than the bench pins is a doubt."""
    named = seen.bench.fabric.machine if seen.bench.fabric is not None else ""
    found = learn(seen.fabric, seen.snapshot, seen.driver, owner_in(seen.fabric, seen.snapshot, seen.driver, named))
    pinned, told = seen.bench.service_tag, seen.snapshot.host.serial
    if pinned and told and pinned != told:
        other = f"the operating system is that of service tag {told}, and the bench pins {pinned}: another machine's tree"
        return replace(found, doubts=(*found.doubts, other))
    return found


def verdict(seen: Seen, found: SlotMap) -> Iterator[str]:
    """What a person reads first, and everything that speaks against the map."""
    total = len(found.places) + len(found.unseen)
    neighbours = sum(bool(part.owner) and part.owner != found.machine for part in seen.fabric)
    yield (
        f"MAP of {seen.source}: {len(found.places)} of {total} GPUs that the fabric gave to {found.machine or 'nobody known'} "
        f"have their place"
    )
    if neighbours:
        yield f"  {neighbours} more belong{'s' * (neighbours == 1)} to other machines"
    for part in found.unseen:
        yield f"  unseen: {part.place or 'a place not told'}, serial {part.serial}: the operating system shows no such part"
    for function in found.strangers:
        yield f"  stranger: {function.bdf} at {function.path}: the fabric has not given such a part to this machine"
    for doubt in found.doubts:
        yield f"  doubt: {doubt}"
    against = contradictions(found, seen.platform)
    for line in against:
        yield f"  platform {seen.platform.name}: {line}"
    if found.places and not against:
        yield f"  platform {seen.platform.name} says the same of all {len(found.places)}"
    for line in differences(seen.platform.stacks, stacks_of(seen, found)):
        yield f"  platform {seen.platform.name}: {line}"


def text_of(seen: Seen, found: SlotMap) -> str:
    """The piece of the platform file. Raises DeviceError where there is nothing to write."""
    if not found.places:
        raise DeviceError(f"{seen.source}: no part of the fabric's list was found in the PCIe tree, so there is no map to write")
    tables = [line for stack in stacks_of(seen, found) for line in ("", *stack_as_toml(stack))]
    return "\n".join([*as_toml(found, seen.platform, seen.source), *tables]) + "\n"


def stacks_of(seen: Seen, found: SlotMap) -> tuple[Stack, ...]:
    """What the machine says of the host bridges that the mapped parts hang from."""
    named = {place.path.split("/")[0]: hba_of(place, seen.platform) for place in found.places}
    return measure_stacks(seen.snapshot, {root: hba or root for root, hba in named.items()}, f"measured: {seen.source}")


def write(text: str, out: Path, *, force: bool) -> None:
    """Write a new file whole. Raises UsageMistake where it is there, ConfigError where it cannot be written."""
    if out.exists() and not force:
        raise UsageMistake(f"{out} exists; --force overwrites it, or name another file")
    fresh = out.with_name(f".{out.name}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(out)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ConfigError(str(out), f"cannot be written: {error.strerror}") from None


def is_right(seen: Seen, found: SlotMap) -> bool:
    """Whether the map is whole and the platform says the same."""
    apart = differences(seen.platform.stacks, stacks_of(seen, found))
    return found.is_whole and not contradictions(found, seen.platform) and not apart
