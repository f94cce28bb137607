"""What becomes of the recording of a live run: evidence beside its report always, the bench's tape where that was asked for.

Each verb returns what a person is told.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BringupError
from harness.tape.format import Tape
from harness.tape.library import replace_tape
from harness.tape.pseudonyms import write_pseudonymous
from harness.tape.redact import Redactor
from harness.tape.shape import compare_shapes

_MOST = 40
"""Lines of drift that are told; a renamed member of a list of parts is one, whatever its length."""


@dataclass(frozen=True)
class Drift:
    """How a machine's answers differ in shape from its tape: ``notes`` for everybody, ``failure`` empty where they do not."""

    notes: tuple[str, ...]
    failure: str


def replace_with(recording: Path, target: Path, redactor: Redactor, *, under_pseudonyms: bool) -> str:
    """Put a whole recording in the place of a tape. Raises TapeError or BenchError; the old tape is then as it was."""
    is_there = target.exists()

    def write(beside: Path) -> None:
        if under_pseudonyms:
            write_pseudonymous(Tape.open(recording), beside)
        else:
            shutil.copytree(recording, beside)

    replace_tape(target, write, redactor=redactor)
    under = ", with pseudonyms for machine, parts and addresses" if under_pseudonyms else ""
    return f"the tape {target} was {'replaced' if is_there else 'written'}{under}"


def find_drift(tape: Path, recording: Path) -> Drift:
    """Compare what a live run recorded with the tape of its bench."""
    try:
        found = [str(each) for each in compare_shapes(Tape.open(tape), Tape.open(recording))]
    except BringupError as error:
        found = [str(error)]
    if not found:
        return Drift((f"the tape {tape} still has the shape of what the machine answers",), "")
    more = [f"{len(found) - _MOST} more"] if len(found) > _MOST else []
    told = [*found[:_MOST], *more]
    notes = tuple(f"drift from the tape {tape}: {line}" for line in told)
    return Drift(notes, "\n".join([f"the tape {tape} is not what the machine answers any more:", *told]))
