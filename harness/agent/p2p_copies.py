"""The copies themselves, in a process of their own: contexts, buffers, and one step of copies at a time.

    gate ─▶ start event ─▶ copy, copy, ... ─▶ stop event       queued behind a word in host memory, then let go all at once

The gate takes the gaps between launches out of the figures and starts all copies of a step together. Nothing here waits for the
driver: every wait asks again and again until a deadline, so that a copy that never ends is Stuck and not a hanging program.
A *push* runs in a stream of the source, a *pull* in one of the target.
"""

import ctypes
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

from .clock import now, sleep
from .cuda_driver import Cuda, CudaFailure
from .p2p_pattern import CLEAN, GUARD, TALLY, Seed, Seeds, classify, ptx

WRITE, READ = "write", "read"
LATENCY_BYTES, LATENCY_COPIES = 16, 100
_NOT_SUPPORTED = 801
_DEPTH = 100
"""So many copies wait behind the gate at most: a queue has an end, and whoever fills it would wait for himself."""

_WINDOW = 16384
_EAGER, _PAUSE = 500, 0.001
"""So many questions in a row, as short copies want it; after that one a millisecond."""

Copy = Tuple[int, int]


class Stuck(Exception):
    """Copies that did not end in time."""

    def __init__(self, copies: Iterable[Copy]) -> None:
        super().__init__("stuck")
        self.copies = list(copies)


class Shut(Exception):
    """A GPU on which CUDA cannot make a context or memory."""

    def __init__(self, gpu: int, failure: CudaFailure) -> None:
        super().__init__("{}".format(failure))
        self.gpu = gpu
        self.failure = failure


class End:
    """One GPU with all it needs to send, receive and compare: its own context, stream, events, kernels and memory."""

    def __init__(self, cuda: Cuda, index: int, size: int) -> None:
        self.index = index
        self.device = cuda.call("cuDeviceGet", index)
        self.context = cuda.call("cuDevicePrimaryCtxRetain", self.device)
        cuda.call("cuCtxSetCurrent", self.context)
        no_flags, non_blocking = 0, 1
        self.stream = cuda.call("cuStreamCreate", non_blocking)
        self.start, self.stop = cuda.call("cuEventCreate", no_flags), cuda.call("cuEventCreate", no_flags)
        module = cuda.call("cuModuleLoadData", ptx())
        self.fill, self.check = (cuda.call("cuModuleGetFunction", module, name) for name in (b"fill", b"check"))
        self.send = int(cuda.call("cuMemAlloc", size))
        self.land = int(cuda.call("cuMemAlloc", size + 2 * GUARD))
        self.tally = int(cuda.call("cuMemAlloc", 3 * TALLY.size))


