"""``bringup tape``: which tape is meant, what the scan says of it, and how two of them differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness import locator
from harness.cli.streams import complain
from harness.errors import UsageMistake
from harness.tape.diff import Difference, Tolerance, compare_tapes
from harness.tape.format import Tape
from harness.tape.scan import check_tape, summarise
from harness.units import parse_quantity


def check(names: Sequence[str], tapes: Path | None) -> tuple[list[str], bool]:
    """One line a finding and one a tape, and whether all were clean."""
    folders = [_folder(name, tapes) for name in names] or list(locator.tape_folders(tapes))
    if not folders:
        raise UsageMistake("no tape found; record one with `bringup run --bench NAME --record`")
    lines: list[str] = []
    for folder in folders:
        findings = check_tape(folder)
        lines += [f"{folder}: {finding}" for finding in findings]
        if not findings:
            lines.append(f"{folder}: clean")
    return lines, not any(not line.endswith(": clean") for line in lines)


def show(name: str, tapes: Path | None) -> list[str]:
    """What is on a tape."""
    return list(summarise(_folder(name, tapes)))


def diff(one: str, other: str, tapes: Path | None, tolerances: Sequence[str]) -> list[Difference]:
    """How two recordings differ. Raises TapeError where one cannot be read."""
    first, second = (Tape.open(_folder(name, tapes)) for name in (one, other))
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


def _folder(name: str, tapes: Path | None) -> Path:
    path = Path(name)
    return path if (path / "tape.toml").is_file() or "/" in name else locator.find_tape(name, tapes)


def mutate(name: str, tapes: Path | None, rules: Sequence[str], most: int, say: Callable[[str], None]) -> int:
    """Try mutants of a tape; the exit status."""
    from harness.cli.mutate import mutate as try_mutants

    return try_mutants(_folder(name, tapes), rules, most=most, say=say, progress=complain)
