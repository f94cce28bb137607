"""The standard streams, which a caller may have closed, filled up or stopped reading.

from a machine or a file     made visible: no control character, escape sequence or change of writing direction gets out
closed before the start     something harmless takes the descriptor's place, so that no file of ours gets its number
full, or the reader left    one line on standard error; what is left to write goes nowhere
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from harness.report.text import printable, visible


def take_missing() -> bool:
    """Put the null device where a standard stream is closed; False where that was standard output."""
    missing = {descriptor for descriptor in (0, 1, 2) if not _is_open(descriptor)}
    for _ in missing:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False, encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False, encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False, encoding="utf-8")
    return 1 not in missing


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def show(text: str) -> OSError | None:
    """Write to standard output. Where that is refused, say why, and let everything after it go nowhere."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        give_up_output()
        return error
    return None


def put(line: str) -> OSError | None:
    """One line on standard output, made visible; where that takes nothing, why, and what comes after it goes nowhere."""
    return show(f"{visible(line)}\n")


class Lines:
    """Lines of a command that changes a machine: what standard output does not take goes to standard error.

    ``lost`` is why standard output took no more, None while it does.
    """

    def __init__(self) -> None:
        self.lost: OSError | None = None

    def put(self, line: str) -> None:
        """Say one line, made visible."""
        if self.lost is None:
            self.lost = put(line)
        if self.lost is not None:
            complain(line)


def complain(text: str) -> None:
    """One line on standard error, made visible, if anybody takes it."""
    _complain(visible(text))


def complain_at_length(text: str) -> None:
    """The same of several lines, for a fault of the harness itself."""
    _complain(printable(text))


def _complain(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"bringup: {text}\n")
        sys.stderr.flush()


def give_up_output() -> None:
    """Let standard output lead nowhere, so that what it still holds raises nothing at the interpreter's end."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        sys.stdout.flush()


def reason(error: OSError) -> str:
    """What the operating system refused, in one line."""
    why = error.strerror or str(error)
    if not _has_folder():
        return "the working folder is gone; change to one that exists"
    if error.filename is not None:
        return f"{os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename}: {why}"
    try:
        sys.stdout.flush()
    except OSError:
        return f"standard output takes nothing: {why}"
    return why


def _has_folder() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False
