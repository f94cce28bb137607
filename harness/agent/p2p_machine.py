"""What is known of the machine before the first copy, and which of its GPUs are not touched any more.

list ─ watch ─ preflight ─┬─ refused         a translating IOMMU, without force
                          └─ probe           contexts and peers; GPUs on which CUDA can make none are found here
"""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .p2p_crew import TOO_MANY_PEERS, Crew
from .p2p_preflight import bridges_above, iommu_of, redirects_of, refusal, switches_above
from .p2p_schedule import Copy
from .tree import Tree
from .trouble import Trouble

_PEERS = 8


class Machine:
    """The GPUs by CUDA's index, what the driver allows, the switches above them. ``dead`` says why one is left alone."""

    def __init__(self, crew: Crew, root: str) -> None:
        self._crew = crew
        self._tree = Tree(root)
        self.gpus: Dict[int, Dict[str, Any]] = {}
        self.can: Set[Copy] = set()
        self.nvlink: Set[Copy] = set()
        self.uplinks: Dict[int, Optional[Tuple[str, ...]]] = {}
        self.redirected: Set[int] = set()
        self.best: Dict[int, Tuple[int, int]] = {}
        self.dead: Dict[int, str] = {}
        self.refused = ""
        self._processes: Sequence[Dict[str, Any]] = ()

    def list(self) -> Dict[str, Any]:
        """Find the GPUs and begin to watch them; versions of driver and CUDA. Raises Trouble where CUDA lists none."""
        listed = self._crew.ask(do="list")
        if listed["say"] != "done":
            raise Trouble("CUDA driver", "it does not list its GPUs: {}".format(why(listed)), "see the kernel log, then reboot")
        self.gpus = {gpu["index"]: gpu for gpu in listed["gpus"]}
        self.can = {(source, target) for source, target in listed["can"]}
        self.nvlink = {(source, target) for source, target in listed["nvlink"]}
        begin = self._crew.begin_watch({index: gpu["address"] for index, gpu in self.gpus.items()})
        self.best = {index: (generation, width) for index, generation, width in begin.get("best", [])}
        self._processes = begin.get("processes", [])
        return {"driver": begin.get("driver", ""), "cuda": listed["cuda"]}

    def preflight(self, *, force: bool) -> Iterator[Dict[str, Any]]:
        """Lines for GPUs, holders of peers and redirecting ports; ``refused`` is set where nothing may be copied."""
        iommu = {index: iommu_of(self._tree, gpu["address"]) for index, gpu in self.gpus.items()}
        self.refused = "" if force else refusal(iommu)
        ports = {index: bridges_above(self._tree, gpu["address"]) for index, gpu in self.gpus.items()}
        self.uplinks = {index: switches_above(above) for index, above in ports.items()}
        peers = {} if self.refused else self._probe()
        for index, gpu in sorted(self.gpus.items()):
            line = {"kind": "gpu", "index": index, "address": gpu["address"], "uuid": gpu["uuid"], "iommu": iommu[index]}
            line["group"] = (self.uplinks[index] or ("",))[0]
            if index in peers:
                line["peers"], line["stopped"] = peers[index]
            if index in self.dead:
                line["error"] = self.dead[index]
            yield line
        wanted = min(_PEERS, len(self.gpus) - 1)
        for process in self._processes:
            if peers.get(process["index"], (wanted, 0))[0] < wanted:
                yield {"kind": "holder", "index": process["index"], "pid": process["pid"], "name": process["name"] or "a process"}
        for line in self._redirects(ports):
            yield line

    def alive(self, gpus: Sequence[int]) -> List[int]:
        """Those that may still be touched."""
        return [gpu for gpu in gpus if gpu not in self.dead]

    def _redirects(self, ports: Dict[int, Optional[List[str]]]) -> Iterator[Dict[str, Any]]:
        for port in sorted({port for above in ports.values() for port in above or ()}):
            redirects = redirects_of(self._tree, port)
            if redirects:
                behind = sorted(index for index, above in ports.items() if port in (above or ()))
                self.redirected.update(behind)
                yield {"kind": "acs", "address": port, "redirects": redirects, "gpus": behind}

    def _probe(self) -> Dict[int, Tuple[int, int]]:
        """How many peers each GPU may have. GPUs on which CUDA can make no context are found here, and left out from then on."""
        while True:
            alive = self.alive(sorted(self.gpus))
            said = self._crew.ask(do="probe", gpus=alive, most=_PEERS)
            if said["say"] == "done":
                return {index: (count, code) for index, count, code in said["peers"]}
            if said["say"] == "stuck":
                raise Trouble("CUDA driver", "it hangs while contexts are made", "see the kernel log, then reboot the host")
            if said["say"] != "shut" or said["error_code"] == TOO_MANY_PEERS:
                # without a probe the copies themselves tell
                return {}
            self.dead[said["gpu"]] = "CUDA cannot open GPU {}: {}".format(said["gpu"], why(said))


def why(said: Dict[str, Any]) -> str:
    """What the child gave as the reason."""
    return "{} ({})".format(said["error"], said["error_code"]) if "error" in said else str(said.get("why", "it hangs"))
