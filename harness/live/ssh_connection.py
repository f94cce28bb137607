"""One connection of the OpenSSH client, kept open for many commands.

    closed ─ open ─▶ a master in the background owns the connection ─ commands reach it over a socket in a private folder
      ▲                             │
      └──── drop, close, lost ──────┘   or idle too long, so that a harness that was killed leaves nothing for ever

The master is asked for once and apart from any command: whatever goes wrong there, nothing was run. Commands never make a
connection of their own. A folder whose owner is gone is cleared away by the next connection. Needs OpenSSH 7.6 or later, for
RemoteCommand.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness.clock import Clock, Deadline
from harness.errors import AuthRefused, BenchError, BringupError, Unreachable, Untrusted, UsageMistake
from harness.live.child import LOCALE, kill, text
from harness.live.process import identify, may_live

SSH = "ssh"
PREFIX = "bringup-ssh-"
"""How the private folders below the temporary folder are called."""

IDLE_SECONDS = 60
"""How long an unused master stays (ControlPersist)."""

CONNECT_SECONDS = 30
ALIVE = ("ServerAliveInterval=10", "ServerAliveCountMax=3")
"""A host that restarts without a word is known to be gone after half a minute."""

_CONTROL_SECONDS = 5.0
_LONGEST_FOLDER = 60
"""A socket's path has 107 bytes at most (unix(7)), and ssh puts 17 more behind it while it makes one."""

_SETTINGS = (
    "BatchMode=yes",
    "RequestTTY=no",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "LogLevel=INFO",
)
"""What must not be otherwise, whatever the user's configuration says: never ask, never forward, run nothing else. Host keys,
users, ports, keys and jumps stay the user's."""

_SILENCE = {"SSH_ASKPASS_REQUIRE": "never"}
"""The ssh of a jump host, which BatchMode does not reach, must not ask (OpenSSH 8.4 or later; it has no terminal here)."""

_BARRED = "UNKNOWN port"
"""In what a client says whose own connection, a ProxyCommand that fails, was closed."""

_UNREADABLE = re.compile(
    r"[Bb]ad configuration option|Bad owner or permissions|Can't open user config file|[Uu]nsupported option|missing argument"
    r"|extra arguments at end"
)


class Connection:
    """The multiplexed connection to ``address``. Raises UsageMistake for an address that ssh would take for an option."""

    def __init__(self, address: str, options: Sequence[str], clock: Clock) -> None:
        if not address or address.startswith("-") or any(char.isspace() or not char.isprintable() for char in address):
            raise UsageMistake(f"{address!r} is not a host for ssh: give user@host or an alias of ~/.ssh/config")
        self.address = address
        self._options = tuple(options)
        self._clock = clock
        self._folder: Path | None = None
        self._master: tuple[int, str] | None = None

    @property
    def is_open(self) -> bool:
        """True where a master listens; it may not know yet that its host is gone."""
        return self._folder is not None and _listens(self._folder / "socket")

    def open(self, deadline: Deadline) -> None:
        """Connect, log in and leave the master in the background.

        Raises Untrusted, AuthRefused after one attempt, Unreachable, UsageMistake for a configuration that ssh cannot read; nothing
        was run then.
        """
        folder = self._folder = self._folder or _make_folder(self._clock)
        self._forget()
        seconds = max(1, math.ceil(min(deadline.left(self._clock), CONNECT_SECONDS)))
        settings = ("ControlMaster=yes", f"ControlPersist={IDLE_SECONDS}", f"ConnectTimeout={seconds}", *ALIVE)
        status = _call(self._clock, self._line("master", "-N", *settings), folder / "master.log", deadline)
        said = _lines(folder / "master.log")
        if status is None:
            raise Unreachable(f"{self.address}: no ssh connection in time; nothing was run{_quote(said)}")
        if status != 0 or not self.is_open:
            raise _explain(self.address, said)
        _call(self._clock, self._control("check"), folder / "check.log", Deadline.after(self._clock, _CONTROL_SECONDS))
        if found := re.search(r"pid=(\d+)", "\n".join(_lines(folder / "check.log"))):
            self._master = (int(found[1]), identify(int(found[1])))

    def client(self, command: str) -> list[str]:
        """The program that runs ``command`` over the open master. Where there is none it fails; it never connects by itself."""
        return [*self._line("client", "ControlMaster=no", "ProxyCommand=false"), command]

    def reason(self) -> str:
        """What ssh said last about this connection, or that it said nothing."""
        said = self._said()
        return said[-1] if said else "the session ended without an exit status"

    def not_run(self) -> str:
        """Why the command certainly did not reach the host, in ssh's words, or nothing where it may have.

        Either no session was opened for it, or there was no master to give it to and the client turned to its own connection, which
        is barred.
        """
        said = _lines(self._folder / "client.log") if self._folder else []
        if refusals := [line for line in said if "session request failed" in line]:
            return refusals[-1]
        is_barred = any(_BARRED in line for line in said) and not any("mux_client_request_session" in line for line in said)
        return f"the master had ended, {self.reason()}" if is_barred else ""

    def _said(self) -> list[str]:
        """Both logs, without what the client says about the connection that it must not make by itself."""
        said = [line for name in ("client.log", "master.log") if self._folder for line in _lines(self._folder / name)]
        return [line for line in said if _BARRED not in line and not line.startswith("kex_exchange_identification")]

    def drop(self) -> None:
        """End the master, however it hangs; the next command opens a new one."""
        if self._folder is not None:
            if self.is_open:
                deadline = Deadline.after(self._clock, _CONTROL_SECONDS)
                _call(self._clock, self._control("exit"), self._folder / "exit.log", deadline)
            self._forget()

    def close(self) -> None:
        """End the master and remove the folder."""
        self.drop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _forget(self) -> None:
        """Take away what an ended master leaves: its process if it lingers, its socket and its logs."""
        master, self._master = self._master, None
        if master is not None:
            _end(self._clock, *master)
        if self._folder is not None:
            for name in ("socket", "master.log", "client.log", "check.log", "exit.log"):
                (self._folder / name).unlink(missing_ok=True)

    def _line(self, log: str, *settings: str) -> list[str]:
        """ssh with our settings before the user's, because of each the first one counts."""
        assert self._folder is not None
        line = [SSH, "-T", "-E", str(self._folder / f"{log}.log"), "-S", str(self._folder / "socket")]
        for setting in (*_SETTINGS, *settings):
            line += [setting] if setting.startswith("-") else ["-o", setting]
        return [*line, *self._options, "--", self.address]

    def _control(self, verb: str) -> list[str]:
        assert self._folder is not None
        return _control(self._folder, verb)


