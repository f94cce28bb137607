"""Where a virtual machine keeps its files, and how nothing of it is left behind.

    $XDG_RUNTIME_DIR/bringup-lab/        (or bringup-lab-UID below the folder for temporary files)
        machine-XXXX/owner               pid and start of the process that it belongs to
                    /vars.fd bar00 ...   named on QEMU's command line, so its processes can be found by them

A machine is taken away by its owner. Where the owner was killed with -9, the next one that opens a workplace does it: a folder
whose owner is gone is swept, with every process that has one of its files on its command line.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from harness.clock import WallClock
from harness.errors import BenchError

_OWNER = "owner"
_GONE_WITHIN = 10.0
_PREFIX = "machine-"


def workplaces() -> Path:
    """The folder of all workplaces of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "bringup-lab"
    return Path(tempfile.gettempdir()) / f"bringup-lab-{os.getuid()}"


class Workplace:
    """One machine's folder; ``root`` is where all are."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder. There is one between ``open()`` and ``close()``."""
        if self._folder is None:
            raise BenchError("the machine's workplace is not open")
        return self._folder

    def open(self) -> None:
        """Sweep what others left behind and make the folder. Raises BenchError where it is somebody else's."""
        root = workplaces() if self._root is None else self._root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root.stat().st_uid != os.getuid():
            raise BenchError(f"{root} belongs to another user; set XDG_RUNTIME_DIR or TMPDIR to a folder of your own")
        sweep(root)
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=root))
        (made / _OWNER).write_text(identify(os.getpid()))
        self._folder = root / made.name.removeprefix(".")
        made.rename(self._folder)  # with its owner in it: a sweep never sees it without

    def close(self) -> None:
        """Take everything away. Closing twice is harmless."""
        if self._folder is not None:
            _take_away(self._folder)
            self._folder = None


def sweep(root: Path) -> tuple[Path, ...]:
    """Take away the machines whose owner is gone, and return their folders."""
    swept = []
    for folder in sorted(root.glob(f"{_PREFIX}*")):
        with suppress(FileNotFoundError):  # somebody else sweeps it at the same time
            if not lives((folder / _OWNER).read_text()):
                _take_away(folder)
                swept.append(folder)
    return tuple(swept)


def identify(pid: int) -> str:
    """A process told apart from a later one of its number: boot, number, start (field 22 of proc_pid_stat(5)). Empty if gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {pid} {fields[19]}"


def lives(identity: str) -> bool:
    """Whether the process that was identified so still runs."""
    parts = identity.split()
    return len(parts) == 3 and parts[1].isdigit() and identify(int(parts[1])) == identity


def processes_of(folder: Path) -> tuple[int, ...]:
    """The processes that have a file of ``folder`` on their command line."""
    sign = f"{folder}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if sign in (entry / "cmdline").read_bytes() and b"qemu" in (entry / "cmdline").read_bytes().split(b"\0")[0]:
                    found.append(int(entry.name))
    return tuple(found)


def _take_away(folder: Path) -> None:
    for pid in processes_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    WallClock().until(
        lambda: processes_of(folder), lambda left: not left, what=f"the machine in {folder} to end", every=0.05, within=_GONE_WITHIN
    )
    shutil.rmtree(folder, ignore_errors=True)
