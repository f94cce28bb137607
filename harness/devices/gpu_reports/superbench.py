"""What SuperBench writes (microsoft/superbenchmark).

gpu-copy-bw        gpu0_to_gpu1_write_by_dma 279.287        a metric a line: one way, both ways (and), all at once (all)
results            {"node": "...", "benchmark/metric:rank": figure, "benchmark/return_code": 0}        a node a line
diagnosis          the same with its own verdict: "diagnosis/accept" (JSON), "Category" (JSON lines), or a Markdown table
summary            Markdown tables of metric, statistics, values
monitor            {"time": "...", "gpu_temperature:0": 26, "gpu_uncorrected_ecc:0": 0}        a sample a line
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.devices.gpu_reports.documents import is_number, lines_of_objects
from harness.devices.gpu_reports.facts import Crowd, Grid, HostRate, Monitor, NodeResult, Pair, Quantity, Reading, Tool, plural

_COPY = re.compile(r"^gpu(\d{1,3})_(to|and)_gpu(\d{1,3})_(read|write)_by_(sm|dma) ([\d.]{1,15})$", re.MULTILINE)
_HOST = re.compile(r"^(?:(cpu)_to_gpu(\d{1,3})|gpu(\d{1,3})_to_cpu)_by_dma_under_numa\d+ ([\d.]{1,15})$", re.MULTILINE)
_CROWD = re.compile(r"^gpu_all_to_gpu(\d{1,3})_(read|write)_by_(?:sm|dma) ([\d.]{1,15})$", re.MULTILINE)
_ROW = re.compile(r"^\| (\S{1,200}) \| (\w{1,20}) \| ([\d.e+-]{1,30}) \|$", re.MULTILINE)
_HEAD = "| index | Category | Defective Details |"
_COUNTERS = ("gpu_uncorrected_ecc", "gpu_corrected_ecc", "gpu_temperature")


def looks_like_copies(text: str) -> bool:
    """True for lines of gpu-copy-bw."""
    return "_by_" in text and (_COPY.search(text) is not None or _HOST.search(text) is not None)


def parse_copies(text: str, source: str) -> Reading:
    """Read the copies between GPUs: by copy engine where that was tried, else by kernels."""
    grids: dict[tuple[Quantity, str, str], dict[Pair, float]] = {}
    for near, word, far, way, engine, figure in _COPY.findall(text):
        value = _figure(figure)
        if near != far and value is not None:
            quantity = Quantity.ONE_WAY if word == "to" else Quantity.BOTH_WAYS
            grids.setdefault((quantity, way, engine), {})[int(near), int(far)] = value
    chosen = {
        (quantity, way): cells for (quantity, way, engine), cells in sorted(grids.items(), key=lambda item: item[0][2] == "dma")
    }
    rates = [
        HostRate(int(there or back), bool(host), value)
        for host, there, back, figure in _HOST.findall(text)
        if (value := _figure(figure)) is not None
    ]
    crowds = tuple(
        Crowd(int(into), way, value) for into, way, figure in _CROWD.findall(text) if (value := _figure(figure)) is not None
    )
    count = len({index for cells in grids.values() for pair in cells for index in pair})
    return Reading(
        Tool.GPU_COPY,
        source,
        f"copies between {plural(count, 'GPU')}",
        grids=tuple(Grid(quantity, cells, peers=True, way=way) for (quantity, way), cells in chosen.items()),
        crowds=crowds,
        host_rates=tuple(rates),
    )


def looks_like_results(text: str) -> bool:
    """True for JSON that names a node's metrics, or a Markdown table of SuperBench's."""
    return _HEAD in text or "| metric | statistics | values |" in text or re.search(r'"(?:node|index|time)": ?"', text) is not None


def parse_results(text: str, source: str) -> Reading:
    """Read results, a diagnosis, a summary or a monitor's samples; a reading without anything where it is none of them."""
    if _HEAD in text:
        return _diagnosis(_from_table(text), source)
    if "| metric | statistics | values |" in text:
        rows = _ROW.findall(text)
        summary = f"{plural(len({name for name, _, _ in rows}), 'metric')} over many nodes"
        return Reading(Tool.SUPERBENCH_SUMMARY, source, summary if rows else "")
    found = list(_objects(text))
    if samples := [each for each in found if "time" in each and any(str(key).startswith("gpu_") for key in each)]:
        return _monitor(samples, source)
    if judged := [each for each in found if "diagnosis/category" in each or "Defective Details" in each]:
        accepted = [each for each in found if each.get("diagnosis/accept") is True]
        return _diagnosis([*map(_judged, (each for each in judged if each not in accepted)), *map(_judged, accepted)], source)
    nodes = tuple(NodeResult(str(each["node"]), _metrics(each)) for each in found if "node" in each and _metrics(each))
    return Reading(Tool.SUPERBENCH, source, f"metrics of {plural(len(nodes), 'node')}" if nodes else "", nodes=nodes)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    if text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
        return
    yield from lines_of_objects(text)


def _metrics(values: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in values.items() if "/" in key and is_number(value)}


def _judged(values: Mapping[str, Any]) -> NodeResult:
    category = str(values.get("diagnosis/category", values.get("Category", "")))
    details = str(values.get("diagnosis/issue_details", values.get("Defective Details", "")))
    return _node(str(values.get("index", "")), category, details, _metrics(values))


def _node(node: str, category: str, details: str, metrics: Mapping[str, float]) -> NodeResult:
    if category in ("", "N/A"):
        return NodeResult(node, metrics)
    return NodeResult(node, metrics, category, tuple(re.findall(r"[^,(]+(?:\([^)]*\))?", details)))


def _from_table(text: str) -> Iterator[NodeResult]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 3 and cells[0] not in ("index", "---"):
            yield _node(cells[0], cells[1], cells[2], {})


def _diagnosis(nodes: Iterable[NodeResult], source: str) -> Reading:
    told = tuple(nodes)
    bad = sum(bool(node.category) for node in told)
    return Reading(
        Tool.SUPERBENCH_DIAGNOSIS, source, f"{plural(len(told), 'node')}, {bad} not accepted" if told else "", nodes=told
    )


def _monitor(samples: list[Mapping[str, Any]], source: str) -> Reading:
    told: dict[str, dict[int, list[int]]] = {name: {} for name in _COUNTERS}
    for sample in samples:
        for key, value in sample.items():
            name, _, gpu = str(key).partition(":")
            if name in told and gpu.isdigit() and is_number(value):
                told[name].setdefault(int(gpu), []).append(int(value))
    wrong, right, heat = (told[name] for name in _COUNTERS)
    monitor = Monitor(
        len(samples),
        {gpu: (seen[0], seen[-1]) for gpu, seen in wrong.items()},
        {gpu: (seen[0], seen[-1]) for gpu, seen in right.items()},
        {gpu: max(seen) for gpu, seen in heat.items()},
    )
    return Reading(
        Tool.SUPERBENCH_MONITOR, source, f"{plural(len(samples), 'sample')} of {plural(len(heat), 'GPU')}", monitor=monitor
    )


def _figure(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
