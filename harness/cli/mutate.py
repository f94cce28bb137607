"""``bringup tape mutate``: change one recorded answer at a time, replay, and list the changes that no check noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BringupError, TapeError, UsageMistake
from harness.plugin.mutations import RULES
from harness.record.lines import FILE_NAME
from harness.record.reader import read_record
from harness.tape.format import Tape
from harness.tape.mutants import Mutant, Rule, find_mutants, write_mutant

Say = Callable[[str], None]
_SECONDS = 300
"""Of wall time that one replay may take; it takes two."""


@dataclass(frozen=True)
class Tried:
    """A mutant and the first check that noticed it, empty where none did. ``is_loud``: the replay itself refused to go on."""

    mutant: Mutant
    noticed_by: str
    is_loud: bool = False

    @property
    def is_hole(self) -> bool:
        """Nothing noticed it, and there is no excuse."""
        return not self.noticed_by and not self.mutant.rule.excuse

    def __str__(self) -> str:
        if self.noticed_by:
            return f"noticed by {self.noticed_by}: {self.mutant}"
        return f"excused: {self.mutant} ({self.mutant.rule.excuse})" if self.mutant.rule.excuse else f"NOT NOTICED: {self.mutant}"


def mutate(folder: Path, names: Sequence[str], *, most: int, say: Say, progress: Say) -> int:
    """Try the mutants of a tape and say what became of each. 0 where every one was noticed or is excused, else 1.

    Raises UsageMistake for an unknown rule, TapeError where the tape cannot be read or does not pass as it is.
    """
    tape = Tape.open(folder)
    mutants, idle = find_mutants(tape, _named(names), most=most)
    with tempfile.TemporaryDirectory(prefix="bringup-mutants-") as held:
        work = Path(held)
        _insist_that_it_passes(tape, work)
        tried = _try_all(tape, mutants, work, progress)
    for each in tried:
        say(str(each))
    holes = [each for each in tried if each.is_hole]
    noticed = sum(bool(each.noticed_by) for each in tried)
    fits = f"; nothing on this tape fits {', '.join(rule.name for rule in idle)}" if idle else ""
    say(f"{len(tried)} mutants: {noticed} noticed, {len(tried) - noticed - len(holes)} excused, {len(holes)} not noticed{fits}")
    return 1 if holes else 0


def _named(names: Sequence[str]) -> Sequence[Rule]:
    known = {rule.name: rule for rule in RULES}
    if unknown := [name for name in names if name not in known]:
        raise UsageMistake(f"no rule {unknown[0]!r}; the rules are {', '.join(known)}")
    return [known[name] for name in names] or RULES


def _insist_that_it_passes(tape: Tape, work: Path) -> None:
    """A tape that fails as it is would notice everything."""
    status, failed = _replay(tape.info.bench, tape.folder, work / "original")
    if status:
        raise TapeError(
            f"{tape.folder}: does not pass as it is ({failed or f'exit status {status}'}), so nothing can be learned of mutants"
        )


def _try_all(tape: Tape, mutants: Sequence[Mutant], work: Path, progress: Say) -> list[Tried]:
    def attempt(numbered: tuple[int, Mutant]) -> Tried:
        number, mutant = numbered
        place = work / str(number)
        write_mutant(tape, mutant, place / tape.info.bench)
        status, failed = _replay(tape.info.bench, place / tape.info.bench, place)
        progress(f"mutant {number} of {len(mutants)}: {mutant.rule.name}")
        return Tried(mutant, failed or (f"exit status {status}" if status else ""), is_loud=status == 4)

    with ThreadPoolExecutor(os.cpu_count() or 1) as crew:
        return list(crew.map(attempt, enumerate(mutants, 1)))


def _replay(bench: str, tape: Path, place: Path) -> tuple[int, str]:
    """Exit status of a whole replay, and the first check that failed."""
    reports = place / "reports"
    words = ["run", "--bench", bench, "--replay", "--tapes", str(tape.parent), "--report", str(reports)]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "harness", *words], capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
    )
    for record in sorted(reports.glob(f"*/{FILE_NAME}")):
        try:
            failed = [case.id for case in read_record(record).cases if case.has_failed]
        except BringupError:
            continue
        return done.returncode, failed[0] if failed else ""
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]
