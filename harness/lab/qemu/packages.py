"""Debian packages without installing them: fetched by apt, which checks them, and unpacked by dpkg-deb."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import BenchError
from harness.lab.qemu.recipe import KERNEL_PACKAGE

_ELSEWHERE = "on another distribution give `bringup lab build` a kernel and an initrd: --kernel FILE --initrd FILE"
_SECONDS = 600


def kernel_package() -> str:
    """The package that the kernel's meta-package stands for now, such as ``linux-image-6.1.0-28-cloud-amd64``."""
    _insist_on_tools()
    said = _run("apt-cache", "depends", KERNEL_PACKAGE)
    found = re.search(r"Depends: (linux-image-[\w.+-]+)", said)
    if found is None:
        raise BenchError(f"apt knows no kernel package {KERNEL_PACKAGE}; run `apt-get update` (as root), or {_ELSEWHERE}")
    return found[1]


def fetch(names: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Download the packages into ``folder``. Raises BenchError, naming what apt says, where one cannot be had."""
    _insist_on_tools()
    for name in names:
        _run("apt-get", "--quiet", "download", name, folder=folder)
    return tuple(sorted(folder.glob("*.deb")))


def unpack(package: Path, folder: Path) -> None:
    """Put the files of a package below ``folder``."""
    _run("dpkg-deb", "-x", str(package), str(folder))


def _insist_on_tools() -> None:
    missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise BenchError(f"the image is made of Debian packages and {', '.join(missing)} is not here; {_ELSEWHERE}")


def _run(*command: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603 - apt and dpkg with names of our own
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(command)}: nothing for {_SECONDS} s; is the network there?") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines() or ["no word"]
        why = errors[0].removeprefix("E: ")
        raise BenchError(f"{' '.join(command)}: {why}; run `apt-get update` (as root) if apt's lists are old, or {_ELSEWHERE}")
    return done.stdout
