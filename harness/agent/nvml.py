"""The GPUs as the driver sees them.

    hello ─ system ─ gpu... ─ peers... ─ process...          the replay counters are read twice, --watch seconds apart

A field that the driver does not give is left out and named in ``unread`` with the driver's reason: never zero. A GPU that cannot be
opened, or is lost between two calls, has an ``error`` instead of fields; the others go on.
"""

import argparse
import platform
from typing import Any, Callable, Dict, Iterator, List, Tuple

from .clock import now, sleep
from .nvml_library import Notes, Nvml, Refused

SCHEMA = 1
LOST = ("GPU is lost", "Unknown Error")
_UNCORRECTED, _CORRECTED, _SINCE_DRIVER = 1, 0, 0
_SINGLE_BIT, _DOUBLE_BIT = 0, 1
_READ, _WRITE, _ATOMICS = 0, 1, 3
_CELSIUS = 0
_HIDDEN = (1 << 64) - 1


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The worker's entry: ``--watch SECONDS`` is how long the replay counters are watched."""
    parser = argparse.ArgumentParser(prog="agent nvml")
    parser.add_argument("--watch", type=float, default=30.0, help="seconds between the two readings of the replay counters")
    return read(parser.parse_args(arguments).watch)


def read(watch: float) -> Iterator[Dict[str, Any]]:
    """Everything that NVML says, as objects ready for JSON."""
    yield {"kind": "hello", "worker": "nvml", "schema": SCHEMA, "python": platform.python_version()}
    with Nvml() as nvml:
        system = system_of(nvml)
        yield system
        opened, shut = open_all(nvml, system["count"])
        start = now()
        first = {index: replays_of(nvml, handle) for index, handle in opened.items()}
        sleep(watch)
        seconds = now() - start
        for index in range(system["count"]):
            if index in shut:
                yield {"kind": "gpu", "index": index, "error": shut[index]}
            else:
                yield _gpu(nvml, index, opened[index], first[index], seconds)
        for index, handle in opened.items():
            yield _peers(nvml, index, handle, [opened.get(other) for other in range(system["count"])])
        for line in processes_of(nvml, opened):
            yield line


