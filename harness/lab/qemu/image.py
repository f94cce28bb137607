"""The image that the lab boots: a kernel and an initramfs, built once and kept in the user's cache.

    $XDG_CACHE_HOME/bringup/lab/
        current             the digest in use
        <digest>/           vmlinuz  initrd  manifest.json (SHA-256 of both, and where they are from)

Nothing is installed on the host. What is in the cache is checked each time before it is booted; a damaged image is said to be so,
and built again by the next build.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BenchError, UsageMistake
from harness.lab.qemu import recipe
from harness.lab.qemu.archive import Entry, pack
from harness.lab.qemu.packages import fetch, kernel_package, unpack

_PARTS = ("vmlinuz", "initrd")
_BUILD = "build it with `bringup lab build`"


@dataclass(frozen=True)
class Image:
    """What is booted; ``origin`` says where it is from."""

    kernel: Path
    initrd: Path
    origin: str


def cache_folder() -> Path:
    """Where images are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "bringup" / "lab"


def find_image(cache: Path | None = None) -> Image:
    """The image in use. Raises BenchError with what to do where there is none, an old one or a damaged one."""
    cache = cache_folder() if cache is None else cache
    try:
        name = (cache / "current").read_text().strip()
    except OSError:
        raise BenchError(f"the virtual lab has no image yet; {_BUILD}") from None
    image, own = _load(cache / name)
    if own and name != recipe.digest():
        raise BenchError(f"the virtual lab's image is of another version of the harness; {_BUILD}")
    return image


def build_image(cache: Path | None = None) -> tuple[Image, bool]:
    """Make the image of Debian packages, unless it is there and whole; says whether it was made now.

    Raises BenchError where a package cannot be had.
    """
    cache = cache_folder() if cache is None else cache
    name = recipe.digest()
    try:
        image, _ = _load(cache / name)
    except BenchError:
        pass
    else:
        _use(cache, name)
        return image, False
    with tempfile.TemporaryDirectory(prefix="bringup-image-") as made:
        work = Path(made)
        names = (kernel_package(), *recipe.PACKAGES)
        debs, root = work / "debs", work / "root"
        debs.mkdir()
        root.mkdir()
        packages = fetch(names, debs)
        for package in packages:
            unpack(package, root)
        kernel = _kernel_in(root)
        (work / "initrd").write_bytes(pack(_entries(root, kernel.name.removeprefix("vmlinuz-"))))
        origin = f"Debian packages {', '.join(package.stem for package in packages)}"
        _store(cache, name, kernel, work / "initrd", origin, own=True)
    return _load(cache / name)[0], True


def adopt_image(kernel: Path, initrd: Path, cache: Path | None = None) -> Image:
    """Use another distribution's kernel and initramfs. It must come to a ``login:`` on ttyS0. Raises UsageMistake."""
    cache = cache_folder() if cache is None else cache
    for file in (kernel, initrd):
        if not file.is_file():
            raise UsageMistake(f"no file {file}")
    name = hashlib.sha256("".join(map(_sum, (kernel, initrd))).encode()).hexdigest()[:16]
    _store(cache, name, kernel, initrd, f"{kernel}, {initrd}", own=False)
    return _load(cache / name)[0]


def _load(folder: Path) -> tuple[Image, bool]:
    """The image of a folder, checked, and whether it is of our own recipe."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        damaged = [part for part in _PARTS if _sum(folder / part) != manifest["sha256"][part]]
        origin, own = str(manifest["origin"]), bool(manifest["own"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BenchError(f"the virtual lab's image in {folder} is not whole; {_BUILD}") from None
    if damaged:
        raise BenchError(f"the virtual lab's image in {folder} is damaged ({', '.join(damaged)}); {_BUILD}")
    return Image(folder / "vmlinuz", folder / "initrd", origin), own


def _store(cache: Path, name: str, kernel: Path, initrd: Path, origin: str, *, own: bool) -> None:
    """Put an image in place whole or not at all."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as made:
        new = Path(made) / name
        new.mkdir()
        for part, source in zip(_PARTS, (kernel, initrd), strict=True):
            shutil.copyfile(source, new / part)
        manifest = {"sha256": {part: _sum(new / part) for part in _PARTS}, "origin": origin, "own": own}
        (new / "manifest.json").write_text(json.dumps(manifest, indent=1))
        if (cache / name).exists():
            (cache / name).rename(Path(made) / "old")
        new.rename(cache / name)
    _use(cache, name)


def _use(cache: Path, name: str) -> None:
    written = cache / f".current-{os.getpid()}"
    written.write_text(f"{name}\n")
    written.replace(cache / "current")


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _kernel_in(root: Path) -> Path:
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise BenchError("the kernel package has no boot/vmlinuz-...: give --kernel FILE --initrd FILE")
    return kernels[-1]


def _entries(root: Path, release: str) -> Iterator[Entry]:
    """Everything that goes into the initramfs."""
    for path in ("bin", "sbin"):
        yield Entry.folder(path)
    for path in recipe.FOLDERS:
        yield Entry.folder(path)
    for name in ("lib", "lib64"):
        yield Entry.link(name, f"usr/{name}")
    yield Entry.node("dev/console", 5, 1)
    yield Entry.node("dev/null", 1, 3)
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if recipe.is_kept(path):
            yield from _copied(file, recipe.place(path))
    for module in recipe.MODULES:
        file = root / "lib" / "modules" / release / module
        yield Entry.file(f"usr/lib/modules/{file.name}", file.read_bytes())
    yield Entry.link("usr/bin/python3", "python3.11")
    yield Entry.link("init", "bin/busybox")
    for applet in _applets(root / "bin" / "busybox"):
        yield Entry.link(f"bin/{applet}", "busybox")
    for path, (mode, text) in recipe.FILES.items():
        yield Entry.file(path, text.encode(), mode)


def _copied(file: Path, path: str) -> Iterator[Entry]:
    if file.is_symlink():
        yield Entry.link(path, str(file.readlink()))
    elif file.is_file():
        yield Entry.file(path, file.read_bytes(), file.stat().st_mode & 0o777)


def _applets(busybox: Path) -> tuple[str, ...]:
    """The names that busybox goes by. It is asked itself: the list differs from build to build."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=30).stdout.split()  # noqa: S603 - the busybox of the image
    return tuple(name for name in listed if re.fullmatch(r"[\w\[.-]+", name) and name not in ("busybox", "init"))
