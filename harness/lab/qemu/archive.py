"""An initramfs: a cpio archive in the "newc" form, written without root and without the cpio program.

    entry ─ header (110 hex digits) ─ name, NUL ─ pad to 4 ─ content ─ pad to 4        ... TRAILER!!!

The form is the kernel's Documentation/driver-api/early-userspace/buffer-format. Times, owners and inode numbers are the same in
every build, so the same files give the same bytes.
"""

from __future__ import annotations

import gzip
import stat
from collections.abc import Iterable
from dataclasses import dataclass

_TRAILER = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """One file of an archive; ``path`` is relative, ``mode`` has the type bits, ``device`` is (major, minor) of a node."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)

    @classmethod
    def folder(cls, path: str, mode: int = 0o755) -> Entry:
        """A folder."""
        return cls(path, stat.S_IFDIR | mode)

    @classmethod
    def file(cls, path: str, content: bytes, mode: int = 0o644) -> Entry:
        """A regular file."""
        return cls(path, stat.S_IFREG | mode, content)

    @classmethod
    def link(cls, path: str, target: str) -> Entry:
        """A symbolic link."""
        return cls(path, stat.S_IFLNK | 0o777, target.encode())

    @classmethod
    def node(cls, path: str, major: int, minor: int) -> Entry:
        """A character device."""
        return cls(path, stat.S_IFCHR | 0o600, device=(major, minor))


def pack(entries: Iterable[Entry]) -> bytes:
    """The gzipped archive of ``entries`` in order of their paths, with every folder they need; of one path the last entry wins."""
    wanted = {entry.path: entry for entry in entries}
    for path in list(wanted):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            wanted.setdefault(parent, Entry.folder(parent))
    pieces = [_encode(number, wanted[path]) for number, path in enumerate(sorted(wanted), start=1)]
    pieces.append(_encode(0, Entry(_TRAILER, 0)))
    return gzip.compress(b"".join(pieces), compresslevel=6, mtime=0)


def _encode(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    major, minor = entry.device
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, major, minor, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