def system_of(nvml: Nvml) -> Dict[str, Any]:
    """Versions and the count of GPUs; a version that cannot be read is empty."""

    def version(name: str) -> str:
        try:
            return str(nvml.call(name))
        except Refused:
            return ""

    cuda = version("SystemGetCudaDriverVersion_v2")
    number = int(cuda) if cuda else 0
    return {
        "kind": "system",
        "driver": version("SystemGetDriverVersion"),
        "nvml": version("SystemGetNVMLVersion"),
        "cuda": "{}.{}".format(number // 1000, number % 1000 // 10) if number else "",
        "count": int(nvml.call("DeviceGetCount")),
    }


def open_all(nvml: Nvml, count: int) -> Tuple[Dict[int, Any], Dict[int, str]]:
    """The handles by index, and why the others cannot be opened."""
    opened, shut = {}, {}
    for index in range(count):
        try:
            opened[index] = nvml.handle(index)
        except Refused as refusal:
            shut[index] = str(refusal)
    return opened, shut


def address_of(nvml: Nvml, handle: Any) -> str:
    """The PCI address as sysfs writes it. Raises Refused."""
    pci = nvml.call("DeviceGetPciInfo", handle)
    return "{:04x}:{:02x}:{:02x}.0".format(pci.domain, pci.bus, pci.device)


def replays_of(nvml: Nvml, handle: Any) -> Any:
    """The link's replay counter, None where the driver does not tell."""
    try:
        return int(nvml.call("DeviceGetPcieReplayCounter", handle))
    except Refused:
        return None


def processes_of(nvml: Nvml, opened: Dict[int, Any]) -> Iterator[Dict[str, Any]]:
    """One line for each process on each GPU."""
    for index, handle in opened.items():
        for kind, name in (("compute", "DeviceGetComputeRunningProcesses"), ("graphics", "DeviceGetGraphicsRunningProcesses")):
            try:
                found = nvml.call(name, handle)
            except Refused:
                continue
            for process in found:
                line = {"kind": "process", "index": index, "pid": process.pid, "name": _name(nvml, process.pid), "type": kind}
                if process.usedGpuMemory is not None and process.usedGpuMemory != _HIDDEN:
                    line["memory"] = process.usedGpuMemory
                yield line


def _name(nvml: Nvml, pid: int) -> str:
    try:
        return str(nvml.call("SystemGetProcessName", pid)).split(" ")[0].rsplit("/", 1)[-1]
    except Refused:
        return ""


def _gpu(nvml: Nvml, index: int, handle: Any, first: Any, seconds: float) -> Dict[str, Any]:
    notes = Notes()
    for read_fields, names in _readings(nvml, handle):
        notes.take(read_fields, *names)
    notes.take(lambda: {"replays_later": int(nvml.call("DeviceGetPcieReplayCounter", handle))}, "replays")
    gone = [why for why in notes.unread.values() if why in LOST]
    line: Dict[str, Any] = {"kind": "gpu", "index": index}
    if gone:
        known = {name: notes.given[name] for name in ("address", "uuid", "serial") if name in notes.given}
        return dict(line, error=gone[0], **known)
    line.update(notes.given)
    if first is not None and "replays_later" in notes.given:
        line.update(replays=first, replay_seconds=round(seconds, 3))
    elif "replays" not in notes.unread:
        notes.unread["replays"] = "the first of its two readings failed"
    line["unread"] = notes.unread
    return line


def _readings(nvml: Nvml, handle: Any) -> List[Tuple[Callable[[], Dict[str, Any]], Tuple[str, ...]]]:
    """What is read of one GPU: how, and the fields that are missing where the driver says no."""

    def one(field: str, name: str, *more: Any, of: Callable[[Any], Any] = int) -> Any:
        return (lambda: {field: of(nvml.call(name, handle, *more))}), (field,)

    def pci() -> Dict[str, Any]:
        found = nvml.call("DeviceGetPciInfo", handle)
        return {"address": address_of(nvml, handle), "device": _ids(found.pciDeviceId), "subsystem": _ids(found.pciSubSystemId)}

    def ecc() -> Dict[str, Any]:
        found = nvml.call("DeviceGetEccMode", handle)
        return {"ecc": bool(found[0]), "ecc_pending": bool(found[1])}

    def remapped() -> Dict[str, Any]:
        rows = nvml.call("DeviceGetRemappedRows", handle)
        return {
            "remapped_corrected": int(rows[0]),
            "remapped_uncorrected": int(rows[1]),
            "remapping_pending": bool(rows[2]),
            "remapping_failed": bool(rows[3]),
        }

    def reasons() -> Dict[str, Any]:
        return {"reasons": reasons_of(nvml, handle)}

    return [
        (pci, ("address", "device", "subsystem")),
        one("uuid", "DeviceGetUUID", of=str),
        one("serial", "DeviceGetSerial", of=str),
        one("name", "DeviceGetName", of=str),
        one("vbios", "DeviceGetVbiosVersion", of=str),
        one("memory", "DeviceGetMemoryInfo", of=lambda found: int(found.total)),
        one("bar1", "DeviceGetBAR1MemoryInfo", of=lambda found: int(found.bar1Total)),
        (ecc, ("ecc", "ecc_pending")),
        one("corrected", "DeviceGetTotalEccErrors", _CORRECTED, _SINCE_DRIVER),
        one("uncorrected", "DeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_DRIVER),
        one("retired_single", "DeviceGetRetiredPages", _SINGLE_BIT, of=len),
        one("retired_double", "DeviceGetRetiredPages", _DOUBLE_BIT, of=len),
        one("retirement_pending", "DeviceGetRetiredPagesPendingStatus", of=bool),
        (remapped, ("remapped_rows",)),
        one("generation", "DeviceGetCurrPcieLinkGeneration"),
        one("width", "DeviceGetCurrPcieLinkWidth"),
        one("max_generation", "DeviceGetMaxPcieLinkGeneration"),
        one("max_width", "DeviceGetMaxPcieLinkWidth"),
        (reasons, ("reasons",)),
        one("power", "DeviceGetPowerUsage", of=lambda milliwatts: milliwatts / 1000.0),
        one("power_cap", "DeviceGetEnforcedPowerLimit", of=lambda milliwatts: milliwatts / 1000.0),
        one("temperature", "DeviceGetTemperature", _CELSIUS),
        one("persistence", "DeviceGetPersistenceMode", of=bool),
    ]


def reasons_of(nvml: Nvml, handle: Any) -> int:
    """The clocks event reasons; drivers before 535 know the call by its old name. Raises Refused."""
    try:
        return int(nvml.call("DeviceGetCurrentClocksEventReasons", handle))
    except Refused as refusal:
        if "call" not in str(refusal):
            raise
        return int(nvml.call("DeviceGetCurrentClocksThrottleReasons", handle))


def _ids(packed: int) -> str:
    """``vendor:device`` of NVML's packed number, the vendor in its lower half."""
    return "{:04x}:{:04x}".format(packed & 0xFFFF, packed >> 16)


def _peers(nvml: Nvml, index: int, handle: Any, others: List[Any]) -> Dict[str, Any]:
    def row(ask: Callable[[Any], Any]) -> List[Any]:
        said: List[Any] = []
        for place, other in enumerate(others):
            try:
                said.append(None if other is None or place == index else int(ask(other)))
            except Refused:
                said.append(None)
        return said

    return {
        "kind": "peers",
        "index": index,
        "read": row(lambda other: nvml.call("DeviceGetP2PStatus", handle, other, _READ)),
        "write": row(lambda other: nvml.call("DeviceGetP2PStatus", handle, other, _WRITE)),
        "atomics": row(lambda other: nvml.call("DeviceGetP2PStatus", handle, other, _ATOMICS)),
        "level": row(lambda other: nvml.call("DeviceGetTopologyCommonAncestor", handle, other)),
    }
