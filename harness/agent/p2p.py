"""Copies between all ordered pairs of GPUs: right to the last byte, straight, at speed, and when many copy at once.

    list ─ watch ─ preflight ─┬─ refused                              a translating IOMMU, without --force
                              └─ probe ─ baseline ─ steps ─ again alone ─ crowd ─ pairs, links, xids

    baseline     without peer access, one pair at a time: through the host they share uplinks even below one switch
    steps        what the schedule lets run at once; every step enables its peers, and gives them back
    again alone  whatever looks low, high, staged or corrupt, with nothing else running: the figure that counts
    crowd        several GPUs across one uplink at once, writing, then reading

One child holds all contexts, because making one takes a good part of a second; its cost is printed as ``contexts``. When a copy
hangs or fails in a step of several, the child is killed and every pair of the step tried again alone, so that only the pair in
question is blamed. GPUs that hung or were lost are not touched again.
"""

import argparse
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .p2p_child import end_orderly
from .p2p_crew import TOO_MANY_PEERS, Crew
from .p2p_load import Load
from .p2p_odd import odd_copies
from .p2p_preflight import bridges_above, iommu_of, redirects_of, refusal, switches_above
from .p2p_schedule import Copy, schedule, serial
from .tree import Tree
from .trouble import Trouble

SCHEMA = 1
_PEERS = 8
_CROWD = 4


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The worker's entry."""
    parser = argparse.ArgumentParser(prog="agent p2p")
    parser.add_argument("--loops", type=int, default=25, help="timed copies of each pair and direction")
    parser.add_argument("--size", type=int, default=256 << 20, help="bytes of the largest copy")
    parser.add_argument("--force", action="store_true", help="copy although an IOMMU translates")
    parser.add_argument("--serial", action="store_true", help="one pair at a time, whatever the topology")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds after which a copy counts as hung")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--root", default="/", help="where /sys is")
    given = parser.parse_args(arguments)
    if given.loops < 1 or given.size < 4 or given.size % 4 or given.patience <= 0:
        raise Trouble("p2p", "--loops, --size (a multiple of 4) and --patience must be positive")
    end_orderly()
    crew = Crew(Load(given.seed, given.size, given.patience), given.patience)
    try:
        for line in Campaign(given, crew).lines():
            yield line
    finally:
        crew.end()


