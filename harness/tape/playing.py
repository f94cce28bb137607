"""Where the replay of one track stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.tape.timeline import Epoch, Key, Sample, Timeline, choose, dated

_NEVER = float("-inf")


@dataclass(frozen=True)
class TrackCoverage:
    """How much of a track was played: answers of reads given at least once, and writes, each of how many."""

    reads_played: int
    reads: int
    writes_played: int
    writes: int


@dataclass(frozen=True)
class Coverage:
    """How much of a tape was played: the tracks that were touched, and the names of those that were not."""

    tracks: Mapping[str, TrackCoverage]
    untouched: tuple[str, ...]


@dataclass
class Playing:
    """Where the replay of one track stands. ``start`` is the track's time at which the current epoch began."""

    timeline: Timeline
    epoch: int = 0
    start: float = 0.0
    seen: float = _NEVER
    given: dict[Key, int] = field(default_factory=dict)
    emitted: dict[str, int] = field(default_factory=dict)
    played: set[int] = field(default_factory=set)

    @property
    def current(self) -> Epoch:
        """The epoch that is on."""
        return self.timeline.epochs[self.epoch]

    def begin_epoch(self, start: float) -> None:
        """A write was played; ``start`` is the track's time at which it was asked."""
        self.epoch += 1
        self.start = start
        self.seen = _NEVER
        self.given = {}

    def following(self, key: Key) -> Sample | None:
        """The sample after the one that was given last in this epoch."""
        given, samples = self.given.get(key), self.current.samples.get(key, [])
        return samples[given + 1] if given is not None and given + 1 < len(samples) else None

    def choose(self, key: Key, moment: float) -> Sample:
        """The sample that a read gets ``moment`` seconds into the epoch, which must know ``key``: the one whose time it bears."""
        samples = self.current.samples[key]
        chosen, given = choose(samples, moment, self.seen), self.given.get(key, -1)
        self.seen = max(self.seen, samples[chosen].asked)
        self.given[key] = max(chosen, given)
        self.played.add(id(samples[chosen]))
        return samples[dated(samples, chosen, given)]

    def coverage(self) -> TrackCoverage:
        """How much was played so far."""
        return TrackCoverage(len(self.played), self.timeline.reads, self.epoch, len(self.timeline.writes))
