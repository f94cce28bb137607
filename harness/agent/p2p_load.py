"""The child that copies: it lists the GPUs, probes how many peers they may have, and does one step of copies after the other.

    list     gpus, cuda, can, nvlink                               no context is made
    probe    by GPU: how many peers at once, and the error that ended it
    pairs    one step: enable ─ compare ─ time ─ latency ─ disable (always)
    staged   the same copies without peer access
    both     both ways of each pair at once
    crowd    several copies at once, one way, their rates alone known from before
    loop     each GPU to itself: no link, no peer, only its own memory

Peer access is enabled for the copies of one step only: at most two peers a GPU of the eight that it may have.
"""

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from .clock import now
from .cuda_driver import TOO_MANY_PEERS, Cuda, CudaFailure
from .nvml_library import Nvml, Refused
from .p2p_copies import LATENCY_BYTES, LATENCY_COPIES, READ, WRITE, Copies, Copy, Shut, Stuck, sizes_up_to
from .p2p_pattern import Seeds
from .trouble import Trouble

_UNSUPPORTED = 217
_EVERY = 0.05

Say = Callable[..., None]


class Links:
    """The link of each GPU while it copies: of every wait the last reading that was taken with the copy still under way."""

    def __init__(self, nvml: Optional[Nvml], addresses: Dict[int, str]) -> None:
        self._nvml = nvml
        self._addresses = addresses
        self._handles: Dict[int, Any] = {}
        self._next = 0.0
        self.latest: Dict[int, Tuple[int, int]] = {}

    def watch(self, copies: Sequence[Copy]) -> Callable[[], None]:
        """Read the links of the copies' GPUs; what is returned keeps the reading."""
        if self._nvml is None or (now() < self._next and all(gpu in self.latest for copy in copies for gpu in copy)):
            return lambda: None
        self._next = now() + _EVERY
        found = {gpu: self._read(gpu) for gpu in {gpu for copy in copies for gpu in copy}}
        return lambda: self.latest.update((gpu, reading) for gpu, reading in found.items() if reading is not None)

    def _read(self, gpu: int) -> Optional[Tuple[int, int]]:
        nvml = self._nvml
        if nvml is None:
            return None
        try:
            if gpu not in self._handles:
                self._handles[gpu] = nvml.call("DeviceGetHandleByPciBusId", self._addresses[gpu].encode())
            handle = self._handles[gpu]
            return int(nvml.call("DeviceGetCurrPcieLinkGeneration", handle)), int(nvml.call("DeviceGetCurrPcieLinkWidth", handle))
        except Refused:
            return None


