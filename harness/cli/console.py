"""``bringup console``: a bench's console on this terminal, and which port and baud rate talk.

Both hold the machine's lock, so a run and a person at the console exclude each other. Of the lab's virtual machine it is the one
that `bringup lab up` keeps; a run has a machine of its own.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from harness import locator
from harness.bench import Bench, Console, Lab
from harness.clock import Clock, Deadline, WallClock
from harness.devices.console import Reading, Transcript
from harness.errors import BenchError, UsageMistake
from harness.live.console import open_console
from harness.live.lock import MachineLock, machine_name, owner_of_run
from harness.ports import Streams

LEAVE = b"\x1d"
"""Ctrl-]: what telnet and virsh end a console with, and no shell or editor needs."""

BAUDS = (115200, 57600, 38400, 19200, 9600)
"""The rates that firmware, service processors and kernels are commonly set to, the usual one first."""

_TURN_SECONDS = 0.02
_PROBE_SECONDS = 2.0
_QUIET_SECONDS = 0.3
_SHOWN = 60


def open_here(name: str) -> None:
    """Pass bytes between this terminal and the console until Ctrl-]. Raises OwnershipError while a run holds the machine."""
    bench, console = _bench_with_console(name)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageMistake("bringup console needs a terminal on standard input and output")
    clock = WallClock()
    with _held(bench):
        stream = open_console(console, clock)
        try:
            stream.read(Deadline(clock.now()))
            with _raw(sys.stdin.fileno()):  # first: what is typed after this line goes to the console, Ctrl-C too
                sys.stderr.write(f"console of bench {bench.name} ({console.url or console.command}); Ctrl-] ends\r\n")
                _pass_through(stream, clock, sys.stdin.fileno(), sys.stdout.fileno())
        finally:
            stream.close()
    sys.stderr.write("\nconsole closed\n")


def probe(name: str, urls: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Each candidate port and baud rate: a line about it, and whether it talks. A Return is sent to each, nothing else."""
    bench, console = _bench_with_console(name)
    clock = WallClock()
    with _held(bench):
        for candidate in _candidates(console, urls):
            yield _try(candidate, clock)


def _bench_with_console(name: str) -> tuple[Bench, Console]:
    bench, file = locator.find_bench(name)
    if bench.lab is not None:
        return bench, _standing_console(bench, bench.lab)
    if bench.console is None:
        raise UsageMistake(f"{file}: there is no [console]: give it a url (a device, socket://, rfc2217://) or a command")
    return bench, bench.console


def _standing_console(bench: Bench, lab: Lab) -> Console:
    from harness.lab.qemu.standing import find_standing

    if lab.grade != "qemu":
        raise UsageMistake(f"bench {bench.name} is a model within the run; it has no console to open")
    standing = find_standing()
    if standing is None:
        raise UsageMistake(f"the virtual machine of bench {bench.name} is not up; `bringup lab up` starts it")
    return Console(url=standing.console_url)


@contextmanager
def _held(bench: Bench) -> Iterator[None]:
    with MachineLock(machine_name(bench), owner_of_run("bringup console")):
        yield


@contextmanager
def _raw(handle: int) -> Iterator[None]:
    """The terminal in raw mode, put back whatever happens."""
    before = termios.tcgetattr(handle)
    tty.setraw(handle)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _pass_through(stream: Streams, clock: Clock, keys: int, screen: int) -> None:
    while True:
        said = stream.read(Deadline.after(clock, _TURN_SECONDS)).data
        while said:
            said = said[os.write(screen, said) :]
        if not select.select([keys], [], [], 0)[0]:
            continue
        typed = os.read(keys, 4096)
        before, left, _ = typed.partition(LEAVE)
        if before:
            stream.write(before)
        if left or not typed:
            return


def _candidates(console: Console, urls: tuple[str, ...]) -> Iterator[Console]:
    """Each port at each rate; a command or a plain socket has no rate to choose."""
    for port in (console, *(Console(url=url, baud=console.baud) for url in urls)):
        if port.command or port.url.startswith("socket://"):
            yield port
        else:
            yield from (port.model_copy(update={"baud": baud}) for baud in sorted(BAUDS, key=lambda rate: rate != port.baud))


def _try(candidate: Console, clock: Clock) -> tuple[str, bool]:
    where = candidate.command or candidate.url
    if not candidate.command and not candidate.url.startswith("socket://"):
        where = f"{where} at {candidate.baud}"
    stream = open_console(candidate, clock)
    try:
        stream.write(b"\r")
        heard = _hear(stream, clock)
    except BenchError as error:
        return f"{where}: {error}", False
    finally:
        stream.close()
    if heard.reading is Reading.SILENT:
        return f"{where}: silent", False
    share = f"{len(heard.data)} bytes, {heard.readable:.0%} readable"
    if heard.reading is Reading.GARBAGE:
        return f"{where}: {share}: garbage, a wrong baud rate", False
    return f"{where}: {share}, talks: {(heard.tail(1) or ('',))[0][:_SHOWN]!r}", True


def _hear(stream: Streams, clock: Clock) -> Transcript:
    """What comes, until it is quiet after something was said."""
    heard, deadline = Transcript(), Deadline.after(clock, _PROBE_SECONDS)
    while not deadline.passed(clock):
        quiet = Deadline.after(clock, _QUIET_SECONDS) if heard.data else deadline
        chunk = stream.read(Deadline(min(quiet.at, deadline.at)))
        if not chunk.data:
            break
        heard += Transcript((chunk,))
    return heard
