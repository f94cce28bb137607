"""The child that watches: who uses the GPUs, replay counters before and after, power and clocks meanwhile, Xids as they come.

    ─▶ begin  driver, links (best), processes     ─▶ xid...     ─▶ end  replays, telemetry

It is a process of its own because a GPU that falls off the bus can make any call hang.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Iterator, List, Tuple

from .clock import now, sleep
from .nvml import processes_of, reasons_of, replays_of, system_of
from .nvml_library import Notes, Nvml, Refused
from .p2p_child import Commands

_XID, _DOUBLE_BIT = 0x8, 0x2
_SLICE = 100
_EVERY = 0.2


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
            telemetry = {index: Telemetry(nvml, handle) for index, handle in handles.items()}
            due = start
            numbers = {_number(handle): index for index, handle in handles.items()}
            while not commands.waiting():
                for handle, xid in _xids(nvml, events):
                    index = numbers.get(_number(handle))
                    say("xid", index=index, address=self._addresses.get(-1 if index is None else index, ""), xid=xid)
                if now() >= due:
                    due = now() + _EVERY
                    for one in telemetry.values():
                        one.sample()
            after = {index: replays_of(nvml, handle) for index, handle in handles.items()}
            grown = [
                (index, after[index] - count) for index, count in before.items() if count is not None and after[index] is not None
            ]
            samples = [dict(one.summary(), index=index) for index, one in telemetry.items()]
            say("end", seconds=round(now() - start, 3), replays=grown, telemetry=samples)

    def _handles(self, nvml: Nvml) -> Dict[int, Any]:
        found = {}
        for index, address in self._addresses.items():
            try:
                found[index] = nvml.call("DeviceGetHandleByPciBusId", address.encode())
            except Refused:
                continue
        return found


class Telemetry:
    """One GPU's power, temperature and clocks event reasons over the run; what the driver does not give stays away."""

    def __init__(self, nvml: Nvml, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._power: List[float] = []
        self._temperature: List[int] = []
        self._reasons: List[int] = []

    def sample(self) -> None:
        """Read all three once."""
        notes = Notes()
        notes.take(lambda: {"power": self._nvml.call("DeviceGetPowerUsage", self._handle) / 1000.0}, "power")
        notes.take(lambda: {"temperature": int(self._nvml.call("DeviceGetTemperature", self._handle, 0))}, "temperature")
        notes.take(lambda: {"reasons": reasons_of(self._nvml, self._handle)}, "reasons")
        for name, kept in (("power", self._power), ("temperature", self._temperature), ("reasons", self._reasons)):
            if name in notes.given:
                kept.append(notes.given[name])

    def summary(self) -> Dict[str, Any]:
        """Peaks, and in how many samples each bit of the reasons was set."""
        found: Dict[str, Any] = {"samples": max(len(self._power), len(self._temperature), len(self._reasons))}
        if self._power:
            found["power"] = max(self._power)
        if self._temperature:
            found["temperature"] = max(self._temperature)
        if self._reasons:
            bits = [1 << place for place in range(9)]
            found["reasons"] = [[bit, sum(bool(seen & bit) for seen in self._reasons)] for bit in bits]
            found["reasons"] = [[bit, count] for bit, count in found["reasons"] if count]
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