class Load:
    """What the child does, command by command."""

    def __init__(self, seed: int, size: int, patience: float) -> None:
        self._seed = seed
        self._size = size
        self._patience = patience

    def serve(self, commands: Iterable[Dict[str, Any]], say: Say) -> None:
        """Do commands until there are none, or until one goes wrong: then this process is of no use any more."""
        cuda = Cuda().open()
        gpus = cuda.gpus()
        addresses = {index: gpu["address"] for index, gpu in gpus.items()}
        try:
            nvml: Optional[Nvml] = Nvml().__enter__()
        except Trouble:
            nvml = None
        links = Links(nvml, addresses)
        seeds = Seeds(self._seed, {index: gpu["uuid"] for index, gpu in gpus.items()})
        copies = Copies(cuda, seeds, self._size, self._patience, links.watch)
        for command in commands:
            links.latest.clear()
            try:
                found = self._do(command, cuda, copies, say)
            except Stuck as stuck:
                say("stuck", copies=stuck.copies)
                return
            except Shut as shut:
                say("shut", gpu=shut.gpu, error=shut.failure.name, error_code=shut.failure.code)
                return
            except CudaFailure as failure:
                say("failed", error=failure.name, error_code=failure.code, call=failure.call)
                return
            say("done", links=sorted((gpu, *reading) for gpu, reading in links.latest.items()), **found)

    def _do(self, command: Dict[str, Any], cuda: Cuda, copies: Copies, say: Say) -> Dict[str, Any]:
        if command["do"] == "list":
            return _list(cuda)
        if command["do"] == "probe":
            _open(copies, command["gpus"], say)
            return {"peers": [(gpu, *_probe(copies, gpu, command["gpus"], command["most"])) for gpu in command["gpus"]]}
        wanted = [(source, target) for source, target in command["copies"]]
        _open(copies, sorted({gpu for copy in wanted for gpu in copy}), say)
        if command["do"] == "loop":
            return {"pairs": self._looped(copies, wanted, command["loops"])}
        if command["do"] == "staged":
            return {"pairs": self._without(copies, wanted, command["loops"], compare=command["compare"])}
        return {"pairs": self._among_peers(command, copies, wanted, say)}

    def _among_peers(self, command: Dict[str, Any], copies: Copies, wanted: List[Copy], say: Say) -> List[Dict[str, Any]]:
        """Enable, copy, give back."""
        with_peers = Peers(copies)
        try:
            wanted, refused = with_peers.enable(wanted)
            if command["do"] == "both":
                return refused + self._both(copies, wanted, command["loops"])
            if command["do"] == "crowd":
                return refused + self._crowd(copies, wanted, command["way"], command["loops"])
            return refused + self._with(copies, wanted, command["loops"], say)
        except Stuck:
            # the driver may wait for the copy here too; the end of this process gives everything back
            with_peers.abandon()
            raise
        finally:
            with_peers.give_back()

    def _with(self, copies: Copies, wanted: Sequence[Copy], loops: int, say: Say) -> List[Dict[str, Any]]:
        found: Dict[Copy, Dict[str, Any]] = {copy: {"checked": 0, "bad": 0} for copy in wanted}
        for way in (WRITE, READ):
            self._compared(copies, wanted, way, found, say)
        for way, rate, latency in ((WRITE, "enabled", "write_us"), (READ, "pulled", "read_us")):
            for copy, seconds in copies.time(wanted, way, self._size, loops).items():
                found[copy][rate] = _rate(self._size * loops, seconds)
            for copy, seconds in copies.time(wanted, way, LATENCY_BYTES, LATENCY_COPIES).items():
                found[copy][latency] = round(seconds / LATENCY_COPIES * 1e6, 3)
            say("alive")
        return [_named(copy, line) for copy, line in found.items()]

    def _compared(
        self, copies: Copies, wanted: Sequence[Copy], way: str, found: Dict[Copy, Dict[str, Any]], say: Optional[Say] = None
    ) -> None:
        """Copy and compare every size, and add up what was wrong."""
        for size in sizes_up_to(self._size):
            for copy, verdict in copies.verify(wanted, way, size).items():
                line = found[copy]
                line["checked"] += size
                line["bad"] += verdict["bad"]
                # the largest find explains best
                if verdict["bad"] and verdict["wrong"]["size"] > line.get("wrong", {"size": 0})["size"]:
                    line["wrong"] = verdict["wrong"]
            if say is not None:
                say("alive")

    def _looped(self, copies: Copies, wanted: Sequence[Copy], loops: int) -> List[Dict[str, Any]]:
        found: Dict[Copy, Dict[str, Any]] = {copy: {"checked": 0, "bad": 0} for copy in wanted}
        self._compared(copies, wanted, WRITE, found)
        for copy, seconds in copies.time(wanted, WRITE, self._size, loops).items():
            found[copy]["rate"] = _rate(self._size * loops, seconds)
        return [_named(copy, line) for copy, line in found.items()]

    def _both(self, copies: Copies, wanted: Sequence[Copy], loops: int) -> List[Dict[str, Any]]:
        """The bytes of both ways over the time until the later of them is done: both begin behind one gate."""
        ways = [way for source, target in wanted for way in ((source, target), (target, source))]
        seconds = copies.time(ways, WRITE, self._size, loops) if ways else {}
        later = {copy: max(seconds[copy], seconds[copy[1], copy[0]]) for copy in wanted}
        return [_named(copy, {"rate": _rate(2 * self._size * loops, later[copy])}) for copy in wanted]

    def _without(self, copies: Copies, wanted: Sequence[Copy], loops: int, *, compare: bool) -> List[Dict[str, Any]]:
        found: Dict[Copy, Dict[str, Any]] = {copy: {} for copy in wanted}
        if compare:
            for copy, verdict in copies.verify(wanted, WRITE, self._size).items():
                found[copy]["disabled_bad"] = verdict["bad"]
        for copy, seconds in copies.time(wanted, WRITE, self._size, loops, gated=False).items():
            found[copy]["disabled"] = _rate(self._size * loops, seconds)
        return [_named(copy, line) for copy, line in found.items()]

    def _crowd(self, copies: Copies, wanted: Sequence[Copy], way: str, loops: int) -> List[Dict[str, Any]]:
        timed = copies.time(wanted, way, self._size, loops) if wanted else {}
        return [_named(copy, {"rate": _rate(self._size * loops, seconds)}) for copy, seconds in timed.items()]


