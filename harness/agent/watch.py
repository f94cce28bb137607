"""The child that watches GPUs at work: who uses them, replay counters before and after, power, heat, clocks and links meanwhile.

    ─▶ begin  driver, gpus, links (best), processes     ─▶ xid...     ─▶ end  replays, telemetry

It is a process of its own because a GPU that falls off the bus can make any call hang. Xids are said as they come.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .child import Commands
from .clock import now, sleep
from .nvml import address_of, open_all, processes_of, reasons_of, replays_of, system_of
from .nvml_library import Notes, Nvml, Refused

_XID, _DOUBLE_BIT = 0x8, 0x2
_SLICE = 100
_EVERY = 0.2
_CELSIUS, _SLOWDOWN = 0, 1
_NAMES = (
    "gpu_idle",
    "applications_clocks",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock",
)

REASONS = {1 << place: name for place, name in enumerate(_NAMES)}
"""Why the clocks are not at their best, by bit (nvml.h, nvmlClocksEventReasons)."""


class Watch:
    """What the watching child does; ``addresses`` are the GPUs' by the number they are to have, None for all with NVML's."""

    def __init__(self, addresses: Optional[Dict[int, str]] = None) -> None:
        self._addresses = addresses

    def serve(self, commands: Commands, say: Callable[..., None]) -> None:
        """Watch until a command comes, and say the counters once more then. Raises Trouble where NVML does not work."""
        with Nvml() as nvml:
            handles = self._handles(nvml)
            names = {index: _names(nvml, handle) for index, handle in handles.items()}
            start = now()
            before = {index: replays_of(nvml, handle) for index, handle in handles.items()}
            found = [line for line in processes_of(nvml, handles) if line["pid"] != os.getppid()]
            gpus = [(index, *name) for index, name in names.items()]
            say("begin", driver=system_of(nvml)["driver"], gpus=gpus, best=_best(nvml, handles), processes=found)
            events = _register(nvml, list(handles.values()))
            telemetry = {index: Telemetry(nvml, handle) for index, handle in handles.items()}
            due = start
            numbers = {_number(handle): index for index, handle in handles.items()}
            while not commands.waiting():
                for handle, xid in _xids(nvml, events):
                    index = numbers.get(_number(handle))
                    say("xid", index=index, address="" if index is None else names[index][0], xid=xid)
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
        if self._addresses is None:
            return open_all(nvml, int(nvml.call("DeviceGetCount")))[0]
        found = {}
        for index, address in self._addresses.items():
            try:
                found[index] = nvml.call("DeviceGetHandleByPciBusId", address.encode())
            except Refused:
                continue
        return found


class Telemetry:
    """One GPU's power, temperature, clocks event reasons and link over the run; what the driver does not give stays away."""

    def __init__(self, nvml: Nvml, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._seen: Dict[str, List[Any]] = {}

    def sample(self) -> None:
        """Read everything once."""
        notes = Notes()
        for name, read in self._readings():
            notes.take(lambda name=name, read=read: {name: read()}, name)  # type: ignore[misc]
        for name, value in notes.given.items():
            self._seen.setdefault(name, []).append(value)

    def _readings(self) -> Tuple[Tuple[str, Callable[[], Any]], ...]:
        nvml, handle = self._nvml, self._handle
        return (
            ("power", lambda: nvml.call("DeviceGetPowerUsage", handle) / 1000.0),
            ("temperature", lambda: int(nvml.call("DeviceGetTemperature", handle, _CELSIUS))),
            ("reasons", lambda: reasons_of(nvml, handle)),
            ("generation", lambda: int(nvml.call("DeviceGetCurrPcieLinkGeneration", handle))),
            ("width", lambda: int(nvml.call("DeviceGetCurrPcieLinkWidth", handle))),
        )

    def summary(self) -> Dict[str, Any]:
        """Peaks, the mean of the power, in how many samples each bit of the reasons was set, and where the card slows down.

        Of the link the highest generation, because one at rest idles down, and the lowest width.
        """
        seen = self._seen
        found: Dict[str, Any] = {"samples": max((len(values) for values in seen.values()), default=0)}
        for name, name_of, pick in (
            ("power", "power", max),
            ("power", "mean", _mean),
            ("temperature", "temperature", max),
            ("generation", "generation", max),
            ("width", "width", min),
        ):
            if name in seen:
                found[name_of] = pick(seen[name])
        if "reasons" in seen:
            counts = [[bit, sum(bool(reasons & bit) for reasons in seen["reasons"])] for bit in REASONS]
            found["reasons"] = [[bit, count] for bit, count in counts if count]
            found["told"] = len(seen["reasons"])
        notes = Notes()
        notes.take(lambda: {"slowdown": int(self._nvml.call("DeviceGetTemperatureThreshold", self._handle, _SLOWDOWN))}, "slowdown")
        return dict(found, **notes.given)


def _mean(values: List[float]) -> float:
    return round(sum(values) / len(values), 1)


def _names(nvml: Nvml, handle: Any) -> Tuple[str, str]:
    """Address and UUID, "" where a GPU that is lost does not tell."""
    notes = Notes()
    notes.take(lambda: {"address": address_of(nvml, handle)}, "address")
    notes.take(lambda: {"uuid": str(nvml.call("DeviceGetUUID", handle))}, "uuid")
    return notes.given.get("address", ""), notes.given.get("uuid", "")


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
