"""``bringup tape``: which tape is meant, and what the scan says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import locator
from harness.errors import UsageMistake
from harness.tape.scan import check_tape, summarise


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


def _folder(name: str, tapes: Path | None) -> Path:
    path = Path(name)
    return path if (path / "tape.toml").is_file() or "/" in name else locator.find_tape(name, tapes)