class Copies:
    """Every copy of one process. ``watch(copies)`` is called while they run and returns what to call if they still do then."""

    def __init__(
        self, cuda: Cuda, seeds: Seeds, size: int, patience: float, watch: Callable[[Sequence[Copy]], Callable[[], None]]
    ) -> None:
        self._cuda = cuda
        self._seeds = seeds
        self._size = size
        self._patience = patience
        self._watch = watch
        self._ends: Dict[int, End] = {}
        self._word = None  # type: Any
        self._gate = 0
        self._gated = True

    def open(self, gpu: int) -> bool:
        """Make context and memory. False where they are there already. Raises Shut where CUDA cannot do it."""
        if gpu in self._ends:
            return False
        try:
            end = End(self._cuda, gpu, self._size)
            if self._word is None:
                self._word = self._cuda.word()
            self._fill(end, end.send, self._size, self._seeds.of(gpu, gpu, "idle", self._size))
            self._finish([((gpu, gpu), end)])
        except CudaFailure as failure:
            raise Shut(gpu, failure) from None
        self._ends[gpu] = end
        return True

    def enable(self, source: int, target: int) -> None:
        """Let ``source`` address the memory of ``target``: one way."""
        self._enter(self._ends[source])
        self._cuda.call("cuCtxEnablePeerAccess", self._ends[target].context, 0)

    def disable(self, source: int, target: int) -> None:
        """Give the peer back."""
        self._enter(self._ends[source])
        self._cuda.call("cuCtxDisablePeerAccess", self._ends[target].context)

    def verify(self, copies: Sequence[Copy], way: str, size: int) -> Dict[Copy, Dict[str, Any]]:
        """Copy ``size`` bytes once and compare all of them, and the guards: wrong bytes by copy, with their class."""
        poisons = {}
        for source, target in copies:
            one, other = self._ends[source], self._ends[target]
            self._fill(one, one.send, size, self._seeds.of(source, target, way, size))
            poisons[source, target] = self._seeds.of(source, target, "poison", self._gate)
            self._fill(other, other.land, size + 2 * GUARD, poisons[source, target])
        self._finish([(copy, self._ends[end]) for copy in copies for end in copy])
        for copy in copies:
            self._queue(copy, way, size)
        self._finish([(copy, self._driver_of(copy, way)) for copy in copies])
        for source, target in copies:
            self._compare(self._ends[target], size, self._seeds.of(source, target, way, size), poisons[source, target])
        self._finish([(copy, self._ends[copy[1]]) for copy in copies])
        return {copy: self._verdict(copy, way, size, poisons[copy]) for copy in copies}

    def time(self, copies: Sequence[Copy], way: str, size: int, loops: int, *, gated: bool = True) -> Dict[Copy, float]:
        """Seconds that ``loops`` copies of ``size`` bytes take, all ``copies`` at once.

        Copies through the host are not gated: the driver may have no room to queue them, and would wait for a gate that opens
        only after it.
        """
        self._gate += 1
        for copy in copies:
            end = self._driver_of(copy, way)
            self._enter(end)
            if gated:
                self._hold(end)
            self._cuda.call("cuEventRecord", end.start, end.stream)
            for _ in range(min(loops, _DEPTH)):
                self._queue(copy, way, size)
            if loops <= _DEPTH:
                self._cuda.call("cuEventRecord", end.stop, end.stream)
        self._word.set(self._gate)
        for copy in copies if loops > _DEPTH else ():
            for _ in range(loops - _DEPTH):
                self._queue(copy, way, size)
            end = self._driver_of(copy, way)
            self._cuda.call("cuEventRecord", end.stop, end.stream)
        watched = size > LATENCY_BYTES and any(source != target for source, target in copies)
        self._wait([(copy, self._driver_of(copy, way)) for copy in copies], watched=watched)
        return {copy: self._elapsed(self._driver_of(copy, way)) for copy in copies}

    def _elapsed(self, end: End) -> float:
        self._enter(end)
        return float(self._cuda.call("cuEventElapsedTime", end.start, end.stop)) / 1e3

    def _driver_of(self, copy: Copy, way: str) -> End:
        return self._ends[copy[0] if way == WRITE else copy[1]]

    def _enter(self, end: End) -> None:
        self._cuda.call("cuCtxSetCurrent", end.context)

    def _hold(self, end: End) -> None:
        if not self._gated:
            return
        try:
            self._cuda.hold_until(end.stream, self._word, self._gate)
        except CudaFailure as failure:
            if failure.code != _NOT_SUPPORTED:
                raise
            self._gated = False

    def _queue(self, copy: Copy, way: str, size: int) -> None:
        one, other = self._ends[copy[0]], self._ends[copy[1]]
        driver = self._driver_of(copy, way)
        self._enter(driver)
        self._cuda.call("cuMemcpyPeerAsync", other.land + GUARD, other.context, one.send, one.context, size, driver.stream)

    def _fill(self, end: End, address: int, size: int, seed: Seed) -> None:
        self._enter(end)
        self._cuda.launch(end.fill, end.stream, _parameters(address, size, 0, seed))

    def _compare(self, end: End, size: int, right: Seed, poison: Seed) -> None:
        """Three zones: the guard before, the data, the guard behind."""
        self._enter(end)
        self._cuda.write(end.tally, CLEAN * 3, end.stream)
        zones = ((0, GUARD, 0, poison), (GUARD, size, 0, right), (GUARD + size, GUARD, (GUARD + size) // 4, poison))
        for number, (offset, length, start, seed) in enumerate(zones):
            values = _parameters(end.land + offset, length, start, seed)
            self._cuda.launch(end.check, end.stream, (*values, (end.tally + number * TALLY.size, ctypes.c_uint64)))

    def _verdict(self, copy: Copy, way: str, size: int, poison: Seed) -> Dict[str, Any]:
        end = self._ends[copy[1]]
        self._enter(end)
        tallies = list(TALLY.iter_unpack(self._cuda.read(end.tally, 3 * TALLY.size)))
        count, first, last, _ = tallies[1]
        stray = tallies[0][0] + tallies[2][0]
        if not count and not stray:
            return {"bad": 0}
        if not count:
            return {"bad": 4 * stray, "wrong": {"class": "shifted", "way": way, "first": 0, "last": size, "size": 4 * stray}}
        window = self._cuda.read(end.land + GUARD + 4 * first, min(_WINDOW, size - 4 * first))
        right = self._seeds.of(copy[0], copy[1], way, size)
        wrong = classify(window, first, count, right=right, poison=(poison, GUARD // 4), seeds=self._seeds)
        return {"bad": 4 * (count + stray), "wrong": dict(wrong, way=way, first=4 * first, last=4 * last, size=4 * count)}

    def _finish(self, work: Sequence[Tuple[Copy, End]]) -> None:
        """Wait until all that is queued at the ends is done."""
        for _, end in work:
            self._enter(end)
            self._cuda.call("cuEventRecord", end.stop, end.stream)
        self._wait(work)

    def _wait(self, work: Sequence[Tuple[Copy, End]], *, watched: bool = False) -> None:
        deadline = now() + self._patience
        open_work = list(work)
        asked = 0
        while True:
            open_work = [(copy, end) for copy, end in open_work if not self._cuda.is_ready(end.stop)]
            if not open_work:
                return
            if now() > deadline:
                raise Stuck(copy for copy, _ in open_work)
            if watched:
                keep = self._watch([copy for copy, _ in open_work])
                still = [(copy, end) for copy, end in open_work if not self._cuda.is_ready(end.stop)]
                if len(still) == len(open_work):
                    keep()
                open_work = still
            asked += 1
            if asked > _EAGER:
                sleep(_PAUSE)


def _parameters(address: int, size: int, start: int, seed: Seed) -> Tuple[Tuple[int, Any], ...]:
    number = ctypes.c_uint32
    return ((address, ctypes.c_uint64), (size // 4, number), (start, number), (seed[0], number), (seed[1], number))


def sizes_up_to(most: int) -> List[int]:
    """The sizes to compare: odd ones around page borders find what round ones do not. ``most`` itself is always one."""
    known = (4, 4096, (64 << 10) - 4, (64 << 10) + 4, (2 << 20) - 4, (2 << 20) + 4)
    return [size for size in known if size < most] + [most]
