"""What the qemu grade needs on this host, and how to get what is missing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BenchError

QEMU = "qemu-system-x86_64"
KEYGEN = "ssh-keygen"

_FIRMWARE = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),  # Debian, Ubuntu
    ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),  # Arch
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),  # Fedora
)
"""Code and empty variable store of OVMF, where distributions put them."""


@dataclass(frozen=True)
class Tools:
    """The program, the firmware's two files, and OpenSSH's maker of keys."""

    qemu: str
    code: Path
    variables: Path
    keygen: str


def find_tools() -> Tools:
    """QEMU, OVMF and the OpenSSH client of this host. Raises BenchError, with what to install, where one is missing."""
    qemu, keygen = shutil.which(QEMU), shutil.which(KEYGEN)
    firmware = next(
        ((Path(code), Path(store)) for code, store in _FIRMWARE if Path(code).is_file() and Path(store).is_file()), None
    )
    missing = [name for name, found in ((QEMU, qemu), ("OVMF", firmware), (KEYGEN, keygen)) if found is None]
    if qemu is None or firmware is None or keygen is None:
        raise BenchError(f"the virtual lab needs {' and '.join(missing)}: apt-get install qemu-system-x86 ovmf openssh-client")
    return Tools(qemu, *firmware, keygen)
