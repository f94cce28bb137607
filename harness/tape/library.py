"""Putting a tape in its place: whole or not at all.

    write        .NAME.new-PID            beside the old one
    check        every file re-scanned    a tape with a finding is refused
    fsync        files, then folders
    exchange     NAME <-> .NAME.new-PID   one step of the kernel (Linux renameat2); else two renames, undone if the second fails
    remove       the old one

Whatever fails before the exchange leaves the old tape as it was, and what was written beside it is removed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from harness.errors import BenchError, TapeError
from harness.tape.header import HEADER
from harness.tape.redact import Redactor
from harness.tape.scan import check_tape

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def replace_tape(
    target: Path, write: Callable[[Path], None], *, redactor: Redactor | None = None, is_evidence: bool = False
) -> None:
    """Let ``write`` fill a new folder and put it in the place of ``target``; the scan looks for what ``redactor`` knows too.

    Raises TapeError where ``target`` is something else than a tape or where the new tape has a finding of the scan (evidence
    is kept with its findings), BenchError where the disk refuses. The old tape is then as it was.
    """
    if not is_evidence:
        _refuse_other(target)
    beside = target.with_name(f".{target.name}.new-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(beside, ignore_errors=True)
        write(beside)
        if not is_evidence:
            _refuse_findings(check_tape(beside, redactor), target)
        _sync(beside)
        _exchange(beside, target)
        with suppress(OSError):  # the exchange is done; only a crash of the machine could still undo it
            _sync_folder(target.parent)
    except OSError as error:
        raise BenchError(f"cannot replace the tape {target}: {error.strerror or error}; the old one is as it was") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _refuse_other(target: Path) -> None:
    """What is not a tape is not replaced by one: a mistyped folder must not cost anybody's files."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise TapeError(f"{target}: is no folder; name another place for the tape")
    if target.is_dir() and any(target.iterdir()) and not (target / HEADER).is_file():
        raise TapeError(f"{target}: is a folder with other things in it, not a tape ({HEADER} is missing); it is left alone")


def _refuse_findings(findings: Sequence[str], target: Path) -> None:
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise TapeError(f"the new tape was not put into {target}: {findings[0]}{more}")


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        else:
            _sync_folder(path)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(new: Path, target: Path) -> None:
    """Swap two folders in one step; where there is no old one, or the system cannot, by renaming."""
    if not target.exists():
        new.rename(target)
    elif not _swap(new, target):
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        target.rename(old)
        try:
            new.rename(target)
        except BaseException:
            old.rename(target)
            raise
        old.rename(new)


def _swap(one: Path, other: Path) -> bool:
    """Swap two paths atomically. False where kernel, C library or file system cannot (renameat2(2), Linux 3.15)."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
