"""What lambdal/lambda-tensorflow-benchmark keeps beside its logs: notes on the machine, and a trace of temperatures.

GPU 0<TAB>Quadro RTX 8000          metadata: names with a tab and a value
1593304363, 3325.8, 62, 61, ...,   thermal: time, a clock whose unit nobody states, then degrees Celsius by GPU
"""

from __future__ import annotations

import re

from harness.devices.gpu_reports.facts import Device, Monitor, Reading, Tool, plural

_NOTE = re.compile(r"^(Memory|CPU|GPU \d{1,3}|CUDA|Nvidia|TF|Kernel|Python)\t([^\t\n]{1,200})$", re.MULTILINE)
_TRACE = re.compile(r"^\d{10}, [\d.]{1,12}, ((?:\d{1,3}, ?){1,64})$", re.MULTILINE)


def looks_like_notes(text: str) -> bool:
    """True where at least a GPU and a version are noted."""
    names = {name for name, _ in _NOTE.findall(text[:100_000])}
    return "GPU 0" in names and bool(names & {"Nvidia", "CUDA", "TF"})


def parse_notes(text: str, source: str) -> Reading:
    """Read the notes: GPUs and versions."""
    notes = dict(_NOTE.findall(text))
    devices = tuple(Device(int(name[4:]), value.strip()) for name, value in notes.items() if name.startswith("GPU "))
    system = {name: value.strip() for name, value in notes.items() if not name.startswith("GPU ")}
    if "Nvidia" in system:
        system["driver"] = system.pop("Nvidia")
    return Reading(Tool.NOTES, source, plural(len(devices), "GPU"), devices=devices, system=system)


def looks_like_trace(text: str) -> bool:
    """True where the text begins with lines of a trace."""
    return _TRACE.match(text) is not None


def parse_trace(text: str, source: str) -> Reading:
    """Read the highest temperature of each GPU."""
    rows = [[int(word) for word in cells.replace(",", " ").split()] for cells in _TRACE.findall(text)]
    highest = {index: max(row[index] for row in rows if index < len(row)) for index in range(max(map(len, rows), default=0))}
    summary = f"{plural(len(rows), 'sample')} of {plural(len(highest), 'GPU')}"
    return Reading(Tool.TEMPERATURES, source, summary, monitor=Monitor(len(rows), temperatures=highest))
