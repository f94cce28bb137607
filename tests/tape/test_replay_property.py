"""Whatever the machine does and however often a program looks, a replay measures what the recording measured."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.clock import VirtualClock
from harness.ports import HttpAnswer, HttpQuestion
from harness.tape.format import TapeInfo
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

INFO = TapeInfo("toy", "toy", "model", "2026-01-02T03:04:05+00:00", "0", lanes=("bmc",))
WRITE = HttpQuestion.act("POST", "/reset")
seconds = st.integers(0, 600_000).map(lambda thousandths: thousandths / 1000)
intervals = st.integers(50, 90_000).map(lambda thousandths: thousandths / 1000)


class Machine:
    """Each property becomes true once, so many seconds after the last write; an answer takes ``costs``."""

    def __init__(self, clock, changes, costs):
        self.clock, self.changes, self.costs, self.reset = clock, changes, costs, None

    def ask(self, question, on_line=None):
        began = self.clock.now()
        if question.effect == "act":
            self.reset, body = began, None
        else:
            body = self.reset is not None and began - self.reset >= self.changes[int(question.path[1:])]
        self.clock.sleep(self.costs)
        return HttpAnswer(200, {}, body, self.clock.now(), self.clock.now() - began)

    def close(self): ...


def wait_for_each(clock, lane, count, every, rounds):
    """Write, wait for each property in turn, in each round; the times after the write at which each was seen."""
    measured = []
    for _ in range(rounds):
        start = lane.ask(WRITE).at
        for number in range(count):
            question = HttpQuestion.observe("GET", f"/{number}")
            seen = clock.until(lambda q=question: lane.ask(q), lambda a: a.body is True, what="it", every=every, within=2000)
            measured.append(seen.at - start)
    return measured


def sleep_and_look(clock, lane, count, every, rounds):
    """The same by hand, without the clock's waiting."""
    measured = []
    for _ in range(rounds):
        start = lane.ask(WRITE).at
        for number in range(count):
            while (answer := lane.ask(HttpQuestion.observe("GET", f"/{number}"))).body is not True:
                assert clock.now() < 1e6
                clock.sleep(every)
            measured.append(answer.at - start)
    return measured


def watch_all(clock, lane, count, every, rounds, *, sleeps=False):
    """Write, then look at every property at each look, until all are true; the times at which each was first seen."""
    measured = []
    for _ in range(rounds):
        start, first = lane.ask(WRITE).at, {}

        def look(first=first):
            for number in range(count):
                answer = lane.ask(HttpQuestion.observe("GET", f"/{number}"))
                if answer.body is True:
                    first.setdefault(number, answer.at)
            return len(first)

        if sleeps:
            while look() < count:
                assert clock.now() < 1e6
                clock.sleep(every)
        else:
            clock.until(look, lambda seen, count=count: seen == count, what="all", every=every, within=2000)
        measured += [first[number] - start for number in range(count)]
    return measured


def watch_all_sleeping(clock, lane, count, every, rounds):
    """The same by hand."""
    return watch_all(clock, lane, count, every, rounds, sleeps=True)


@pytest.mark.parametrize(
    ("recorded_by", "program"),
    [(wait_for_each, wait_for_each), (wait_for_each, sleep_and_look), (watch_all, watch_all), (watch_all, watch_all_sleeping)],
)
@settings(max_examples=25, deadline=None)
@given(
    changes=st.lists(seconds, min_size=1, max_size=3),
    costs=st.sampled_from([0.0, 0.044, 1.5]),
    recorded_every=intervals,
    every=intervals,
    rounds=st.integers(1, 2),
)
def test_measured_times_do_not_depend_on_the_poll_interval(recorded_by, program, changes, costs, recorded_every, every, rounds):
    recorded_every = max(recorded_every, max(changes) / 50)
    clock = VirtualClock()
    tracks = Tracks(clock)
    recorder = Recorder(tracks, clock, Redactor())
    lane = recorder.asks("bmc", Machine(clock, changes, costs))
    recorded = recorded_by(clock, lane, len(changes), recorded_every, rounds)
    with TemporaryDirectory() as folder:
        recorder.write(Path(folder) / "tape", INFO)
        clock = VirtualClock()
        player = Player(Path(folder) / "tape", Tracks(clock), clock)
        replayed = program(clock, player.http("bmc"), len(changes), max(every, max(changes) / 50), rounds)
    assert replayed == pytest.approx(recorded, abs=0.002)
    assert player.unplayed("session/loose") == []
