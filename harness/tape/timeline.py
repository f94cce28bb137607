"""A track laid out for replay: writes are a script, reads and streams a timeline in epochs. Pure.

    events     read read | WRITE read read read | WRITE read
    epoch           0    |   1                  |   2
    offsets    from the track's start, then from the asking of the epoch's write

Which sample a read gets, at ``now`` seconds into the epoch:

    samples of its key     s0        s1        s2
    asked at               0.0       5.0       10.0
    now                    |- s0 ----|- s1 ----|- s2 ------   the latest one at or before now
    first one ahead        the clock moves to it
    a moment behind        the next one, where nothing newer than it was seen (see DRIFT)
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.tape.events import RECEIVED, CommandReply, Event, Exchange, Failure, HttpReply, Reply

Key: TypeAlias = tuple[str, str, str]
"""Lane, operation and key of a read."""

ROUNDING = 0.002
"""Times on a tape are rounded to the millisecond: so far ahead counts as now. Seconds."""

DRIFT = 0.5
"""How long a program may take between two questions without waiting, in seconds.

A live program needs time to think (to parse a body, to write a record); in a replay it needs none. A read that comes a moment
before its recorded time must not get an answer older than what was already seen: it gets the next one.
"""


@dataclass(frozen=True)
class Sample:
    """One recorded answer of a read; ``asked`` and ``end`` are seconds into its epoch."""

    asked: float
    end: float
    event: Exchange


@dataclass(frozen=True)
class Emission:
    """Bytes that a stream gave; ``at`` is seconds into its epoch, below zero for what had come before its write."""

    epoch: int
    at: float
    data: bytes
    failure: Failure | None = None


@dataclass(frozen=True)
class Epoch:
    """From one write to the next: the samples of each key, in the order they were taken."""

    samples: dict[Key, list[Sample]] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """A whole track. ``epochs`` has one more entry than ``writes``: before the first one there is epoch 0."""

    writes: tuple[Event, ...]
    epochs: tuple[Epoch, ...]
    emissions: dict[str, tuple[Emission, ...]]

    @property
    def reads(self) -> int:
        """How many answers of reads were recorded."""
        return sum(len(samples) for epoch in self.epochs for samples in epoch.samples.values())

    def known(self) -> frozenset[Key]:
        """Every key that was ever read."""
        return frozenset(key for epoch in self.epochs for key in epoch.samples)

    def first(self, key: Key) -> Exchange:
        """The first recorded answer of a key that was read at all."""
        return next(epoch.samples[key][0].event for epoch in self.epochs if key in epoch.samples)

    def before(self, epoch: int, key: Key) -> Sample | None:
        """The last answer of the nearest epoch before ``epoch`` that has one; a failure only where there is no answer."""
        last: Sample | None = None
        for earlier in reversed(self.epochs[:epoch]):
            for sample in reversed(earlier.samples.get(key, [])):
                if not isinstance(sample.event.reply, Failure):
                    return sample
                last = last or sample
        return last

    def after(self, epoch: int, key: Key) -> int | None:
        """The first epoch after ``epoch`` that knows ``key``."""
        return next((later for later in range(epoch + 1, len(self.epochs)) if key in self.epochs[later].samples), None)


def lay_out(events: Iterable[Event]) -> Timeline:
    """Sort a track's events into writes, samples and emissions."""
    writes: list[Event] = []
    epochs = [Epoch()]
    emissions: dict[str, list[Emission]] = {}
    start = 0.0
    for event in events:
        if event.is_write:
            writes.append(event)
            epochs.append(Epoch())
            start = event.t
        elif isinstance(event, Exchange):
            asked = event.t - start
            sample = Sample(asked, asked + event.took, event)
            epochs[-1].samples.setdefault((event.lane, event.op, event.key), []).append(sample)
        elif event.op == RECEIVED and (event.data or event.failure is not None):
            emissions.setdefault(event.lane, []).append(Emission(len(writes), event.t - start, event.data, event.failure))
    return Timeline(tuple(writes), tuple(epochs), {lane: tuple(found) for lane, found in emissions.items()})


def choose(samples: Sequence[Sample], now: float, seen: float) -> int:
    """Which of ``samples`` (at least one) a read gets that comes ``now`` seconds into the epoch.

    ``seen`` is when the newest sample of any key that was given in this epoch was asked; minus infinity for none.
    """
    latest = bisect.bisect_right(samples, now + ROUNDING, key=lambda sample: sample.asked) - 1
    following = latest + 1
    if latest < 0:
        return 0
    if following < len(samples) and samples[latest].asked <= seen and samples[following].asked <= now + DRIFT:
        return following
    return latest


def dated(samples: Sequence[Sample], chosen: int, given: int) -> int:
    """Whose time the answer ``chosen`` bears when ``given`` is the last one that was given (-1 for none).

    A read that skips samples learns late what the recording knew earlier: the answer bears the time of the first skipped
    sample since which it has been the same. So a coarse poll measures what a fine one measured.
    """
    while chosen > given + 1 and _same(samples[chosen - 1].event.reply, samples[chosen].event.reply):
        chosen -= 1
    return chosen


def _same(one: Reply, other: Reply) -> bool:
    match one, other:
        case HttpReply(), HttpReply():
            return (one.status, one.body) == (other.status, other.body)
        case CommandReply(), CommandReply():
            return (one.status, one.stdout, one.stderr) == (other.status, other.stdout, other.stderr)
        case _:
            return one == other
