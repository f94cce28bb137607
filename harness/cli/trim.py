"""``bringup tape trim``: what no replay reads is taken away, and the replays before and after have to say the same."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import locator
from harness.cli.tape import tape_folder
from harness.errors import TapeError, UsageMistake
from harness.plugin.launch import launch
from harness.plugin.settings import Settings, check_stages
from harness.record.lines import FILE_NAME
from harness.tape.format import Tape
from harness.tape.library import replace_tape
from harness.tape.trim import size_of, write_trimmed


def trim(name: str, tapes: Path | None, stages: Sequence[str], *, dry_run: bool) -> str:
    """Make a tape smaller and say by how much, in one line.

    Raises UsageMistake for a stage that is not on the tape or a tape of the package, and TapeError where its replay would say
    something else afterwards; the tape is then as it was.
    """
    folder = tape_folder(name, tapes)
    if folder.resolve().is_relative_to(locator.packaged()):
        raise UsageMistake(f"{folder} belongs to the package; copy it to ./fixtures/tapes first")
    tape = Tape.open(folder)
    check_stages(stages, tape.info.stages)
    kept = tuple(stage for stage in tape.info.stages if not stages or stage in stages)
    with tempfile.TemporaryDirectory(prefix="bringup-trim-") as held:
        work = Path(held)
        before, touched = _replay(tape, kept, work / "before")
        smaller = work / "tape"
        write_trimmed(tape, smaller, touched, kept)
        after, _ = _replay(Tape.open(smaller), kept, work / "after")
        if (line := _first_difference(before, after)) is not None:
            raise TapeError(f"{folder}: stays as it is, for its replay would differ: {line}")
        sizes = f"{size_of(tape)} before, {size_of(Tape.open(smaller))} after"
        if dry_run:
            return f"{folder}: {sizes}; nothing was changed (--dry-run)"
        replace_tape(folder, lambda beside: _move(smaller, beside))
    return f"{folder}: {sizes}"


def _move(smaller: Path, beside: Path) -> None:
    shutil.copytree(smaller, beside)


def _replay(tape: Tape, stages: Sequence[str], reports: Path) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """The record of a replay, and the tracks that it touched. Raises TapeError where the recording itself does not agree."""
    settings = Settings(bench=tape.info.bench, mode="replay", stages=tuple(stages), tapes=tape.folder, report=reports)
    run = launch(settings)
    if run.player is None or run.folder is None:
        raise TapeError(f"{tape.folder}: the replay did not begin")
    if run.verdict is None or run.verdict.exit == 4:
        raise TapeError(f"{tape.folder}: its replay does not agree with it; look at it with bringup run --replay first")
    lines = [json.loads(line) for line in (run.folder / FILE_NAME).read_text(encoding="utf-8").splitlines()]
    return lines, frozenset(run.player.coverage().tracks)


def _first_difference(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> str | None:
    """The first line after the run's own that is not the same, None where all are."""
    for one, other in zip(before[1:], after[1:], strict=False):
        if one != other:
            return f"line {one['seq']} ({one['kind']} {one.get('case') or one.get('stage') or ''})"
    return None if len(before) == len(after) else f"{len(before)} lines before, {len(after)} after"