class Campaign:
    """One run of the worker: the machine as it is known so far, and what became of each copy."""

    def __init__(self, given: Any, crew: Crew) -> None:
        self._given = given
        self._crew = crew
        self._gpus: Dict[int, Dict[str, Any]] = {}
        self._can: List[Copy] = []
        self._nvlink: List[Copy] = []
        self._uplinks: Dict[int, Optional[Tuple[str, ...]]] = {}
        self._best: Dict[int, Tuple[int, int]] = {}
        self._staged: Dict[Copy, Dict[str, Any]] = {}
        self._pairs: Dict[Copy, Dict[str, Any]] = {}
        self._dead: Dict[int, str] = {}

    def lines(self) -> Iterator[Dict[str, Any]]:
        """Everything that is printed."""
        listed = self._list()
        begin = self._crew.begin_watch({index: gpu["address"] for index, gpu in self._gpus.items()})
        self._best = {index: (generation, width) for index, generation, width in begin.get("best", [])}
        yield {
            "kind": "hello",
            "worker": "p2p",
            "schema": SCHEMA,
            "seed": self._given.seed,
            "size": self._given.size,
            "loops": self._given.loops,
            "driver": begin.get("driver", ""),
            "cuda": listed["cuda"],
        }
        tree = Tree(self._given.root)
        iommu = {index: iommu_of(tree, gpu["address"]) for index, gpu in self._gpus.items()}
        why = refusal(iommu)
        refused = bool(why) and not self._given.force
        for line in self._preflight(tree, iommu, begin.get("processes", []), refused=refused):
            yield line
        if refused:
            yield {"kind": "refused", "why": why, "gpus": sorted(self._gpus)}
            return
        for line in self._measured():
            yield line

    # what is known before the first copy

    def _list(self) -> Dict[str, Any]:
        listed = self._crew.ask(do="list")
        if listed["say"] != "done":
            raise Trouble("CUDA driver", "it does not list its GPUs: {}".format(_why(listed)), "see the kernel log, then reboot")
        self._gpus = {gpu["index"]: gpu for gpu in listed["gpus"]}
        self._can = [(source, target) for source, target in listed["can"]]
        self._nvlink = [(source, target) for source, target in listed["nvlink"]]
        return listed

    def _preflight(
        self, tree: Tree, iommu: Dict[int, str], processes: Sequence[Dict[str, Any]], *, refused: bool
    ) -> Iterator[Dict[str, Any]]:
        ports = {index: bridges_above(tree, gpu["address"]) for index, gpu in self._gpus.items()}
        self._uplinks = {index: switches_above(above) for index, above in ports.items()}
        peers = {} if refused else self._probe()
        for index, gpu in sorted(self._gpus.items()):
            line = {"kind": "gpu", "index": index, "address": gpu["address"], "uuid": gpu["uuid"], "iommu": iommu[index]}
            line["group"] = (self._uplinks[index] or ("",))[0]
            if index in peers:
                line["peers"], line["stopped"] = peers[index]
            if index in self._dead:
                line["error"] = self._dead[index]
            yield line
        wanted = min(_PEERS, len(self._gpus) - 1)
        for process in processes:
            if peers.get(process["index"], (wanted, 0))[0] < wanted:
                yield {"kind": "holder", "index": process["index"], "pid": process["pid"], "name": process["name"] or "a process"}
        for port in sorted({port for above in ports.values() for port in above or ()}):
            redirects = redirects_of(tree, port)
            if redirects:
                behind = sorted(index for index, above in ports.items() if port in (above or ()))
                yield {"kind": "acs", "address": port, "redirects": redirects, "gpus": behind}

    def _probe(self) -> Dict[int, Tuple[int, int]]:
        """How many peers each GPU may have. GPUs on which CUDA can make no context are found here, and left out from then on."""
        while True:
            alive = [index for index in sorted(self._gpus) if index not in self._dead]
            said = self._crew.ask(do="probe", gpus=alive, most=_PEERS)
            if said["say"] == "done":
                return {index: (count, code) for index, count, code in said["peers"]}
            if said["say"] == "stuck":
                raise Trouble("CUDA driver", "it hangs while contexts are made", "see the kernel log, then reboot the host")
            if said["say"] != "shut" or said["error_code"] == TOO_MANY_PEERS:
                # without a probe the copies themselves tell
                return {}
            self._dead[said["gpu"]] = "CUDA cannot open GPU {}: {}".format(said["gpu"], _why(said))

    # the copies

    def _measured(self) -> Iterator[Dict[str, Any]]:
        able = [copy for copy in self._copies() if copy in set(self._can)]
        steps = serial(able) if self._given.serial else schedule(self._uplinks, able)
        yield {"kind": "schedule", "steps": len(steps), "of": len(able)}
        for part in (self._baseline(able), self._stepwise(steps, len(able)), self._again()):
            for line in part:
                yield line
        crowds = list(self._crowds())
        for copy in self._copies():
            yield self._pair(copy)
        for line in (*self._crew.end_watch(), *crowds):
            yield line
        opened = self._crew.opened
        yield {"kind": "contexts", "count": len(opened), "seconds": round(sum(opened.values()), 3)}

    def _copies(self) -> List[Copy]:
        return [(source, target) for source in sorted(self._gpus) for target in sorted(self._gpus) if source != target]

    def _baseline(self, copies: Sequence[Copy]) -> Iterator[Dict[str, Any]]:
        """Every copy without peer access. A fifth of the repeats: it is only compared with."""
        loops = max(2, self._given.loops // 5)
        for done, copy in enumerate(copies, 1):
            for line in self._without(copy, loops, compare=False):
                yield line
            if done % len(self._gpus) == 0 or done == len(copies):
                yield _progress("baseline", done, len(copies))

    def _without(self, copy: Copy, loops: int, *, compare: bool) -> Iterator[Dict[str, Any]]:
        if not self._able([copy]):
            return
        said = self._crew.ask_alone(do="staged", copies=[copy], loops=loops, compare=compare)
        if said["say"] == "done":
            self._staged[copy] = _bare(said["pairs"][0])
            return
        for line in self._blame(copy, said):
            yield line

    def _stepwise(self, steps: Sequence[Sequence[Copy]], total: int) -> Iterator[Dict[str, Any]]:
        """All steps; what a step of several could not do is done alone at once."""
        done = 0
        for step in steps:
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

    def _alone(self, copy: Copy) -> Iterator[Dict[str, Any]]:
        """One pair while nothing else runs: what goes wrong now is its own."""
        if not self._able([copy]):
            return
        said = self._crew.ask_alone(do="pairs", copies=[copy], loops=self._given.loops)
        if said["say"] == "done":
            self._take(said)
            return
        for line in self._blame(copy, said):
            yield line

    def _blame(self, copy: Copy, said: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """A copy hung or failed by itself: note why, and which GPUs are not touched again. An Xid tells which of the two it is."""
        for line in self._crew.news():
            yield line
        fallen = [xid["index"] for xid in self._crew.xids if xid.get("index") in copy]
        for gpu in fallen:
            self._dead.setdefault(gpu, "GPU {} fell off the bus".format(gpu))
        if said["say"] == "stuck":
            self._pairs[copy] = {"untried": "the copy did not end in {:g} s and was killed".format(self._given.patience)}
            wedged = {"kind": "wedged", "from": copy[0], "to": copy[1], "seconds": self._given.patience}
            wedged["reaped"] = self._crew.reaped
            if fallen:
                wedged["culprit"] = fallen[0]
            else:
                self._dead.update((gpu, "GPU {} hung".format(gpu)) for gpu in copy if gpu not in self._dead)
            yield wedged
            return
        self._pairs[copy] = {"error": said.get("error", "unknown"), "error_code": said.get("error_code", 0)}
        if said["say"] == "shut" and said["error_code"] != TOO_MANY_PEERS:
            self._dead.setdefault(said["gpu"], "CUDA can no longer open GPU {}: {}".format(said["gpu"], _why(said)))

    def _again(self) -> Iterator[Dict[str, Any]]:
        """Measure alone, with and without peer access, whatever looks wrong."""
        figures = {copy: dict(line, **self._staged.get(copy, {})) for copy, line in self._pairs.items()}
        odd = [copy for copy in odd_copies(figures, self._uplinks, self._best, set(self._nvlink)) if self._able([copy])]
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

    def _crowds(self) -> Iterator[Dict[str, Any]]:
        """For each switch: up to four of its GPUs to and from GPUs below other switches, one pair alone, then all at once."""
        groups: Dict[str, List[int]] = {}
        for gpu, above in sorted(self._uplinks.items()):
            if above is not None and gpu not in self._dead:
                groups.setdefault(above[0], []).append(gpu)
        for group, own in groups.items():
            partners = _partners([others for name, others in groups.items() if name != group], len(own[:_CROWD]))
            outward = [(own[place], partner) for place, partner in enumerate(partners)]
            outward = [copy for copy in outward if copy in self._can and (copy[1], copy[0]) in self._can]
            inward = [(partner, gpu) for gpu, partner in outward]
            line: Dict[str, Any] = {"kind": "contention", "group": group, "gpus": [gpu for gpu, _ in outward] or own[:_CROWD]}
            if len(outward) < 2:
                yield dict(line, untried="it takes two GPUs below each of two switches")
                continue
            line["partners"] = [partner for _, partner in outward]
            for way, copies in (("write", outward), ("read", inward)):
                line[way + "_alone"] = self._crowd(copies[:1], way)
                line[way + "_together"] = self._crowd(copies, way)
            yield {name: value for name, value in line.items() if value is not None}

    def _crowd(self, copies: Sequence[Copy], way: str) -> Optional[float]:
        """GB/s of all the copies together; None where one of them did not run."""
        said = self._crew.ask(do="crowd", copies=copies, way=way, loops=self._given.loops)
        rates = [line.get("rate") for line in said["pairs"]] if said["say"] == "done" else []
        known = [rate for rate in rates if rate is not None]
        return round(sum(known), 3) if len(known) == len(copies) else None

    # what came of it

    def _pair(self, copy: Copy) -> Dict[str, Any]:
        line: Dict[str, Any] = {"kind": "pair", "from": copy[0], "to": copy[1], "can": copy in self._can}
        line["link"] = "nvlink" if copy in self._nvlink else "pcie"
        found = dict(self._pairs.get(copy, {}), **self._staged.get(copy, {}))
        if copy not in self._pairs and line["can"]:
            found["untried"] = next((self._dead[gpu] for gpu in copy if gpu in self._dead), "it was not reached")
        line.update({name: value for name, value in found.items() if value is not None})
        return line

    def _able(self, copies: Iterable[Copy]) -> List[Copy]:
        return [copy for copy in copies if not any(gpu in self._dead for gpu in copy)]

    def _take(self, said: Dict[str, Any]) -> None:
        for line in said["pairs"]:
            self._pairs[line["from"], line["to"]] = _bare(line)


def _bare(line: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("from", "to")}


def _why(said: Dict[str, Any]) -> str:
    return "{} ({})".format(said["error"], said["error_code"]) if "error" in said else str(said.get("why", "it hangs"))


def _progress(stage: str, done: int, of: int) -> Dict[str, Any]:
    return {"kind": "progress", "stage": stage, "done": done, "of": of}


def _partners(others: Sequence[Sequence[int]], wanted: int) -> List[int]:
    """GPUs below other switches, from each in turn: writes that leave for several root ports are what collapses."""
    found: List[int] = []
    for place in range(max([len(group) for group in others] or [0])):
        found += [group[place] for group in others if place < len(group)]
    return found[:wanted]
