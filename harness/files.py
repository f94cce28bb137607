"""Files that a person names, read whole or refused in one line.

named ─▶ a plain file ─▶ of a sane size ─▶ UTF-8
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import ConfigError, UsageMistake

LARGEST = 4 * 1024 * 1024
"""Bytes of the largest file that is read; an export of all settings of a machine has under a tenth of a megabyte."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_plain(file: Path, kind: str = "file") -> str:
    """What a file says; ``kind`` is what it is called where it is not there.

    Raises UsageMistake for no file, ConfigError for one that cannot be read, is no plain file, too large, or no UTF-8.
    """
    try:
        data = _bytes(file)
    except FileNotFoundError:
        raise UsageMistake(f"no {kind} {file}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(str(file), f"cannot be read: {reason}") from None
    if len(data) > LARGEST:
        raise ConfigError(str(file), f"has more than {LARGEST // 1024 // 1024} MiB: that is no file of settings")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(str(file), "cannot be read: not UTF-8 text") from None


def kind_of_file(mode: int) -> str:
    """What a file is that is no plain one, in a word; ``mode`` as the operating system tells it."""
    return next((kind for is_such, kind in _KINDS if is_such(mode)), "no plain file")


def _bytes(file: Path) -> bytes:
    """What a plain file holds, at most one byte too many. Raises OSError, and ConfigError for anything but a plain file."""
    # without blocking: a pipe that nobody writes to would be waited for, for ever
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(str(file), f"cannot be read: it is {kind_of_file(mode)}, and a plain file is needed")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(LARGEST + 1)
    finally:
        os.close(descriptor)
