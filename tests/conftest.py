"""A real OpenSSH server on loopback, for everything that talks to one: its own keys, its own configuration, nobody else's files.

And made-up results of GPU tests, for the folders that read, judge and print them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session", autouse=True)
def _locks_of_its_own() -> Iterator[None]:
    """Two workers do not hold each other's machines: locks lie in the folder for temporary files."""
    with tempfile.TemporaryDirectory(prefix="bringup-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A shell starts background jobs with SIGINT ignored, and what tests start would ignore it too."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _plain_prompt() -> Iterator[None]:
    """A virtual environment exports a PS1 of its own, which every shell that a test starts would show instead of its prompt."""
    kept = os.environ.pop("PS1", None)
    yield
    if kept is not None:
        os.environ["PS1"] = kept


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """What makes up results of GPU tests, and what reads their analysis."""
    spec = importlib.util.spec_from_file_location("made_results", Path(__file__).with_name("_made_results.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {host_key}
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
SetEnv SHLVL=2
"""
"""With a SHLVL, bash leaves ~/.bashrc of whoever runs the tests alone (bash(1), "invoked by the remote shell daemon")."""
CLIENT = """\
Host bench
  HostName 127.0.0.1
  Port {port}
  User {user}
  HostKeyAlias bench
  IdentityFile {folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


class Relay:
    """A port in front of the server: it counts connections, and can cut them or let them fall silent."""

    def __init__(self) -> None:
        self.target = 0
        self.accepted = 0
        self.silent = threading.Event()
        self._open: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                self.accepted += 1
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as far:
            self._open += [near, far]
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            other = {near: far, far: near}
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    while self.silent.is_set():
                        time.sleep(0.01)
                    other[ready].sendall(data)

    def cut(self) -> None:
        """Break every connection that is open."""
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._door.close()
        self.silent.clear()
        self.cut()


class Sshd:
    """The server, its client's configuration (``-F``), and a relay in between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.relay = Relay()
        self.user = pwd.getpwuid(os.getuid()).pw_name
        for name in ("host_key", "other_host_key", "key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        self.know("host_key")
        self.config = folder / "ssh_config"
        self.config.write_text(CLIENT.format(port=self.relay.port, user=self.user, folder=folder))
        self.options = ("-F", str(self.config))
        self._process: subprocess.Popen[bytes] | None = None
        self._is_plain = False

    def know(self, name: str | None) -> None:
        """What the client's known_hosts says: the key of that name, or nothing."""
        key = "" if name is None else f"bench {(self.folder / f'{name}.pub').read_text()}"
        (self.folder / "known_hosts").write_text(key)

    @property
    def is_plain(self) -> bool:
        """True where it runs as it does by default."""
        return self._is_plain and self._process is not None and self._process.poll() is None

    def changed(self, old: str, new: str) -> tuple[str, ...]:
        """The client's options with something else in its configuration."""
        text = self.config.read_text()
        assert old in text
        file = self.folder / "changed_config"
        file.write_text(text.replace(old, new))
        return ("-F", str(file))

    def start(self, *settings: str, host_key: str = "host_key") -> None:
        self._is_plain = not settings and host_key == "host_key"
        for _ in range(5):  # the free port may be taken by somebody else before the server has it
            with socket.create_server(("127.0.0.1", 0)) as door:
                port = door.getsockname()[1]
            file = self.folder / "sshd_config"
            own = SERVER.format(port=port, folder=self.folder, host_key=self.folder / host_key)
            file.write_text("\n".join([*settings, own]))
            log = self.folder / "sshd.log"
            self._process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", file, "-E", log], start_new_session=True)
            end = time.monotonic() + 10
            while time.monotonic() < end and self._process.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    self.relay.target = port
                    return
                time.sleep(0.01)
            self.stop()
        raise RuntimeError(f"sshd did not start: {log.read_text()}")

    def stop(self) -> None:
        """Kill the server and the connections it serves, as a machine does that loses its power; commands go on."""
        if self._process is not None:
            for pid in (*self._children(self._process.pid), self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _children(self, pid: int) -> list[int]:
        """The server's own processes, which serve one connection each."""
        with contextlib.suppress(OSError):
            children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            served = [child for child in children if Path(f"/proc/{child}/comm").read_text().startswith("sshd")]
            return [each for child in served for each in (*self._children(child), child)]
        return []


@pytest.fixture(scope="session")
def sshd_on_loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("needs an OpenSSH server and client: apt-get install openssh-server openssh-client")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it as root, where no service has made it
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()
    server.relay.close()


@pytest.fixture
def sshd(sshd_on_loopback: Sshd) -> Sshd:
    """The server, running as it should, whatever the test before did to it."""
    sshd_on_loopback.know("host_key")
    sshd_on_loopback.relay.silent.clear()
    if not sshd_on_loopback.is_plain:
        sshd_on_loopback.stop()
        sshd_on_loopback.start()
    return sshd_on_loopback
