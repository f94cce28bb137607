"""``bringup tape``: which tape is meant, what the scan says of it, how two of them differ, and what is kept of a run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import locator
from harness.cli.streams import complain
from harness.clock import wall_time
from harness.errors import UsageMistake
from harness.record.reader import read_record
from harness.tape.currency import doubts
from harness.tape.diff import Difference, Tolerance, compare_tapes
from harness.tape.format import Tape
from harness.tape.header import HEADER, read_info
from harness.tape.library import replace_tape
from harness.tape.pseudonyms import write_pseudonymous
from harness.tape.scan import check_tape, summarise
from harness.units import parse_quantity


def check(names: Sequence[str], tapes: Path | None, *, strict: bool = False) -> tuple[list[str], bool]:
    """One line a finding and one a tape, and whether all were clean; a doubt about what a tape is worth is one if ``strict``."""
    folders = [tape_folder(name, tapes) for name in names] or list(locator.tape_folders(tapes))
    if not folders:
        raise UsageMistake("no tape found; record one with `bringup run --bench NAME --record`")
    lines: list[str] = []
    is_clean = True
    for folder in folders:
        findings = check_tape(folder)
        doubted = [] if findings else _doubts(folder)
        lines += [f"{folder}: warning: {doubt}" for doubt in doubted if not strict]
        findings += doubted if strict else []
        is_clean = is_clean and not findings
        lines += [f"{folder}: {finding}" for finding in findings or ["clean"]]
    return lines, is_clean


def _doubts(folder: Path) -> list[str]:
    """What a replay of the tape would be told."""
    info = read_info(folder)
    try:
        platform, _ = locator.find_platform(info.platform)
    except UsageMistake:
        platform = None
    return doubts(info, platform, wall_time())


def keep(run: Path, name: str, tapes: Path | None, *, force: bool, pseudonyms: bool | None = None) -> str:
    """Put the recording of a live run among the tapes, whole, once the scan found nothing; what was kept, in one line.

    With ``pseudonyms`` for what names machine, parts and addresses; None: on hardware only.
    Raises UsageMistake for a run without one, or one that never came to its end, and TapeError as ``replace_tape`` does.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageMistake(f"{name!r} is no name for a tape: letters, digits, dot, dash and underscore")
    record, source = read_record(run), run / "tape"
    if not (source / HEADER).is_file():
        raise UsageMistake(f"{run}: this run left no recording; only live runs do")
    if record.end is None or record.truncated:
        raise UsageMistake(f"{run}: this run never came to its end, so its recording is not whole")
    target = (tapes or Path("fixtures") / "tapes") / name
    is_there = target.exists()
    if is_there and not force:
        raise UsageMistake(f"{target} exists; --force replaces it, or choose another name")
    tape = Tape.open(source)
    info = tape.info
    is_hidden = info.source == "hardware" if pseudonyms is None else pseudonyms
    replace_tape(target, lambda beside: _write(tape, beside, is_hidden=is_hidden))
    faults = f", with {', '.join(info.faults)}" if info.faults else ""
    under = ", under pseudonyms" if is_hidden else ""
    about = f"bench {info.bench}, source {info.source}{faults}{under}, {record.end.verdict}"
    return f"{target} {'replaced by' if is_there else 'holds'} the recording of {record.run.id}: {about}"


def _write(tape: Tape, beside: Path, *, is_hidden: bool) -> None:
    if is_hidden:
        write_pseudonymous(tape, beside)
    else:
        shutil.copytree(tape.folder, beside)


def show(name: str, tapes: Path | None) -> list[str]:
    """What is on a tape."""
    return list(summarise(tape_folder(name, tapes)))


def diff(one: str, other: str, tapes: Path | None, tolerances: Sequence[str]) -> list[Difference]:
    """How two recordings differ. Raises TapeError where one cannot be read."""
    first, second = (Tape.open(tape_folder(name, tapes)) for name in (one, other))
    return compare_tapes(first, second, tolerance_of(tolerances))


def tolerance_of(texts: Sequence[str]) -> Tolerance:
    """Read ``"5 s"`` and ``"20 %"``, each at most once. Raises UsageMistake for anything else."""
    given: dict[str, float] = {}
    for text in texts:
        try:
            quantity = parse_quantity(text)
            name, unit, scale = ("relative", "%", 0.01) if quantity.unit == "%" else ("absolute", "s", 1.0)
            value = quantity.in_unit(unit).value * scale
        except ValueError as error:
            raise UsageMistake(f"--tolerance: {error}") from None
        if value < 0 or name in given:
            raise UsageMistake(f"--tolerance {text!r}: one time and one percentage can be given, neither below zero")
        given[name] = value
    return Tolerance(**given)


def tape_folder(name: str, tapes: Path | None) -> Path:
    """The tape that is named by its folder or its bench. Raises UsageMistake where there is none."""
    path = Path(name)
    return path if (path / "tape.toml").is_file() or "/" in name else locator.find_tape(name, tapes)


def mutate(name: str, tapes: Path | None, rules: Sequence[str], most: int, say: Callable[[str], None]) -> int:
    """Try mutants of a tape; the exit status."""
    from harness.cli.mutate import mutate as try_mutants

    return try_mutants(tape_folder(name, tapes), rules, most=most, say=say, progress=complain)