class Peers:
    """The peers that one step holds, to be given back whatever happens."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._held: List[Copy] = []

    def enable(self, wanted: Sequence[Copy]) -> Tuple[List[Copy], List[Dict[str, Any]]]:
        """Both ways for each copy: a push needs one, a pull the other. The copies that may go on, and lines for the others."""
        able, refused = [], []
        for source, target in wanted:
            try:
                self._enable(source, target)
                self._enable(target, source)
            except CudaFailure as failure:
                if failure.code not in (TOO_MANY_PEERS, _UNSUPPORTED):
                    raise
                refused.append(_named((source, target), {"error": failure.name, "error_code": failure.code}))
            else:
                able.append((source, target))
        return able, refused

    def _enable(self, source: int, target: int) -> None:
        if (source, target) not in self._held:
            self._copies.enable(source, target)
            self._held.append((source, target))

    def abandon(self) -> None:
        """Leave them to the end of the process."""
        self._held = []

    def give_back(self) -> None:
        """Disable all; a driver that refuses has an error of its own already."""
        for source, target in self._held:
            try:
                self._copies.disable(source, target)
            except CudaFailure:
                continue
        self._held = []


def _list(cuda: Cuda) -> Dict[str, Any]:
    gpus = cuda.gpus()
    copies = [(source, target) for source in gpus for target in gpus if source != target]
    return {
        "gpus": [dict(gpu, index=index) for index, gpu in gpus.items()],
        "cuda": cuda.cuda_version(),
        "can": [copy for copy in copies if cuda.can_access(*copy)],
        "nvlink": [copy for copy in copies if cuda.has_nvlink(*copy)],
    }


def _open(copies: Copies, gpus: Sequence[int], say: Say) -> None:
    for gpu in gpus:
        start = now()
        if copies.open(gpu):
            say("opened", gpu=gpu, seconds=round(now() - start, 3))


def _probe(copies: Copies, gpu: int, gpus: Sequence[int], most: int) -> Tuple[int, int]:
    """How many peers the GPU could enable at once, and the error that stopped it; 0 where enough was asked for."""
    held: List[int] = []
    place = list(gpus).index(gpu)
    others = [*gpus[place + 1 :], *gpus[:place]]
    try:
        for other in others[:most]:
            try:
                copies.enable(gpu, other)
            except CudaFailure as failure:
                if failure.code == _UNSUPPORTED:
                    continue
                return len(held), failure.code
            held.append(other)
        return len(held), 0
    finally:
        for other in held:
            copies.disable(gpu, other)


def _rate(size: int, seconds: float) -> Optional[float]:
    """GB/s with GB = 1e9; None where no time passed, which cannot be."""
    return round(size / seconds / 1e9, 3) if seconds > 0 else None


def _named(copy: Copy, fields: Dict[str, Any]) -> Dict[str, Any]:
    return dict(fields, **{"from": copy[0], "to": copy[1]})
