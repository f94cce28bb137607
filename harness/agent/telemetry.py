"""Power, temperature and clocks of all GPUs, again and again: one ``sample`` line for each GPU and interval."""

import argparse
import platform
from typing import Any, Dict, Iterator, List

from .clock import now, sleep
from .nvml import open_all, reasons_of, system_of
from .nvml_library import Notes, Nvml

SCHEMA = 1


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The worker's entry: ``--seconds S`` is how long, ``--every S`` how often."""
    parser = argparse.ArgumentParser(prog="agent telemetry")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=0.2)
    given = parser.parse_args(arguments)
    return watch(given.seconds, given.every)


def watch(seconds: float, every: float) -> Iterator[Dict[str, Any]]:
    """Samples for ``seconds``, at least one of each GPU; a GPU that is lost meanwhile gives samples that say so."""
    yield {"kind": "hello", "worker": "telemetry", "schema": SCHEMA, "python": platform.python_version()}
    with Nvml() as nvml:
        opened, _ = open_all(nvml, system_of(nvml)["count"])
        start, count = now(), 0
        while count == 0 or count * every < seconds:
            sleep(start + count * every - now())
            for index, handle in opened.items():
                yield _sample(nvml, index, handle, now() - start)
            count += 1


def _sample(nvml: Nvml, index: int, handle: Any, at: float) -> Dict[str, Any]:
    notes = Notes()
    notes.take(lambda: {"reasons": reasons_of(nvml, handle)}, "reasons")
    notes.take(lambda: {"power": nvml.call("DeviceGetPowerUsage", handle) / 1000.0}, "power")
    notes.take(lambda: {"temperature": int(nvml.call("DeviceGetTemperature", handle, 0))}, "temperature")
    line = dict({"kind": "sample", "at": round(at, 3), "index": index}, **notes.given)
    if notes.unread:
        line["unread"] = notes.unread
    return line
