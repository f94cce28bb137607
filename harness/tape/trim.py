"""A smaller tape that says the same: without the tracks that no replay of the chosen stages touches, and without their bodies.

Within a track nothing is taken away: which of its samples a replay reads depends on when it looks, and any interval must do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.tape.format import Tape, whole, write_tape


@dataclass(frozen=True)
class Size:
    """How much a tape holds: tracks, events, and bytes of all its files."""

    tracks: int
    events: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.tracks} tracks, {self.events} events, {self.bytes / 1000:.0f} kB"


def size_of(tape: Tape) -> Size:
    """Count a tape. Raises TapeError where it is damaged."""
    files = sum(file.stat().st_size for file in tape.folder.rglob("*") if file.is_file())
    return Size(len(tape.tracks()), sum(len(tape.events(track)) for track in tape.tracks()), files)


def write_trimmed(tape: Tape, folder: Path, tracks: Collection[str], stages: Sequence[str]) -> None:
    """Write ``tracks`` of a tape, for ``stages`` alone, into a new folder. Raises TapeError where the tape is damaged."""
    kept = {track: [whole(tape, event) for event in tape.events(track)] for track in tape.tracks() if track in tracks}
    write_tape(folder, replace(tape.info, stages=tuple(stages)), kept)
