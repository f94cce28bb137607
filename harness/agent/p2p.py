"""Copies between all ordered pairs of GPUs: right to the last byte, straight, at speed, and when many copy at once.

    list ─ watch ─ preflight ─┬─ refused                              a translating IOMMU, without --force
                              └─ probe ─ steps ─ baseline ─ again alone ─ crowd ─ pairs, links, xids

    steps        what the schedule lets run at once; every step enables its peers, and gives them back
    baseline     without peer access, one pair at a time: through the host they share uplinks even below one switch
    again alone  whatever looks low, high, staged or corrupt, with nothing else running: the figure that counts
    crowd        several GPUs across one uplink at once, writing, then reading

One child holds all contexts, because making one takes a good part of a second; its cost is printed as ``contexts``. When a copy
hangs or fails in a step of several, the child is killed and every pair of the step tried again alone, so that only the pair in
question is blamed. GPUs that hung or were lost are not touched again.
"""

import argparse
import statistics
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .p2p_child import Child, Silent, end_orderly
from .p2p_load import Load
from .p2p_preflight import bridges_above, iommu_of, redirects_of, refusal, switches_above
from .p2p_schedule import Copy, schedule, serial
from .p2p_watch import Watch
from .tree import Tree
from .trouble import Trouble

SCHEMA = 1
TOO_MANY_PEERS = 711
_PEERS = 8
_CROWD = 4
_LOW, _STAGED_RATIO, _STAGED_LATENCY = 0.9, 1.05, 9.0
_LANE = {1: 2.5 * 0.8, 2: 5.0 * 0.8, 3: 8.0 * 128 / 130, 4: 16.0 * 128 / 130, 5: 32.0 * 128 / 130}
"""Gbit/s of one lane by generation, after line coding (PCI Express Base Specification)."""
_OWN_MARGIN = 15.0


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
    campaign = Campaign(given)
    try:
        for line in campaign.lines():
            yield line
    finally:
        campaign.end()


