"""What NVML sees of the GPUs while they train, and the Xids that come meanwhile: from a process of its own (agent/watch.py).

    enter ─> (training) news: xid... ─> close: telemetry and link of each rank's GPU

Where there is no NVML nothing is observed, and the report says nothing of it: training does not depend on it.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ..child import Child, Silent
from ..trouble import Trouble
from ..watch import REASONS, Watch

_FIRST_WORD, _LAST_WORD = 30.0, 15.0

Line = Dict[str, Any]


class Name(NamedTuple):
    """Who a GPU is; "" where nobody says."""

    address: str
    uuid: str


class Observer:
    """The watching process of one run; a context that ends it. ``wanted`` False: nothing is watched."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._child = Child(Watch().serve)
        self._gpus: List[Tuple[int, Name]] = []
        self._ranks: Dict[int, int] = {}

    def __enter__(self) -> "Observer":
        if self._wanted:
            self._child.start()
            try:
                begin = self._child.next(_FIRST_WORD)
            except (Silent, Trouble):
                self._child.end()
            else:
                self._gpus = [(index, Name(address, uuid)) for index, address, uuid in begin["gpus"]]
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def in_order(self, count: int) -> List[Name]:
        """Names for devices of a framework that tells none: CUDA's order is NVML's where it goes by address and sees all."""
        told = [name for _, name in self._gpus] if "CUDA_VISIBLE_DEVICES" not in os.environ else []
        return [told[place] if place < len(told) else Name("", "") for place in range(count)]

    def meet(self, ranks: Dict[int, Name]) -> None:
        """Find the GPU of each rank, by UUID or else by address."""
        for rank, name in ranks.items():
            for index, gpu in self._gpus:
                if (name.uuid and name.uuid == gpu.uuid) or (not name.uuid and name.address and name.address == gpu.address):
                    self._ranks[index] = rank

    def news(self, *, is_last: bool = False) -> Iterator[Line]:
        """Lines for the Xids that came since the last look; before the ranks are met only where it ``is_last``."""
        for said in self._child.waiting() if self._ranks or is_last else ():
            if said["say"] == "xid":
                yield self._xid(said)

    def close(self) -> Iterator[Line]:
        """The last Xids, then power, heat, clocks and link of each rank's GPU over the whole run."""
        if not self._child.lives:
            return
        try:
            self._child.send(do="end")
            said = self._child.next(_LAST_WORD)
            while said["say"] != "end":
                yield self._xid(said)
                said = self._child.next(_LAST_WORD)
        except (Silent, Trouble):
            # a GPU that fell off the bus can make every call hang; its Xid was said before
            return
        replays = dict(said["replays"])
        for one in said["telemetry"]:
            if one["index"] in self._ranks and one["samples"]:
                rank = self._ranks[one["index"]]
                yield _telemetry(rank, one)
                yield _link(rank, one, replays.get(one["index"]), said["seconds"])

    def _xid(self, said: Line) -> Line:
        line = {"kind": "xid", "index": self._ranks.get(said["index"]), "address": said["address"], "xid": said["xid"]}
        return {name: value for name, value in line.items() if value not in (None, "")}


def _telemetry(rank: int, one: Line) -> Line:
    line: Line = {"kind": "telemetry", "index": rank, "samples": one["samples"]}
    line.update(
        (name, one[of]) for name, of in (("power", "mean"), ("temperature", "temperature"), ("slowdown", "slowdown")) if of in one
    )
    if "reasons" in one:
        shares = {REASONS[bit]: round(count / one["told"], 3) for bit, count in one["reasons"] if bit in REASONS}
        line["reasons"] = shares
    return line


def _link(rank: int, one: Line, replays: Any, seconds: float) -> Line:
    line: Line = {"kind": "link", "index": rank, "samples": one["samples"]}
    line.update((name, one[name]) for name in ("generation", "width") if name in one)
    if replays is not None:
        line.update(replays=replays, seconds=seconds)
    return line
