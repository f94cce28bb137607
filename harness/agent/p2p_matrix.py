"""All ordered pairs, one after the other in what may run at once, and what became of each.

    baseline ─ steps ─ again alone ─ both ways

    baseline     without peer access, one pair at a time: through the host they share uplinks even below one switch
    steps        what the schedule lets run at once; every step enables its peers, and gives them back
    again alone  whatever looks low, high, staged or corrupt, with nothing else running: the figure that counts
    both ways    a pair at a time in both directions: full duplex gives twice the rate of one

When a copy hangs or fails in a step of several, the child is killed and every pair of the step tried again alone, so that only the
pair in question is blamed.
"""

import statistics
from typing import Any, Dict, Iterable, Iterator, List, Sequence

from .p2p_contexts import GPU, arrange, choose, estimate
from .p2p_crew import TOO_MANY_PEERS, Crew
from .p2p_machine import Machine, why
from .p2p_odd import is_short, kind_of, odd_copies
from .p2p_schedule import Copy, Step, schedule, schedule_both, serial

Line = Dict[str, Any]


class Matrix:
    """What is known of each pair so far."""

    def __init__(self, machine: Machine, crew: Crew, given: Any) -> None:
        self._machine = machine
        self._crew = crew
        self._given = given
        self._staged: Dict[Copy, Line] = {}
        self._pairs: Dict[Copy, Line] = {}
        self._both: Dict[Copy, float] = {}
        self._life = given.contexts
        self._estimates: Dict[str, float] = {}

    def measure(self) -> Iterator[Line]:
        """Copy all pairs, telling how far it is; Xids and wedged copies are told as they come."""
        able = [copy for copy in self._copies() if copy in self._machine.can]
        steps = serial(able) if self._given.serial else schedule(self._machine.uplinks, able, self._machine.redirected)
        yield {"kind": "schedule", "steps": len(steps), "of": len(able)}
        for line in self._baseline(able):
            yield line
        self._settle_contexts(steps)
        for part in (self._stepwise(arrange(self._life, steps), len(able)), self._again(), self._both_ways(able)):
            for line in part:
                yield line
                for xid in self._crew.news():
                    yield xid

    def pairs(self) -> Iterator[Line]:
        """One line for each ordered pair."""
        for copy in self._copies():
            line: Line = {"kind": "pair", "from": copy[0], "to": copy[1], "can": copy in self._machine.can}
            line["link"] = "nvlink" if copy in self._machine.nvlink else "pcie"
            found = dict(self._pairs.get(copy, {}), **self._staged.get(copy, {}))
            if copy not in self._pairs and line["can"]:
                dead = self._machine.dead
                found["untried"] = next((dead[gpu] for gpu in copy if gpu in dead), "it was not reached")
            found["both"] = self._both.get((min(copy), max(copy)))
            line.update({name: value for name, value in found.items() if value is not None})
            yield line

    def contexts(self) -> Iterator[Line]:
        """What the contexts cost, how long they lived, and what the choice was made from."""
        opened = self._crew.opened
        yield dict(
            {"kind": "contexts", "count": len(opened), "seconds": round(sum(opened), 3), "life": self._life},
            estimates={life: round(seconds, 3) for life, seconds in self._estimates.items()},
        )

    def _copies(self) -> List[Copy]:
        gpus = sorted(self._machine.gpus)
        return [(source, target) for source in gpus for target in gpus if source != target]

    def _settle_contexts(self, steps: Sequence[Step]) -> None:
        """Both costs are of this machine: a context's from the probe, a copy's from the baseline."""
        rates = [line["disabled"] for line in self._staged.values() if line.get("disabled")]
        opened = self._crew.opened
        if rates and opened:
            copy = 2 * self._given.size * self._given.loops / 1e9 / statistics.median(rates)
            self._estimates = estimate(steps, statistics.median(opened), copy)
        if self._life == "auto":
            self._life = choose(self._estimates) if self._estimates else GPU

    def _baseline(self, copies: Sequence[Copy]) -> Iterator[Line]:
        """Every copy without peer access. A fifth of the repeats: it is only compared with."""
        loops = max(2, self._given.loops // 5)
        for done, copy in enumerate(copies, 1):
            for line in self._without(copy, loops, compare=False):
                yield line
            if done % len(self._machine.gpus) == 0 or done == len(copies):
                yield _progress("baseline", done, len(copies))

    def _without(self, copy: Copy, loops: int, *, compare: bool) -> Iterator[Line]:
        if not self._able([copy]):
            return
        said = self._crew.ask_alone(do="staged", copies=[copy], loops=loops, compare=compare)
        if said["say"] == "done":
            self._staged[copy] = _bare(said["pairs"][0])
            return
        for line in self._blame(copy, said):
            yield line

    def _stepwise(self, steps: Sequence[Step], total: int) -> Iterator[Line]:
        """All steps; what a step of several could not do is done alone at once."""
        done = 0
        for step in steps:
            if self._life != GPU:
                self._crew.renew()
            able = self._able(step)
            if len(able) < 2 or not self._together(able):
                for copy in able:
                    for line in self._alone(copy):
                        yield line
            done += len(step)
            yield _progress("pairs", done, total)

    def _together(self, copies: Sequence[Copy]) -> bool:
        said = self._crew.ask(do="pairs", copies=copies, loops=self._given.loops)
        if said["say"] == "done":
            self._take(said)
        return bool(said["say"] == "done")

    def _alone(self, copy: Copy) -> Iterator[Line]:
        """One pair while nothing else runs: what goes wrong now is its own."""
        if not self._able([copy]):
            return
        said = self._crew.ask_alone(do="pairs", copies=[copy], loops=self._given.loops)
        if said["say"] == "done":
            self._take(said)
            return
        for line in self._blame(copy, said):
            yield line

    def _blame(self, copy: Copy, said: Line) -> Iterator[Line]:
        """A copy hung or failed by itself: note why, and which GPUs are not touched again. An Xid tells which of the two it is."""
        for line in self._crew.news():
            yield line
        dead = self._machine.dead
        fallen = [xid["index"] for xid in self._crew.xids if xid.get("index") in copy]
        for gpu in fallen:
            dead.setdefault(gpu, "GPU {} fell off the bus".format(gpu))
        if said["say"] == "stuck":
            self._note(copy, {"untried": "the copy did not end in {:g} s and was killed".format(self._given.patience)})
            wedged = {"kind": "wedged", "from": copy[0], "to": copy[1], "seconds": self._given.patience}
            wedged["reaped"] = self._crew.reaped
            if fallen:
                wedged["culprit"] = fallen[0]
            else:
                dead.update((gpu, "GPU {} hung".format(gpu)) for gpu in copy if gpu not in dead)
            yield wedged
            return
        self._note(copy, {"error": said.get("error", "unknown"), "error_code": said.get("error_code", 0)})
        if said["say"] == "shut" and said["error_code"] != TOO_MANY_PEERS:
            dead.setdefault(said["gpu"], "CUDA can no longer open GPU {}: {}".format(said["gpu"], why(said)))

    def _note(self, copy: Copy, trouble: Line) -> None:
        """What was measured before stays."""
        if "enabled" not in self._pairs.get(copy, {}):
            self._pairs[copy] = trouble

    def _again(self) -> Iterator[Line]:
        """Measure alone, with and without peer access, whatever looks wrong."""
        odd = [copy for copy in self._odd() if self._able([copy])]
        for done, copy in enumerate(odd, 1):
            first = self._pairs.pop(copy)
            staged = self._staged.pop(copy, {})
            for part in (self._without(copy, self._given.loops, compare=bool(first["bad"])), self._alone(copy)):
                for line in part:
                    yield line
            second, through_host = self._pairs.get(copy, {}), self._staged.get(copy, {})
            self._pairs[copy], self._staged[copy] = first, staged
            if "enabled" not in second:
                first.update(second)
                continue
            first["alone"] = {"enabled": second["enabled"], "bad": second["bad"]}
            if "disabled" in through_host:
                first["alone"]["disabled"] = through_host["disabled"]
            if "wrong" in first and "disabled_bad" in through_host:
                first["wrong"]["disabled_bad"] = through_host["disabled_bad"]
            yield _progress("again alone", done, len(odd))

    def _odd(self) -> List[Copy]:
        """What looks wrong by itself, and whatever has company that a control shows to have lowered it."""
        machine = self._machine
        figures = {copy: dict(line, **self._staged.get(copy, {})) for copy, line in self._pairs.items()}
        odd = odd_copies(figures, machine.uplinks, machine.best, machine.nvlink)
        known = set(odd)
        controls: Dict[Any, Copy] = {}
        for copy, line in figures.items():
            if line.get("enabled") and copy not in known and self._able([copy]):
                controls.setdefault(kind_of(copy, machine.uplinks, machine.nvlink), copy)
        lowered = {kind for kind, copy in controls.items() if self._is_lowered(copy)}
        mates = [copy for copy in figures if copy not in known and kind_of(copy, machine.uplinks, machine.nvlink) in lowered]
        return odd + [copy for copy in mates if "enabled" in figures[copy]]

    def _is_lowered(self, copy: Copy) -> bool:
        """Is a copy faster alone by more than a tenth? Then the topology is not what the schedule took it for."""
        said = self._crew.ask_alone(do="crowd", copies=[copy], way="write", loops=self._given.loops)
        rate = said["pairs"][0].get("rate") if said["say"] == "done" else None
        return rate is not None and bool(0.9 * rate > self._pairs[copy]["enabled"])

    def _both_ways(self, able: Sequence[Copy]) -> Iterator[Line]:
        """Each pair in both directions at once; one that is clearly less than twice as fast as in one is made again alone."""
        wanted = [(a, b) for a, b in able if a < b and (b, a) in self._machine.can]
        machine = self._machine
        steps = serial(wanted) if self._given.serial else schedule_both(machine.uplinks, wanted, machine.redirected)
        done = 0
        for step in steps:
            pairs = self._able(step)
            if len(pairs) < 2 or not self._take_both(self._crew.ask(do="both", copies=pairs, loops=self._given.loops)):
                for pair in pairs:
                    for line in self._both_alone(pair):
                        yield line
            done += len(step)
            yield _progress("both ways", done, len(wanted))
        for pair in [pair for pair, rate in sorted(self._both.items()) if is_short(pair, rate, self._pairs)]:
            for line in self._both_alone(pair):
                yield line

    def _both_alone(self, pair: Copy) -> Iterator[Line]:
        if not self._able([pair]):
            return
        said = self._crew.ask_alone(do="both", copies=[pair], loops=self._given.loops)
        if not self._take_both(said):
            for line in self._blame(pair, said):
                yield line

    def _take_both(self, said: Line) -> bool:
        for line in said["pairs"] if said["say"] == "done" else ():
            if line.get("rate") is not None:
                self._both[line["from"], line["to"]] = line["rate"]
        return bool(said["say"] == "done")

    def _able(self, copies: Iterable[Copy]) -> List[Copy]:
        return [copy for copy in copies if not any(gpu in self._machine.dead for gpu in copy)]

    def _take(self, said: Line) -> None:
        for line in said["pairs"]:
            self._pairs[line["from"], line["to"]] = _bare(line)


def _bare(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in ("from", "to")}


def _progress(stage: str, done: int, of: int) -> Line:
    return {"kind": "progress", "stage": stage, "done": done, "of": of}
