"""What both analyses of files have in common: reading a file, the first line, a finding as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.devices.dumps.recognise import LARGEST
from harness.errors import UsageMistake
from harness.procedures.analysis.diagnosis import Diagnosis

_WIDTH = 160


def content_of(file: Path) -> bytes:
    """The bytes of a file. Raises UsageMistake with one line where it cannot be read, or does not end within what can be held."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise UsageMistake(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise UsageMistake(f"{file}: larger than {LARGEST >> 20} MiB; cut out what matters")
    return data


def headline(files: int, faults: int, warnings: int) -> str:
    """The verdict, and that it is of files."""
    found = f"{faults} fault{'s' * (faults != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    return f"ANALYSIS of {files} file{'s' * (files != 1)}, no machine was touched: {found}"


def finding_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """What, where, the words that show it, the likely cause, the next step."""
    yield f"{diagnosis.severity.value:<5}{diagnosis.where}: {diagnosis.what}"
    if diagnosis.quote:
        yield f"     seen    {cut(diagnosis.quote)}{f'  ({diagnosis.source})' if diagnosis.source else ''}"
    elif diagnosis.source:
        yield f"     seen in {diagnosis.source}"
    for line in diagnosis.then:
        yield f"     then    {cut(line)}"
    if diagnosis.cause:
        yield f"     likely  {diagnosis.cause}"
    if diagnosis.do:
        yield f"     next    {diagnosis.do}"


def cut(text: str, width: int = _WIDTH) -> str:
    """One line of printable letters, no longer than ``width``."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return clean if len(clean) <= width else f"{clean[: width - 3]}..."
