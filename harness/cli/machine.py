"""One machine for one command outside a run: its files read, its lanes opened, and everything ended again.

bench ─▶ reach ─▶ lanes ─▶ guard ─▶ Machine     the end of the block closes sessions, then the lock
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import locator
from harness.bench import Bench
from harness.cli.progress import ProgressLines
from harness.cli.streams import complain
from harness.clock import Clock, Progress
from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.fabric import Fabric
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.errors import BenchError, UsageMistake
from harness.platform import Platform
from harness.plugin.reach import Reach, reach_model, reach_real, reach_virtual
from harness.ports import HttpAsks, HttpQuestion, Lanes
from harness.procedures.guard import GuardedBmc, GuardedFabric
from harness.procedures.handover import Handover
from harness.tape.redact import Redactor

SOURCES = {
    "model": "a MODELLED machine, which lasts as long as this command and begins as delivered",
    "virtual-lab": "a VIRTUAL machine",
    "hardware": "hardware",
}
"""What the first line calls where the answers come from."""


@dataclass(frozen=True)
class Wish:
    """What a command wants of a bench.

    ``writes`` takes the lock, that of the owner ``steal_lock`` where one is named. ``assume_free`` goes on where the host does not
    tell who uses it. ``restarted`` lets a modelled machine have been restarted before, ``settled`` its settings be as wanted.
    """

    bench: str
    writes: bool = False
    danger: frozenset[str] = frozenset()
    assume_free: bool = False
    steal_lock: str = ""
    faults: Sequence[str] = ()
    restarted: bool = False
    settled: bool = False


@dataclass(frozen=True)
class Machine:
    """The opened machine. ``host``, ``console`` and ``fabric`` are None where the bench has none."""

    bench: Bench
    platform: Platform
    platform_file: Path
    clock: Clock
    source: str
    consent: Consent
    redactor: Redactor
    handover: Handover
    idrac: Idrac
    host: Host | None
    console: Console | None
    fabric: Fabric | None

    @property
    def tag(self) -> str:
        """The only service tag that may be written to."""
        return self.bench.service_tag

    def headline(self, verb: str) -> str:
        """The first line of every output: what is done, to which machine, and whether it is one. Asks the machine."""
        system, manager = self.idrac.system(), self.idrac.manager()
        root = self.idrac.root()
        where = SOURCES.get(self.source, self.source)
        if root.simulated and root.simulated != self.source:
            where = f"a SIMULATED machine ({root.simulated}) that somebody serves"
        return (
            f"{verb}, LIVE on bench {self.bench.name}: {where}; service tag {system.service_tag or 'unknown'}, {system.model}, "
            f"BIOS {system.bios_version}, iDRAC {manager.firmware_version}"
        )


@contextmanager
def opened(wish: Wish) -> Iterator[Machine]:
    """Open a bench's machine until the block ends.

    Where a block that may write ends with an error, Ctrl-C included, the hand-over line is said here; what ends well says it.
    Raises ConfigError and UsageMistake for its files and names, OwnershipError where somebody holds it.
    """
    bench, bench_file = locator.find_bench(wish.bench)
    platform, platform_file = locator.find_platform(bench.platform, bench_file)
    reach = _reach(wish, bench, bench_file, platform)
    with ExitStack() as held:
        lanes = reach.open_lanes(held)
        machine = _machine(wish, bench, platform, platform_file, reach, lanes)
        held.push(_last_words(wish, lanes, machine.handover))
        held.callback(lanes.close)
        yield machine


def _last_words(wish: Wish, lanes: Lanes, handover: Handover) -> Callable[..., None]:
    """What is called with the error that ended the block, or None: the lanes are closed then, and what they left is said too."""

    def say(_: object, error: BaseException | None, __: object) -> None:
        loose = {f"lane-{number}": text for number, end in enumerate(lanes.loose_ends) if (text := end())}
        for key, text in loose.items():
            handover.leave(key, text)
        is_said = error is None or not wish.writes
        for text in loose.values() if is_said else (handover.line(),):
            complain(f"hand-over: {text}")

    return say


def _reach(wish: Wish, bench: Bench, bench_file: Path, platform: Platform) -> Reach:
    if bench.lab is None:
        if wish.faults:
            raise UsageMistake(f"--fault belongs to the virtual lab; bench {bench.name} is a real machine")
        if bench.bmc is None:
            raise UsageMistake(f"{bench_file}: there is no [bmc], and BIOS settings are reached through it")
        if wish.writes and bench.host is not None and bench.host.via == "local":
            raise UsageMistake(f"{bench_file}: this would restart the machine that it stands on; run it from another one")
        return reach_real(bench, bench_file, locked=wish.writes, steal_from=wish.steal_lock)
    if bench.lab.grade == "model":
        slots = bench.slots(platform, str(bench_file))
        return reach_model(wish.faults, slots, bench.name, delivered=not wish.settled, restarted=wish.restarted)
    return reach_virtual(bench, wish.faults, standing=True)


def _machine(wish: Wish, bench: Bench, platform: Platform, platform_file: Path, reach: Reach, lanes: Lanes) -> Machine:  # noqa: PLR0917
    if lanes.bmc is None:
        raise BenchError(f"bench {bench.name} has no way to a BMC")
    consent = Consent(wish.writes, wish.danger, wish.assume_free)
    clock, redactor = reach.clock, Redactor(reach.secrets)
    host = None
    if lanes.host is not None:
        on_console = bench.host_is_on_console
        host = (
            Host(lanes.host, clock, is_on_console=on_console)
            if bench.host is None
            else Host(lanes.host, clock, python=bench.host.python, wrapper=bench.host.wrapper, is_on_console=on_console)
        )
    clock.progress = _progress(redactor)
    return Machine(
        bench=bench,
        platform=platform,
        platform_file=platform_file,
        clock=clock,
        source=reach.source,
        consent=consent,
        redactor=redactor,
        handover=Handover(),
        idrac=Idrac(Redfish(_guarded(lanes.bmc, consent, bench.service_tag, reach), clock), user=lanes.bmc_user),
        host=host,
        console=None if lanes.console is None else Console(lanes.console, clock),
        fabric=None if lanes.fabric is None else Fabric(GuardedFabric(lanes.fabric, consent, reach.insist_on_lock)),
    )


def _guarded(bmc: HttpAsks, consent: Consent, tag: str, reach: Reach) -> HttpAsks:
    def wrote(_: HttpQuestion) -> None:
        """The procedures say themselves what they leave."""

    return GuardedBmc(bmc, consent, tag, wrote, reach.insist_on_lock)


def _progress(redactor: Redactor) -> Progress:
    lines = ProgressLines(sys.stderr)

    def tell(what: str, seconds: float, seen: object) -> None:
        lines.waits(redactor.text(what), seconds, redactor.text(str(seen)) if seen else seen)

    return tell
