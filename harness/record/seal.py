"""The seal of a record: the SHA-256 of its file, kept beside it when the run has ended.

    reports/<run-id>/results.jsonl
    reports/<run-id>/results.sha256      one line that ``sha256sum -c results.sha256`` understands

It shows that a record was edited afterwards by hand or cut short in copying. It is no signature: whoever rewrites both files
on purpose is not found out by it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from harness.errors import BenchError

SEAL_NAME = "results.sha256"


def digest(data: bytes) -> str:
    """The SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def write_seal(record: Path) -> None:
    """Seal a record that is complete. Raises BenchError where the disk refuses."""
    try:
        line = f"{digest(record.read_bytes())}  {record.name}\n"
        with record.with_name(SEAL_NAME).open("w", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BenchError(f"{record}: cannot seal the record: {error.strerror or error}") from None


def read_seal(record: Path) -> str:
    """The digest that the run left for its record, "" where there is none."""
    try:
        words = record.with_name(SEAL_NAME).read_text("utf-8", "replace").split()
    except OSError:
        return ""
    return words[0] if len(words) == 2 and words[1] == record.name else ""
