"""One lock for each machine, so that two people do not bring the same one up at once.

    free ──acquire──> held ──release──> free
     ^                 │ │
     │                 │ └─ stolen: by whoever names its owner exactly
     └─ taken over ────┘    once its process is gone (kill -9 too) or its time is over

The lock is a courtesy between people who share a machine: a small JSON file in a folder that everybody can write to. The
file stays when the lock is free (empty then): in a sticky folder nobody could remove or replace somebody else's, so it is
written in place, under flock.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import hashlib
import json
import os
import re
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType

from harness.bench import Bench
from harness.clock import WallClock, wall_time
from harness.errors import OwnershipError, Timeout
from harness.live.process import identify, may_live

LASTS = timedelta(hours=12)
"""How long a lock holds unless it is renewed: longer than a whole run, shorter than a forgotten one."""

_OPENING_SECONDS = 5.0
_EVERYBODY_WRITES = 0o666
_SHARED_FOLDER = 0o1777


@dataclass(frozen=True)
class Holding:
    """Who holds a machine. ``since`` and ``expires`` are UTC; ``process`` tells this ``pid`` from another one of that number."""

    machine: str
    owner: str
    pid: int
    host: str
    since: datetime
    expires: datetime
    process: str
    token: str

    def __str__(self) -> str:
        return f"held by {self.owner!r} (pid {self.pid} on {self.host}) since {_iso(self.since)}, until {_iso(self.expires)}"


class MachineLock:
    """The lock of one machine; ``owner`` is who asks, see ``owner_of_run``.

    ``folder`` is shared by all users; by default ``bringup-locks`` in the system's folder for temporary files.
    """

    def __init__(self, machine: str, owner: str, folder: Path | None = None, *, lasts: timedelta = LASTS) -> None:
        self.machine = machine
        self.owner = owner
        self._folder = folder
        self._lasts = lasts
        self._token = uuid.uuid4().hex

    @property
    def path(self) -> Path:
        """The lock's file."""
        folder = Path(tempfile.gettempdir()) / "bringup-locks" if self._folder is None else self._folder
        return folder / f"{_file_name(self.machine)}.lock"

    def acquire(self, *, steal_from: str = "") -> None:
        """Take the lock, or renew one's own.

        Raises OwnershipError, naming the owner and how to steal it, where somebody else holds it and ``steal_from`` is not exactly
        the owner's name.
        """
        with self._opened() as file:
            holding = _read(file, self.path)
            mine = holding is not None and holding.token == self._token
            if holding is not None and not mine and _counts(holding) and steal_from != holding.owner:
                raise OwnershipError(self._refusal(holding, steal_from))
            _write(file, self._new_holding(since=holding.since if holding is not None and mine else wall_time()))

    def release(self) -> None:
        """Give the lock back; one that somebody else took over or stole is left alone. Raises nothing.

        A lock that could not be given back is taken over as soon as this process has ended.
        """
        if not self.path.exists():
            return
        with suppress(OwnershipError, Timeout), self._opened() as file:
            holding = _read(file, self.path)
            if holding is not None and holding.token == self._token:
                os.ftruncate(file, 0)

    def check(self) -> None:
        """Raise OwnershipError where the lock is not ours any more: before a change to the machine, say."""
        holding = self.holding()
        if holding is None or holding.token != self._token:
            raise OwnershipError(f"{self.machine} is not ours any more: {holding or 'nobody holds it'}")

    def holding(self) -> Holding | None:
        """Who holds the machine now, if anybody."""
        if not self.path.exists():
            return None
        with self._opened() as file:
            holding = _read(file, self.path)
        return holding if holding is not None and _counts(holding) else None

    def __enter__(self) -> MachineLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.release()

    def _new_holding(self, since: datetime) -> Holding:
        pid = os.getpid()
        expires = wall_time() + self._lasts
        return Holding(self.machine, self.owner, pid, socket.gethostname(), since, expires, identify(pid), self._token)

    def _refusal(self, holding: Holding, steal_from: str) -> str:
        wrong = f"; {steal_from!r} is not its owner" if steal_from else ""
        return f"{self.machine} is {holding}{wrong}; to steal it, name its owner exactly: --steal-lock '{holding.owner}'"

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The lock's file, open and ours alone for a moment."""
        try:
            file = _open_shared(self.path)
        except OSError as error:
            raise OwnershipError(f"cannot open the lock {self.path} of {self.machine}: {error.strerror}") from None
        try:
            WallClock().until(lambda: _flock(file), bool, what=f"the lock file {self.path}", every=0.02, within=_OPENING_SECONDS)
            yield file
        finally:
            os.close(file)


def machine_name(bench: Bench) -> str:
    """What the machine of a bench is locked by: its service tag, else its address, else the bench's name."""
    if bench.service_tag:
        return bench.service_tag
    if bench.host is None or bench.host.via == "console":
        return f"bench-{bench.name}"
    return f"host-{os.uname().nodename if bench.host.via == 'local' else bench.host.address}"


def owner_of_run(run: str) -> str:
    """The owner's name for a run on this machine: ``user@host run``."""
    return f"{_user()}@{socket.gethostname()} {run}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"uid{os.getuid()}"


def _file_name(machine: str) -> str:
    """A file name for any machine's name, different for different ones."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", machine)[:80]
    if plain and plain == machine and not plain.startswith("."):
        return plain
    return f"{plain.lstrip('.')}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}"


def _open_shared(path: Path) -> int:
    """Open the file for everybody, making folder and file where they are missing.

    Made apart from opened: with fs.protected_regular Linux refuses O_CREAT on somebody else's file in a sticky folder
    (kernel documentation, admin-guide/sysctl/fs).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.parent.mkdir(parents=True)
        path.parent.chmod(_SHARED_FOLDER)
    except FileExistsError:
        pass
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, _EVERYBODY_WRITES)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(file, _EVERYBODY_WRITES)
    return file


def _flock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def _read(file: int, path: Path) -> Holding | None:
    """What the file says; None where it is empty. Raises OwnershipError where it cannot be understood."""
    text = os.pread(file, 65536, 0).decode("utf-8", "replace").strip()
    try:
        return _parse(text) if text else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise OwnershipError(f"the lock {path} cannot be read; remove it if nobody uses the machine") from None


def _parse(text: str) -> Holding:
    """Read a holding. What a longer one left behind it, when its writer was killed before cutting to length, is not read."""
    fields, _ = json.JSONDecoder().raw_decode(text)
    times = {name: datetime.fromisoformat(fields[name]) for name in ("since", "expires")}
    holding = Holding(**{**fields, **times})
    if not isinstance(holding.pid, int) or len(holding.process.split()) != 3 or not all(time.tzinfo for time in times.values()):
        raise ValueError(text)
    return holding


def _write(file: int, holding: Holding) -> None:
    fields = {**asdict(holding), "since": _iso(holding.since), "expires": _iso(holding.expires)}
    data = f"{json.dumps(fields)}\n".encode()
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))
    os.fsync(file)


def _counts(holding: Holding) -> bool:
    """False where the time is over or the process is known to be gone."""
    if holding.expires <= wall_time():
        return False
    return holding.host != socket.gethostname() or may_live(holding.pid, holding.process)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
