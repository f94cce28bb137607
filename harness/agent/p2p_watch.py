"""The child that watches: who uses the GPUs, the links' replay counters before and after, and Xids as they come.

    ─▶ begin  driver, links (best), processes, replays     ─▶ xid...     ─▶ end  replays

It is a process of its own because a GPU that falls off the bus can make any call hang.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Iterator, List, Tuple

from .clock import now, sleep
from .nvml import processes_of, replays_of, system_of
from .nvml_library import Nvml, Refused
from .p2p_child import Commands

_XID, _DOUBLE_BIT = 0x8, 0x2
_SLICE = 100


class Watch:
    """What the watching child does; ``addresses`` are the GPUs' by CUDA's index."""

    def __init__(self, addresses: Dict[int, str]) -> None:
        self._addresses = addresses

    def serve(self, commands: Commands, say: Callable[..., None]) -> None:
        """Watch until a command comes, and say the counters once more then. Raises Trouble where NVML does not work."""
        with Nvml() as nvml:
            handles = self._handles(nvml)
            start = now()
            before = {index: replays_of(nvml, handle) for index, handle in handles.items()}
            found = [line for line in processes_of(nvml, handles) if line["pid"] != os.getppid()]
            say("begin", driver=system_of(nvml)["driver"], best=_best(nvml, handles), processes=found)
            events = _register(nvml, list(handles.values()))
            numbers = {_number(handle): index for index, handle in handles.items()}
            while not commands.waiting():
                for handle, xid in _xids(nvml, events):
                    index = numbers.get(_number(handle))
                    say("xid", index=index, address=self._addresses.get(-1 if index is None else index, ""), xid=xid)
            after = {index: replays_of(nvml, handle) for index, handle in handles.items()}
            grown = [
                (index, after[index] - count) for index, count in before.items() if count is not None and after[index] is not None
            ]
            say("end", seconds=round(now() - start, 3), replays=grown)

    def _handles(self, nvml: Nvml) -> Dict[int, Any]:
        found = {}
        for index, address in self._addresses.items():
            try:
                found[index] = nvml.call("DeviceGetHandleByPciBusId", address.encode())
            except Refused:
                continue
        return found


def _best(nvml: Nvml, handles: Dict[int, Any]) -> List[Any]:
    """The best generation and width of each GPU's link."""
    found = []
    for index, handle in handles.items():
        try:
            generation = int(nvml.call("DeviceGetMaxPcieLinkGeneration", handle))
            found.append((index, generation, int(nvml.call("DeviceGetMaxPcieLinkWidth", handle))))
        except Refused:
            continue
    return found


def _register(nvml: Nvml, handles: List[Any]) -> Any:
    """A set of events that gets the Xids of all GPUs; None where the driver has none."""
    try:
        events = nvml.call("EventSetCreate")
    except Refused:
        return None
    for handle in handles:
        try:
            nvml.call("DeviceRegisterEvents", handle, _XID | _DOUBLE_BIT, events)
        except Refused:
            continue
    return events


def _xids(nvml: Nvml, events: Any) -> Iterator[Tuple[Any, int]]:
    """What happened within a tenth of a second: the GPU's handle and the Xid."""
    try:
        happened = None if events is None else nvml.call("EventSetWait_v2", events, _SLICE)
    except Refused as refusal:
        happened = None
        if str(refusal) == "Timeout":
            return
    if happened is None:
        sleep(_SLICE / 1e3)
    elif happened.eventType == _XID:
        yield happened.device, int(happened.eventData)


def _number(handle: Any) -> int:
    """A handle as a number: two of one GPU are equal."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