class Campaign:
    """One run of the worker: what is known so far, and the two children."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self._tree = Tree(given.root)
        self._load = Child(Load(given.seed, given.size, given.patience).serve)
        self._watch: Optional[Child] = None
        self._gpus: Dict[int, Dict[str, Any]] = {}
        self._can: List[Copy] = []
        self._nvlink: List[Copy] = []
        self._uplinks: Dict[int, Optional[Tuple[str, ...]]] = {}
        self._best: Dict[int, Tuple[int, int]] = {}
        self._pairs: Dict[Copy, Dict[str, Any]] = {}
        self._dead: Dict[int, str] = {}
        self._links: Dict[int, List[Tuple[int, int]]] = {}
        self._opened: Dict[int, float] = {}
        self._xids: List[Dict[str, Any]] = []

    def end(self) -> None:
        """Leave no process behind."""
        self._load.end()
        if self._watch is not None:
            self._watch.end()

    def lines(self) -> Iterator[Dict[str, Any]]:
        """Everything that is printed."""
        listed = self._ask({"do": "list"})
        self._gpus = {gpu["index"]: gpu for gpu in listed["gpus"]}
        self._can, self._nvlink = [_copy(one) for one in listed["can"]], [_copy(one) for one in listed["nvlink"]]
        begin = self._begin_watch()
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
        iommu = {index: iommu_of(self._tree, gpu["address"]) for index, gpu in self._gpus.items()}
        why = refusal(iommu)
        refused = bool(why) and not self._given.force
        for line in self._preflight(iommu, begin, refused=refused):
            yield line
        if refused:
            yield {"kind": "refused", "why": why, "gpus": sorted(self._gpus)}
            return
        for line in self._measured():
            yield line

    # what is known before the first copy

    def _begin_watch(self) -> Dict[str, Any]:
        """What NVML says at the start; nothing where there is no NVML, and then there are no links and no Xids either."""
        watch = Child(Watch({index: gpu["address"] for index, gpu in self._gpus.items()}).serve)
        watch.start()
        try:
            begin = watch.next(self._given.patience)
        except (Silent, Trouble):
            watch.end()
            return {}
        self._watch = watch
        self._best = {index: (generation, width) for index, generation, width in begin["best"]}
        return begin

    def _preflight(self, iommu: Dict[int, str], begin: Dict[str, Any], *, refused: bool) -> Iterator[Dict[str, Any]]:
        ports = {index: bridges_above(self._tree, gpu["address"]) for index, gpu in self._gpus.items()}
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
        for line in self._holders(begin.get("processes", []), peers):
            yield line
        for port in sorted({port for above in ports.values() for port in above or ()}):
            redirects = redirects_of(self._tree, port)
            if redirects:
                behind = sorted(index for index, above in ports.items() if port in (above or ()))
                yield {"kind": "acs", "address": port, "redirects": redirects, "gpus": behind}

    def _probe(self) -> Dict[int, Tuple[int, int]]:
        """How many peers each GPU may have. GPUs on which CUDA can make no context are found here, and left out from then on."""
        while True:
            alive = [index for index in self._gpus if index not in self._dead]
            try:
                said = self._ask({"do": "probe", "gpus": alive, "most": _PEERS})
            except Silent as silent:
                raise Trouble("p2p", "the driver hangs while contexts are made: {}".format(silent), "reboot the host") from None
            if said["say"] == "done":
                return {index: (count, code) for index, count, code in said["peers"]}
            if said["say"] != "shut" or said["error_code"] == TOO_MANY_PEERS:
                # without a probe the copies themselves tell
                return {}
            self._dead[said["gpu"]] = "CUDA cannot open it: {} ({})".format(said["error"], said["error_code"])

    def _holders(self, processes: Sequence[Dict[str, Any]], peers: Dict[int, Tuple[int, int]]) -> Iterator[Dict[str, Any]]:
        """Processes on the GPUs that may have fewer peers than they should."""
        wanted = min(_PEERS, len(self._gpus) - 1)
        for process in processes:
            if peers.get(process["index"], (wanted, 0))[0] < wanted:
                yield {"kind": "holder", "index": process["index"], "pid": process["pid"], "name": process["name"] or "a process"}

    # the copies

    def _measured(self) -> Iterator[Dict[str, Any]]:
        able = [copy for copy in self._copies() if copy in set(self._can)]
        steps = serial(able) if self._given.serial else schedule(self._uplinks, able)
        yield {"kind": "schedule", "steps": len(steps), "of": len(able)}
        for stage, work in (("pairs", self._stepwise(steps)), ("baseline", self._baseline(able))):
            for done, line in work:
                if line is not None:
                    yield line
                else:
                    yield {"kind": "progress", "stage": stage, "done": done, "of": len(able)}
        for line in self._again():
            yield line
        crowds = list(self._crowds())
        for copy in self._copies():
            yield self._pair(copy)
        for line in (*self._watched(), *crowds):
            yield line
        yield {"kind": "contexts", "count": len(self._opened), "seconds": round(sum(self._opened.values()), 3)}

    def _copies(self) -> List[Copy]:
        return [(source, target) for source in sorted(self._gpus) for target in sorted(self._gpus) if source != target]

    def _stepwise(self, steps: Sequence[Sequence[Copy]]) -> Iterator[Tuple[int, Optional[Dict[str, Any]]]]:
        """All steps; what a step of several could not do is done alone at once."""
        done = 0
        for step in steps:
            able = self._able(step)
            for copies in [able] if self._try({"do": "pairs", "loops": self._given.loops}, able) else serial(able):
                if copies is not able or len(copies) == 1:
                    for line in self._alone(copies[0]):
                        yield done, line
            done += len(step)
            yield done, None

    def _try(self, command: Dict[str, Any], copies: Sequence[Copy]) -> bool:
        """Do one command with several copies. False where it went wrong and each has to be tried alone."""
        if not copies:
            return True
        if len(copies) == 1 and command["do"] == "pairs":
            return True
        try:
            said = self._ask(dict(command, copies=copies))
        except Silent:
            self._load.end()
            return False
        if said["say"] != "done":
            self._load.end()
            return False
        self._take(said)
        return True

    def _alone(self, copy: Copy) -> Iterator[Dict[str, Any]]:
        """One pair while nothing else runs: what goes wrong now is its own."""
        if not self._able([copy]) or self._pairs.get(copy):
            return
        for attempt in (1, 2):
            try:
                said = self._ask({"do": "pairs", "copies": [copy], "loops": self._given.loops})
            except Silent:
                said = {"say": "stuck"}
            if said["say"] == "done":
                self._take(said)
                return
            # a process that holds many contexts may have run out of something: once more in a new one
            reaped = self._load.end()
            if said["say"] == "shut" and said["error_code"] == TOO_MANY_PEERS and attempt == 1:
                continue
            break
        for line in self._blame(copy, said, reaped=reaped):
            yield line

    def _blame(self, copy: Copy, said: Dict[str, Any], *, reaped: bool) -> Iterator[Dict[str, Any]]:
        for line in self._news():
            yield line
        fallen = [xid["index"] for xid in self._xids if xid["index"] in copy]
        if said["say"] == "stuck":
            culprit = fallen[0] if fallen else None
            why = "the copy did not end in {:g} s and was killed".format(self._given.patience)
            self._pairs[copy] = {"untried": why}
            for gpu in copy if culprit is None else (culprit,):
                self._dead.setdefault(gpu, "GPU {} {}".format(gpu, "hung" if culprit is None else "fell off the bus"))
            wedged = {"kind": "wedged", "from": copy[0], "to": copy[1], "seconds": self._given.patience, "reaped": reaped}
            yield wedged if culprit is None else dict(wedged, culprit=culprit)
            return
        self._pairs[copy] = {"error": said["error"], "error_code": said["error_code"]}
        if said["say"] == "shut" and said["error_code"] != TOO_MANY_PEERS:
            self._dead.setdefault(said["gpu"], "CUDA can no longer open GPU {}".format(said["gpu"]))
        for gpu in fallen:
            self._dead.setdefault(gpu, "GPU {} fell off the bus".format(gpu))

    def _baseline(self, copies: Iterable[Copy]) -> Iterator[Tuple[int, Optional[Dict[str, Any]]]]:
        """Every copy without peer access. A fifth of the repeats: it is only compared with, and cannot share an uplink."""
        loops = max(2, self._given.loops // 5)
        for done, copy in enumerate(copies, 1):
            if self._able([copy]) and "enabled" in self._pairs.get(copy, {}):
                found = self._without(copy, loops, compare=False)
                if "disabled" in found:
                    self._pairs[copy]["disabled"] = found["disabled"]
            if done % len(self._gpus) == 0:
                yield done, None

    def _without(self, copy: Copy, loops: int, *, compare: bool) -> Dict[str, Any]:
        try:
            said = self._ask({"do": "staged", "copies": [copy], "loops": loops, "compare": compare})
        except Silent:
            said = {"say": "stuck"}
        if said["say"] != "done":
            self._load.end()
            return {}
        found: Dict[str, Any] = said["pairs"][0]
        return found

    def _again(self) -> Iterator[Dict[str, Any]]:
        """Measure alone, with and without peer access, whatever looks wrong."""
        odd = [copy for copy in self._odd() if self._able([copy])]
        for done, copy in enumerate(odd, 1):
            first = self._pairs.pop(copy)
            for line in self._alone(copy):
                yield line
            second = self._pairs.get(copy, {})
            staged = self._without(copy, self._given.loops, compare=bool(first["bad"])) if "enabled" in second else {}
            self._pairs[copy] = first
            if "enabled" in second:
                first["alone"] = {"enabled": second["enabled"], "bad": second["bad"]}
                if "disabled" in staged:
                    first["alone"]["disabled"] = staged["disabled"]
            else:
                first.update(second)
            if "wrong" in first and "disabled_bad" in staged:
                first["wrong"]["disabled_bad"] = staged["disabled_bad"]
            yield {"kind": "progress", "stage": "again alone", "done": done, "of": len(odd)}

    def _odd(self) -> List[Copy]:
        """The copies that look corrupt, low among their like, faster than their link, or staged."""
        rates: Dict[Tuple[bool, bool], List[float]] = {}
        for copy, line in self._pairs.items():
            if line.get("enabled"):
                rates.setdefault(self._kind(copy), []).append(line["enabled"])
        middle = {kind: statistics.median(found) for kind, found in rates.items()}
        odd = []
        for copy, line in sorted(self._pairs.items()):
            rate, staged = line.get("enabled"), line.get("disabled")
            if rate is None:
                continue
            low = min(rate, line.get("pulled") or rate) < _LOW * middle[self._kind(copy)]
            detour = staged is not None and rate <= _STAGED_RATIO * staged and line["write_us"] >= _STAGED_LATENCY
            if line["bad"] or low or detour or (copy not in self._nvlink and rate > self._ceiling(copy)):
                odd.append(copy)
        return odd

    def _kind(self, copy: Copy) -> Tuple[bool, bool]:
        one, other = (self._uplinks[gpu] for gpu in copy)
        return copy in self._nvlink, one is not None and other is not None and one[0] == other[0]

    def _ceiling(self, copy: Copy) -> float:
        """GB/s that the slower of the two links can carry at best; unlimited where NVML does not tell."""
        best = [self._best[gpu] for gpu in copy if gpu in self._best and self._best[gpu][0] in _LANE]
        return min((_LANE[generation] * width / 8 for generation, width in best), default=float("inf"))

    def _crowds(self) -> Iterator[Dict[str, Any]]:
        """For each switch: up to four of its GPUs to and from GPUs below other switches, one pair alone, then all at once."""
        groups: Dict[str, List[int]] = {}
        for gpu, above in sorted(self._uplinks.items()):
            if above is not None and gpu not in self._dead:
                groups.setdefault(above[0], []).append(gpu)
        for group, own in groups.items():
            line: Dict[str, Any] = {"kind": "contention", "group": group, "gpus": own[:_CROWD]}
            partners = _partners([others for name, others in groups.items() if name != group], len(own[:_CROWD]))
            if len(own) < 2 or len(partners) < 2:
                yield dict(line, untried="it takes two GPUs below each of two switches")
                continue
            outward = [copy for copy in zip(own, partners) if copy in self._can and (copy[1], copy[0]) in self._can]
            inward = [(partner, gpu) for gpu, partner in outward]
            line.update(gpus=[gpu for gpu, _ in outward], partners=[partner for _, partner in outward])
            for way, copies in (("write", outward), ("read", inward)):
                line[way + "_alone"] = self._crowd(copies[:1], way)
                line[way + "_together"] = self._crowd(copies, way)
            yield {name: value for name, value in line.items() if value is not None}

    def _crowd(self, copies: Sequence[Copy], way: str) -> Optional[float]:
        """GB/s of all the copies together; None where one of them did not run."""
        if not copies or self._able(copies) != list(copies):
            return None
        try:
            said = self._ask({"do": "crowd", "copies": copies, "way": way, "loops": self._given.loops})
        except Silent:
            said = {"say": "stuck"}
        if said["say"] != "done":
            self._load.end()
            return None
        self._take_links(said)
        rates = [line.get("rate") for line in said["pairs"]]
        return None if None in rates else round(sum(rates), 3)

    # what came of it

    def _pair(self, copy: Copy) -> Dict[str, Any]:
        line: Dict[str, Any] = {"kind": "pair", "from": copy[0], "to": copy[1], "can": copy in self._can}
        line["link"] = "nvlink" if copy in self._nvlink else "pcie"
        found = self._pairs.get(copy)
        if found is None and line["can"]:
            dead = next((self._dead[gpu] for gpu in copy if gpu in self._dead), "it was not reached")
            found = {"untried": dead}
        line.update({name: value for name, value in (found or {}).items() if value is not None})
        return line

    def _watched(self) -> Iterator[Dict[str, Any]]:
        """The links under load with their replays, and the last Xids."""
        for line in self._news():
            yield line
        replays, seconds = self._end_watch()
        for gpu, readings in sorted(self._links.items()):
            line = {
                "kind": "link",
                "index": gpu,
                "generation": min(generation for generation, _ in readings),
                "width": min(width for _, width in readings),
                "samples": len(readings),
                "seconds": seconds,
            }
            yield dict(line, replays=replays[gpu]) if gpu in replays else line

    def _end_watch(self) -> Tuple[Dict[int, int], float]:
        if self._watch is None:
            return {}, 0.0
        try:
            self._watch.send(do="end")
            while True:
                said = self._watch.next(_OWN_MARGIN)
                if said["say"] == "end":
                    return {index: count for index, count in said["replays"]}, said["seconds"]
        except (Silent, Trouble):
            return {}, 0.0

    def _news(self) -> Iterator[Dict[str, Any]]:
        """The Xids that came since the last look."""
        for said in self._watch.waiting() if self._watch is not None else ():
            if said["say"] == "xid":
                line = {"kind": "xid", "address": said["address"], "xid": said["xid"]}
                if said["index"] is not None:
                    line["index"] = said["index"]
                self._xids.append(dict(line, index=said["index"]))
                yield line

    def _able(self, copies: Iterable[Copy]) -> List[Copy]:
        return [copy for copy in copies if not any(gpu in self._dead for gpu in copy)]

    def _ask(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """What the loading child says at the end of a command. Raises Silent, Trouble."""
        if not self._load.lives:
            self._load.start()
        self._load.send(**command)
        while True:
            said = self._load.next(self._given.patience + _OWN_MARGIN)
            if said["say"] == "opened":
                self._opened.setdefault(said["gpu"], said["seconds"])
            elif said["say"] != "alive":
                if said["say"] != "done":
                    self._load.end()
                return said

    def _take(self, said: Dict[str, Any]) -> None:
        for line in said["pairs"]:
            copy = (line.pop("from"), line.pop("to"))
            self._pairs[copy] = line
        self._take_links(said)

    def _take_links(self, said: Dict[str, Any]) -> None:
        for gpu, generation, width in said["links"]:
            self._links.setdefault(gpu, []).append((generation, width))


def _partners(others: Sequence[Sequence[int]], wanted: int) -> List[int]:
    """GPUs below other switches, from each in turn: writes that leave for several root ports are what collapses."""
    found: List[int] = []
    for place in range(max(map(len, others), default=0)):
        found += [group[place] for group in others if place < len(group)]
    return found[:wanted]


def _copy(pair: Sequence[int]) -> Copy:
    return pair[0], pair[1]
