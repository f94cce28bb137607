"""The way into the virtual machine over ssh: keys of its own, and a port of this host's loopback that leads to its network card.

    ssh ── 127.0.0.1:PORT ── QEMU's user-mode network ── 10.0.2.15:22 dropbear       nothing leads out of the machine
      client_key · known_hosts            laid over the image: host key · authorized_keys

The keys are made for each machine in its workplace and end with it.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BenchError
from harness.lab.qemu import recipe
from harness.lab.qemu.archive import Entry, pack

LOOPBACK = "127.0.0.1"
USER = "root"
_SECONDS = 60


@dataclass(frozen=True)
class Door:
    """``folder`` has the keys; ``port`` is taken by QEMU whenever the machine is on."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        """What ssh is called with."""
        return f"{USER}@{LOOPBACK}"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the OpenSSH client: this machine's key and host key alone, nothing of the user's configuration."""
        settings = (
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            f'UserKnownHostsFile="{self.folder / "known_hosts"}"',
            "GlobalKnownHostsFile=none",
        )
        named = [word for setting in settings for word in ("-o", setting)]
        return ("-F", "none", "-p", str(self.port), "-i", str(self.folder / "client_key"), *named)

    @property
    def command(self) -> str:
        """The line that a person types."""
        return shlex.join(("ssh", *self.options, self.address))

    def overlay(self) -> bytes:
        """The machine's own part of its file system, an archive to be laid over the image's."""
        host_key, known = self.folder / "host_key", self.folder / "client_key.pub"
        return pack(
            (
                Entry.folder("root", 0o700),
                Entry.folder(str(Path(recipe.KNOWN_KEYS).parent), 0o700),
                Entry.file(recipe.HOST_KEY, host_key.read_bytes(), 0o600),
                Entry.file(recipe.KNOWN_KEYS, known.read_bytes(), 0o600),
            )
        )


def make_door(keygen: str, folder: Path) -> Door:
    """Make the keys in ``folder`` and find a port. Raises BenchError where a key cannot be made."""
    for name in ("host_key", "client_key"):
        line = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "bringup-lab", "-f", str(folder / name)]
        made = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False)  # noqa: S603 - the program that was found
        if made.returncode != 0:
            raise BenchError(f"{keygen}: {(made.stderr or made.stdout).strip() or f'exit status {made.returncode}'}")
    with socket.create_server((LOOPBACK, 0)) as free:
        door = Door(folder, int(free.getsockname()[1]))
    (folder / "known_hosts").write_text(f"[{LOOPBACK}]:{door.port} {(folder / 'host_key.pub').read_text()}")
    return door
