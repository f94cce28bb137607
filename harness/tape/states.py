"""What a recording saw of one read as states, and how two such sequences differ. Pure.

    samples       on on on on   off off   on on on        each asked at its own time
    states        on          > off     > on              equal neighbours are one state
    change        somewhere between the last sample of one and the first of the next

Two recordings poll at different moments, so a state that was short may be seen by one and skipped by the other: it is no difference
where it moves only what progresses (a percentage, the stage of POST, an unanswered question) in the one direction, and lasted no
longer than the other one looked away. The last state must be the same: a recording that never arrived there is different.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from harness.ports import Json

PROGRESS: Mapping[str, tuple[str, ...]] = {
    "PercentComplete": (),
    "JobState": ("New", "Scheduled", "Running", "Completed"),
    "LastState": (),
    "OemLastState": (),
    "ServerStatus": (),
    "PowerState": (),
    "LCStatus": (),
    "RTStatus": (),
    "Status": (),
}
"""Members that move on while one waits, with the order of their values where it is known. Numbers only grow."""

ALONG = frozenset(
    {
        "Message",
        "MessageId",
        "MessageArgs",
        "MessageArgs@odata.count",
        "ActualRunningStartTime",
        "ActualRunningStopTime",
        "CompletionTime",
        "EndTime",
        "StartTime",
    }
)
"""Members that change along with those."""

GROWING = frozenset({"Members", "Members@odata.count"})
"""Members of a collection that gets longer while one waits, such as a log."""

FAILED = "failed"
"""The member of a state that says that no answer came, and how."""

AWAY = frozenset({"Unreachable", "Timeout"})
"""The failures that mean no more than that something is on its way up or down."""

_LONGEST = 90
"""Of a value in a difference, in characters."""


@dataclass(frozen=True)
class Tolerance:
    """How far two times may lie apart: ``absolute`` seconds and ``relative`` of the later one, whichever is more.

    Ten seconds is the interval at which the harness looks at a booting host: what is closer together is not told apart. Forty per
    cent leaves room for a long boot on a machine that is busy with something else.
    """

    absolute: float = 10.0
    relative: float = 0.4

    def allows(self, one: float, other: float) -> bool:
        """True where two times or durations in seconds count as the same."""
        return abs(one - other) <= self.margin(one, other)

    def margin(self, *times: float) -> float:
        """How far they may lie apart, in seconds."""
        return max(self.absolute, self.relative * max((abs(time) for time in times), default=0.0))


@dataclass(frozen=True)
class State:
    """What was answered at ``times``, in seconds into the epoch; ``took`` is the slowest answer's time."""

    value: Json
    times: tuple[float, ...]
    took: float = 0.0

    @property
    def mark(self) -> str:
        """Equal for equal values."""
        return json.dumps(self.value, sort_keys=True)

    @property
    def length(self) -> float:
        """How long it was seen, in seconds."""
        return self.times[-1] - self.times[0]


@dataclass(frozen=True)
class Odds:
    """One difference: where inside the value, and what either recording has."""

    what: str
    one: str
    other: str


def collapse(samples: Sequence[State]) -> tuple[State, ...]:
    """Equal consecutive samples as one state."""
    states: list[State] = []
    for sample in samples:
        if states and states[-1].mark == sample.mark:
            last = states[-1]
            states[-1] = replace(last, times=last.times + sample.times, took=max(last.took, sample.took))
        else:
            states.append(sample)
    return tuple(states)


def compare(one: Sequence[State], other: Sequence[State], tolerance: Tolerance) -> Iterator[Odds]:
    """How two sequences of states differ; nothing where they are the same for all that polling can tell."""
    one, other = _without_blips(one, other, tolerance), _without_blips(other, one, tolerance)
    matcher = difflib.SequenceMatcher(None, [state.mark for state in one], [state.mark for state in other], autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield from _times(one, i, other, j, tolerance)
        else:
            left, right = _Run(one, i1, i2), _Run(other, j1, j2)
            if not (left.may_be_missed_by(right, tolerance) and right.may_be_missed_by(left, tolerance)):
                yield from _unlike(left, right)


def differing(one: Json, other: Json, where: str = "") -> Iterator[Odds]:
    """Where two values differ, from the outside inwards; lists of texts or of unlike length by what one has and the other lacks."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            inner = f"{where}.{name}" if where else name
            if name not in one or name not in other:
                yield Odds(inner, *(shown(side[name]) if name in side else "nothing" for side in (one, other)))
            else:
                yield from differing(one[name], other[name], inner)
    elif isinstance(one, list) and isinstance(other, list):
        yield from _differing_lists(one, other, where)
    elif isinstance(one, str) and isinstance(other, str) and one != other:
        start = _first_unlike(one, other)
        yield Odds(where, shown(_from(one, start)), shown(_from(other, start)))
    elif type(one) is not type(other) or one != other:
        yield Odds(where, shown(one), shown(other))


def shown(value: Json) -> str:
    """A value, bounded."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _first_unlike(one: str, other: str) -> int:
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))


def _from(text: str, start: int) -> str:
    """A text that is too long to show, from a little before the place at which it begins to differ."""
    return text if len(text) <= _LONGEST or start < _LONGEST // 2 else f"...{text[start - _LONGEST // 4 :]}"


