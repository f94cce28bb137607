"""A virtual machine that stays for work by hand: a process of its own, and a file that says how the machine is reached.

    bringup lab up ─▶ python -m harness.lab.qemu.standing ─▶ standing.json     until SIGTERM (bringup lab down)

One a user. The file carries the process' identity: after a kill -9 it counts for nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.clock import WallClock
from harness.errors import BenchError, BringupError, UsageMistake
from harness.lab.catalogue import find, qemu_catalogue
from harness.lab.qemu.endpoints import open_qemu
from harness.lab.qemu.workplace import identify, lives, sweep, workplaces

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Standing:
    """How the machine is reached, and the process that keeps it."""

    process: str
    bmc_url: str
    pin: str
    user: str
    password: str
    console_url: str
    ssh: str
    service_tag: str

    @property
    def pid(self) -> int:
        """The number of the process that keeps it."""
        return int(self.process.split()[1])


def find_standing() -> Standing | None:
    """The machine that is kept, or None."""
    try:
        standing = Standing(**json.loads(_file().read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return standing if lives(standing.process) else None


def start_standing(faults: Sequence[str]) -> Standing:
    """Keep a machine from now on. Raises UsageMistake where one is kept already, BenchError where it does not start."""
    find(faults, qemu_catalogue())
    if (there := find_standing()) is not None:
        raise UsageMistake(f"a virtual machine is up already ({there.bmc_url}); `bringup lab down` takes it away")
    _file().unlink(missing_ok=True)
    root = workplaces()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = root / "standing.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "harness.lab.qemu.standing", *faults],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    WallClock().until(
        lambda: find_standing() is not None or process.poll() is not None,
        bool,
        what="the virtual machine's iDRAC to answer",
        every=0.1,
        within=_START_SECONDS,
    )
    standing = find_standing()
    if standing is None:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise BenchError(lines[-1] if lines else "the virtual machine does not start, and does not say why")
    return standing


def stop_standing() -> Standing | None:
    """Take the machine away, and whatever a killed one left; return the one that was there. Raises Timeout where it does not go."""
    standing = find_standing()
    if standing is not None:
        with suppress(ProcessLookupError):
            os.kill(standing.pid, signal.SIGTERM)
        WallClock().until(
            lambda: lives(standing.process),
            lambda there: not there,
            what="the virtual machine to end",
            every=0.1,
            within=_STOP_SECONDS,
        )
    for file in (_file(), workplaces() / "standing.log"):
        file.unlink(missing_ok=True)
    sweep(workplaces())
    return standing


def keep(faults: frozenset[str]) -> None:
    """Keep a machine until SIGTERM or SIGINT, in this process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with open_qemu(WallClock(), faults) as reached:
        standing = Standing(
            process=identify(os.getpid()),
            bmc_url=reached.bmc_url,
            pin=reached.pin,
            user=reached.user,
            password=reached.password,
            console_url=reached.console_url,
            ssh=reached.door.command,
            service_tag=reached.service_tag,
        )
        fresh = _file().with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(asdict(standing)))
        fresh.replace(_file())
        try:
            stop.wait()
        finally:
            _file().unlink(missing_ok=True)


def _file() -> Path:
    return workplaces() / "standing.json"


if __name__ == "__main__":
    try:
        keep(find(sys.argv[1:], qemu_catalogue()))
    except BringupError as error:
        sys.exit(str(error))
