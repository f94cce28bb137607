"""Many copies at once on purpose: what single pairs never show.

    crowd    up to four GPUs of a switch to GPUs below other switches: one pair alone, then all at once, writing, then reading
    shift k  every GPU to the k-th next, all at once: for each switch the rate of what leaves it, writing, then reading

Posted writes of several GPUs can block each other in a switch or root port while every pair, and every read, is healthy
(voipmonitor/rtx6kpro: 37 to 2.7 GB/s). The shifts together are a picture of the fabric.
"""

from typing import Any, Dict, Iterator, List, Optional, Sequence

from .p2p_crew import Crew
from .p2p_machine import Machine
from .p2p_schedule import Copy

_CROWD = 4
_WAYS = ("write", "read")

Line = Dict[str, Any]


class Crowds:
    """``lines`` holds what was found, after ``progress`` has run."""

    def __init__(self, machine: Machine, crew: Crew, loops: int) -> None:
        self._machine = machine
        self._crew = crew
        self._loops = loops
        self.lines: List[Line] = []

    def progress(self) -> Iterator[Line]:
        """Do it all, telling how far it is."""
        groups = self._groups()
        self.lines += self._crowds(groups)
        shifts = range(1, len(self._machine.gpus)) if len(groups) > 1 else ()
        for by in shifts:
            self.lines += self._shifted(by, groups)
            yield {"kind": "progress", "stage": "shifts", "done": by, "of": len(shifts)}

    def _groups(self) -> Dict[str, List[int]]:
        """The GPUs below each switch; those of which nobody knows are left out."""
        groups: Dict[str, List[int]] = {}
        for gpu, above in sorted(self._machine.uplinks.items()):
            if above is not None and gpu not in self._machine.dead:
                groups.setdefault(above[0], []).append(gpu)
        return groups

    def _crowds(self, groups: Dict[str, List[int]]) -> Iterator[Line]:
        can = self._machine.can
        for group, own in groups.items():
            partners = _partners([others for name, others in groups.items() if name != group], len(own[:_CROWD]))
            outward = [(own[place], partner) for place, partner in enumerate(partners)]
            outward = [copy for copy in outward if copy in can and (copy[1], copy[0]) in can]
            inward = [(partner, gpu) for gpu, partner in outward]
            line: Line = {"kind": "contention", "group": group, "gpus": [gpu for gpu, _ in outward] or own[:_CROWD]}
            if len(outward) < 2:
                yield dict(line, untried="it takes two GPUs below each of two switches")
                continue
            line["partners"] = [partner for _, partner in outward]
            for way, copies in (("write", outward), ("read", inward)):
                line[way + "_alone"] = self._sum(copies[:1], copies[:1], way, self._loops)
                line[way + "_together"] = self._sum(copies, copies, way, self._loops)
            yield {name: value for name, value in line.items() if value is not None}

    def _shifted(self, by: int, groups: Dict[str, List[int]]) -> Iterator[Line]:
        """A fifth of the repeats: there are as many shifts as GPUs. The GPUs of a group drive its copies, writing or reading."""
        loops = max(2, self._loops // 5)
        gpus = [gpu for own in groups.values() for gpu in own]
        pairs = [(gpu, gpus[(place + by) % len(gpus)]) for place, gpu in enumerate(gpus)]
        can = self._machine.can
        pairs = [(gpu, other) for gpu, other in pairs if gpu != other and (gpu, other) in can and (other, gpu) in can]
        rates: Dict[str, Optional[Dict[Copy, float]]] = {
            "write": self._rates(pairs, "write", loops),
            "read": self._rates([(other, gpu) for gpu, other in pairs], "read", loops),
        }
        for group, own in groups.items():
            leaving = [(gpu, other) for gpu, other in pairs if gpu in own and other not in own]
            line: Line = {"kind": "shift", "by": by, "group": group, "copies": len(leaving)}
            for way in _WAYS:
                found = rates[way]
                if found is not None:
                    line[way] = round(sum(found[pair if way == "write" else (pair[1], pair[0])] for pair in leaving), 3)
            if leaving:
                yield line

    def _sum(self, copies: Sequence[Copy], counted: Sequence[Copy], way: str, loops: int) -> Optional[float]:
        """GB/s of the counted ones of all the copies together; None where one of them did not run."""
        rates = self._rates(copies, way, loops)
        return None if rates is None else round(sum(rates[copy] for copy in counted), 3)

    def _rates(self, copies: Sequence[Copy], way: str, loops: int) -> Optional[Dict[Copy, float]]:
        if not copies:
            return {}
        said = self._crew.ask(do="crowd", copies=copies, way=way, loops=loops)
        lines = said["pairs"] if said["say"] == "done" else []
        known = {(line["from"], line["to"]): float(line["rate"]) for line in lines if line.get("rate") is not None}
        return known if len(known) == len(copies) else None


def _partners(others: Sequence[Sequence[int]], wanted: int) -> List[int]:
    """GPUs below other switches, from each in turn: writes that leave for several root ports are what collapses."""
    found: List[int] = []
    for place in range(max([len(group) for group in others] or [0])):
        found += [group[place] for group in others if place < len(group)]
    return found[:wanted]