def _differing_lists(one: list[Json], other: list[Json], where: str) -> Iterator[Odds]:
    if len(one) == len(other) and not all(isinstance(each, str) for each in [*one, *other]):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differing(left, right, f"{where}[{index}]")
        return
    counted = [Counter(json.dumps(each, sort_keys=True) for each in side) for side in (one, other)]
    for mark in (counted[0] - counted[1]).elements():
        yield Odds(where, shown(json.loads(mark)), "nothing")
    for mark in (counted[1] - counted[0]).elements():
        yield Odds(where, "nothing", shown(json.loads(mark)))


@dataclass(frozen=True)
class _Run:
    """The states from ``start`` up to ``end``, for which the other recording has others or none."""

    states: Sequence[State]
    start: int
    end: int

    def may_be_missed_by(self, other: _Run, tolerance: Tolerance) -> bool:
        """True where the other recording may have looked away while these were on, all of them mere progress."""
        if self.start == self.end:
            return True
        if self.end == len(self.states) or other.end == len(other.states):
            return False
        around = self.states[max(self.start - 1, 0) : self.end + 1]
        away = other.longest_gap()
        return all(_is_progress(before, after) for before, after in pairwise(around)) and all(
            state.length <= away + tolerance.margin(*state.times) for state in self.states[self.start : self.end]
        )

    def news(self, index: int) -> Odds:
        """What a state has that its neighbour has not: the one before it, for the first the one behind."""
        state, when = self.states[index], f"in the state at {self.states[index].times[0]:.1f} s"
        neighbour = self.states[index - 1] if index else self.states[1] if len(self.states) > 1 else None
        odds = None if neighbour is None else next(differing(neighbour.value, state.value), None)
        return Odds(when, "", shown(state.value)) if odds is None else Odds(f"{odds.what} {when}", "", odds.other)

    def longest_gap(self) -> float:
        """The longest time without a look from the state before to the state behind, in seconds."""
        looked = [time for state in self.states[max(self.start - 1, 0) : self.end + 1] for time in state.times]
        return max((later - sooner for sooner, later in pairwise(looked if self.start else [0.0, *looked])), default=0.0)


def _unlike(one: _Run, other: _Run) -> Iterator[Odds]:
    """States that only one has; they are set against each other as far as they go."""
    for index, index2 in zip_longest(range(one.start, one.end), range(other.start, other.end)):
        if index is None:
            odds = other.news(index2)
            yield Odds(odds.what, "never seen", odds.other)
        elif index2 is None:
            odds = one.news(index)
            yield Odds(odds.what, odds.other, "never seen")
        else:
            yield from differing(one.states[index].value, other.states[index2].value)


def _times(one: Sequence[State], i: int, other: Sequence[State], j: int, tolerance: Tolerance) -> Iterator[Odds]:
    """Whether the same state began at the same time and was answered as fast."""
    (early, late), (early2, late2) = _change(one, i), _change(other, j)
    apart = max(early - late2, early2 - late, 0.0)
    if i + j > 0 and apart > tolerance.margin(late, late2):
        yield Odds(f"when it became {shown(one[i].value)}", f"{late:.1f} s", f"{late2:.1f} s")
    if not tolerance.allows(one[i].took, other[j].took):
        yield Odds("how long the answer took", f"{one[i].took:.1f} s", f"{other[j].took:.1f} s")


def _change(states: Sequence[State], index: int) -> tuple[float, float]:
    """Between which moments a state began; the first one had begun when it was first looked at."""
    first = states[index].times[0]
    return (states[index - 1].times[-1] if index else min(0.0, first)), first


def _without_blips(states: Sequence[State], other: Sequence[State], tolerance: Tolerance) -> tuple[State, ...]:
    """Without the states between equal neighbours that the other recording, looking away, may have skipped."""
    known = {state.mark for state in other}
    times = [time for state in other for time in state.times]
    away = max((later - sooner for sooner, later in pairwise(times)), default=0.0)
    kept: list[State] = []
    for index, state in enumerate(states):
        around = states[index - 1 : index + 2] if 0 < index < len(states) - 1 else ()
        is_blip = len(around) == 3 and around[0].mark == around[2].mark and _is_progress(around[0], state)
        if not (is_blip and state.mark not in known and state.length <= away + tolerance.margin(*state.times)):
            kept.append(state)
    return collapse(kept)


def _is_progress(one: State, other: State) -> bool:
    """True where ``other`` is ``one`` some time later: only what progresses has moved on, or an answer failed to come."""
    failures = [state.value[FAILED] for state in (one, other) if isinstance(state.value, dict) and FAILED in state.value]
    if failures:
        return AWAY.issuperset(failures)
    return _moved_on(one.value, other.value, "")


def _moved_on(one: Json, other: Json, member: str) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_moved_on(one[name], other[name], name) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return _list_moved_on(one, other, member)
    return (type(one) is type(other) and one == other) or _value_moved_on(one, other, member)


def _list_moved_on(one: list[Json], other: list[Json], member: str) -> bool:
    if member in ALONG:
        return True
    if member in GROWING:
        marks = [Counter(json.dumps(each, sort_keys=True) for each in side) for side in (one, other)]
        return marks[0] <= marks[1]
    return len(one) == len(other) and all(_moved_on(left, right, member) for left, right in zip(one, other, strict=True))


def _value_moved_on(one: Json, other: Json, member: str) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float) and member in PROGRESS.keys() | GROWING:
        return one <= other
    if order := PROGRESS.get(member, ()):
        return one in order and other in order and order.index(str(one)) <= order.index(str(other))
    return member in PROGRESS or member in ALONG
