"""``gpu-burn`` and ``bandwidthTest``.

    50.0%  proc'd: 2261 (7150 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 0   temps: 38 C - 36 C        progress, all GPUs in a line
    GPU 0: OK                                                                                       at the end, by GPU

gpu-burn ends with status 0 when it found errors (wilicc/gpu-burn#12) and says OK where it did nothing (#14, #123): what it did by
its last progress line is kept beside its verdict.
"""

from __future__ import annotations

import re

from harness.devices.gpu_reports.facts import Burn, Device, HostRate, Reading, Tool, plural

_PROGRESS = re.compile(r"(?P<work>[^\n]{1,4000}?) +errors: (?P<errors>[^\n]{1,2000}?) +temps:")
_LATEST = 20
"""Lines of progress that are looked through from the end for a whole one."""
_VERDICT = re.compile(r"^\s*GPU (\d{1,3}): (OK|FAULTY)\s*$", re.MULTILINE)
_LISTED = re.compile(r"^GPU (\d{1,3}): ([^(\n]+) \(UUID: ", re.MULTILINE)
_RATE = re.compile(r"bandwidthTest-(H2D|D2H)-\w+, Bandwidth = ([\d.]{1,12}) GB/s")
_DEVICE = re.compile(r"^ ?Device (\d{1,3}): ([^\n]{1,100})$", re.MULTILINE)


def looks_like_burn(text: str) -> bool:
    """True where progress or verdicts of gpu-burn stand."""
    return "proc'd: " in text or ("Tested " in text and _VERDICT.search(text) is not None)


def parse_burn(text: str, source: str) -> Reading:
    """Read each GPU's verdict, and what had been done by the last line that tells of it."""
    pieces = text.rsplit("proc'd: ", _LATEST)[1:]
    last = next((found for piece in reversed(pieces) if (found := _PROGRESS.match(piece))), None)
    work = _parts(last["work"]) if last else []
    errors = _parts(last["errors"]) if last else []
    verdicts = {int(index): verdict for index, verdict in _VERDICT.findall(text)}
    burns = []
    for index in sorted(set(verdicts) | set(range(len(work)))):
        done = re.match(r"\d+", work[index]) if index < len(work) else None
        wrong = errors[index] if index < len(errors) else ""
        died = "DIED" in wrong or (index < len(work) and "DIED" in work[index])
        burns.append(Burn(index, verdicts.get(index, ""), int(done[0]) if done else None, wrong, died))
    devices = tuple(Device(int(index), name.strip()) for index, name in _LISTED.findall(text))
    return Reading(
        Tool.GPU_BURN, source, f"{plural(len(burns), 'GPU')} tested" if burns else "", devices=devices, burns=tuple(burns)
    )


def _parts(cells: str) -> list[str]:
    return [cell.strip() for cell in cells.split(" - ")]


def looks_like_host_copies(text: str) -> bool:
    """True for lines of bandwidthTest."""
    return "bandwidthTest-" in text


def parse_host_copies(text: str, source: str) -> Reading:
    """Read the best rate each way."""
    best: dict[str, float] = {}
    for way, figure in _RATE.findall(text):
        if re.fullmatch(r"\d+(?:\.\d+)?", figure):
            best[way] = max(best.get(way, 0.0), float(figure))
    devices = tuple(Device(int(index), name.strip()) for index, name in _DEVICE.findall(text))
    index = devices[0].index if len(devices) == 1 else None
    rates = tuple(HostRate(index, way == "H2D", rate) for way, rate in best.items())
    return Reading(
        Tool.BANDWIDTH_TEST, source, f"{plural(len(rates), 'direction')}" if rates else "", devices=devices, host_rates=rates
    )