def _control(folder: Path, verb: str) -> list[str]:
    """A word to the master; it is told by its socket alone, so no configuration is read."""
    return [SSH, "-F", "/dev/null", "-S", str(folder / "socket"), "-O", verb, "--", "master"]


def _make_folder(clock: Clock) -> Path:
    """A private folder with the name of its owner, after those of owners that are gone were cleared away."""
    usual = tempfile.gettempdir()
    parent = Path(usual if len(usual) <= _LONGEST_FOLDER and not set(usual) & set("%$\"'") else "/tmp")  # noqa: S108 - mkdtemp is safe
    for left in parent.glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError):
            if left.lstat().st_uid != os.getuid():
                continue
            pid, _, identity = (left / "owner").read_text(encoding="ascii").partition(" ")
            if not may_live(int(pid), identity):
                if _listens(left / "socket"):
                    _call(clock, _control(left, "exit"), left / "exit.log", Deadline.after(clock, _CONTROL_SECONDS))
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    (folder / "owner").write_text(f"{os.getpid()} {identify(os.getpid())}", encoding="ascii")
    return folder


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONTROL_SECONDS)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _call(clock: Clock, line: list[str], log: Path, deadline: Deadline) -> int | None:
    """Run ssh with what it says in a file, because a master keeps its stderr. None where it took too long and was killed."""
    try:
        with log.open("ab") as errors:
            process = subprocess.Popen(  # noqa: S603
                line,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, **LOCALE, **_SILENCE},
                start_new_session=True,
            )
    except FileNotFoundError:
        raise BenchError(f"the program {SSH} is not installed here: install the package openssh-client") from None
    except OSError as error:
        raise BenchError(f"the program {SSH} cannot be started: {error.strerror}") from None
    try:
        return process.wait(deadline.left(clock))
    except subprocess.TimeoutExpired:
        return None
    finally:
        kill(process)
        process.wait()


def _end(clock: Clock, pid: int, identity: str) -> None:
    """Wait a little for a process that was told to end, then kill it."""
    deadline = Deadline.after(clock, 1.0)
    while may_live(pid, identity) and not deadline.passed(clock):
        clock.sleep(0.01)
    if may_live(pid, identity):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _lines(log: Path) -> list[str]:
    try:
        data = log.read_bytes()
    except OSError:
        return []
    return [line.strip() for line in text(data).splitlines() if line.strip()]


def _explain(address: str, said: list[str]) -> BringupError:
    """Why there is no connection, by the texts of OpenSSH, which are in English wherever it runs."""
    whole = "\n".join(said)
    if _UNREADABLE.search(whole):
        return UsageMistake(f"{address}: ssh cannot read its configuration{_quote(said)}")
    if "IDENTIFICATION HAS CHANGED" in whole:
        found = re.search(r"Offending \S+ key in (\S+)", whole)
        where = f" (known in {found[1]})" if found else ""
        return Untrusted(
            f"{address}: the host key is not the known one{where}: another machine, or one installed anew; find out which, "
            "and only then remove the old key with ssh-keygen -R; nothing was run"
        )
    if "Host key verification failed" in whole:
        return Untrusted(
            f"{address}: the host key is not known: log in once by hand (ssh {address}), compare its fingerprint with "
            "the machine's own, then try again; nothing was run"
        )
    if re.search(r"Permission denied \(|Too many authentication failures", whole):
        return AuthRefused(
            f"{address}: ssh was refused the login{_quote(said)}; one attempt was made and none will follow: let the host "
            "know your key (ssh-copy-id), load it into ssh-agent, or name it with IdentityFile in ~/.ssh/config"
        )
    return Unreachable(f"{address}: no ssh connection{_quote(said)}; nothing was run")


def _quote(said: list[str]) -> str:
    """The last thing ssh said, with what the host said before it closed the door (a machine that is still booting)."""
    tail = [line.removeprefix("ssh: ").removesuffix(".") for line in said[-2:]]
    return f": {' / '.join(tail)}" if tail else ""
