"""``nvbandwidth``, as JSON (``-j``) or as text: a table for each of its tests.

Cells of the JSON are words, and ``N/A`` stands where there is no figure; warnings may come before it (NVIDIA/DCGM and
microsoft/superbenchmark keep both kinds). Its tests always ask for peer access. Of copies both ways it times one stream
(NVIDIA/nvbandwidth): the sum given here is twice that.

    {"nvbandwidth": {"testcases": [{"name", "status", "bandwidth_matrix": [["12.39", "N/A"]]}]}}
    Running NAME.  /  DESCRIPTION (GB/s)  /  columns  /  rows  /  SUM NAME figure
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.devices.gpu_reports.documents import mapping, mappings, objects
from harness.devices.gpu_reports.facts import Check, Crowd, Device, Grid, HostRate, Pair, Quantity, Reading, Status, Tool, plural

_STATUS = {"passed": Status.PASS, "waived": Status.SKIP, "not found": Status.SKIP, "error": Status.FAIL, "failed": Status.FAIL}
_RUNNING = re.compile(r"Running (\w{1,80})\.?")
_DEVICE = re.compile(r"^Device (\d{1,3}): ([^(\n]+)(?:\(([0-9a-fA-F:.]+)\))?", re.MULTILINE)
_CELL = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_MICRO = 1e-3


@dataclass(frozen=True)
class _Case:
    """One test: its rows as words."""

    name: str
    status: Status
    words: str = ""
    rows: tuple[tuple[str, ...], ...] = ()

    def cells(self) -> Iterator[tuple[Pair, float | None]]:
        """By row and column; None where there is no figure."""
        for row, words in enumerate(self.rows):
            for column, word in enumerate(words):
                yield (row, column), float(word) if _CELL.fullmatch(word) else None


def looks_like(text: str) -> bool:
    """True where the text is, or holds, output of nvbandwidth."""
    return '"nvbandwidth"' in text or "nvbandwidth Version" in text


def parse(text: str, source: str) -> Reading:
    """Read every test that is there."""
    cases = [case for found in objects(text, "nvbandwidth") for case in _from_json(mapping(found.get("nvbandwidth")))]
    cases = cases or list(_from_text(text))
    by_kernels_first = sorted(cases, key=lambda case: case.name.endswith("_ce"))
    grids = {(grid.quantity, grid.way): grid for case in by_kernels_first if (grid := _grid(case)) is not None}
    devices = tuple(Device(int(index), name.strip(), _address(address)) for index, name, address in _DEVICE.findall(text))
    ran = sum(bool(case.rows) for case in cases)
    return Reading(
        Tool.NVBANDWIDTH,
        source,
        f"{plural(ran, 'test')} with figures, {sum(case.status is Status.SKIP for case in cases)} waived" if cases else "",
        devices=devices,
        grids=tuple(grids.values()),
        crowds=tuple(crowd for case in cases for crowd in _crowds(case)),
        access={pair: can for case in cases for pair, can in _access(case)},
        host_rates=tuple(rate for case in cases for rate in _host_rates(case)),
        checks=tuple(Check("nvbandwidth", case.name, "", case.status, case.words) for case in cases),
    )


def _from_json(document: Mapping[str, object]) -> Iterator[_Case]:
    for case in mappings(document.get("testcases")):
        matrix = case.get("bandwidth_matrix", case.get("latency_matrix"))
        rows = [row for row in matrix if isinstance(row, list)] if isinstance(matrix, list) else []
        said = str(case.get("status", ""))
        words = "" if said.lower() in ("passed", "waived") else said
        yield _Case(str(case.get("name", "")), _status(said), words, tuple(tuple(str(word) for word in row) for row in rows))


def _status(said: str) -> Status:
    return next((status for start, status in _STATUS.items() if said.lower().startswith(start)), Status.OTHER)


def _from_text(text: str) -> Iterator[_Case]:
    name, has_columns = "", False
    rows: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if len(line) > 10_000:
            continue
        words = line.split()
        if running := _RUNNING.fullmatch(line.strip()):
            if name:
                yield _Case(name, Status.PASS if rows else Status.OTHER, "", tuple(rows))
            name, rows, has_columns = running[1], [], False
        elif line.startswith("Waived"):
            if name:
                yield _Case(name, Status.PASS if rows else Status.OTHER, "", tuple(rows))
            name, rows, has_columns = "", [], False
            yield _Case("", Status.SKIP)
        elif words and all(word.isdigit() for word in words):
            has_columns = True
        elif has_columns and len(words) > 1 and words[0].isdigit() and all(_is_cell(word) for word in words[1:]):
            rows.append(tuple(words[1:]))
    if name:
        yield _Case(name, Status.PASS if rows else Status.OTHER, "", tuple(rows))


def _is_cell(word: str) -> bool:
    return word == "N/A" or _CELL.fullmatch(word) is not None


def _between_gpus(case: _Case) -> bool:
    return case.name.startswith("device_to_device")


def _way(case: _Case) -> str:
    return "read" if "_read" in case.name or "latency" in case.name else "write"


def _pair(case: _Case, cell: Pair) -> Pair:
    """Rows name who moves the data: what a read brings comes from the column."""
    return (cell[1], cell[0]) if _way(case) == "read" else cell


def _grid(case: _Case) -> Grid | None:
    """The table of a test between GPUs. Copies by kernels (sm) count where the copy engine (ce) was not tried."""
    if not _between_gpus(case):
        return None
    both = "bidirectional" in case.name
    scale = _MICRO if "latency" in case.name else 2.0 if both else 1.0
    quantity = Quantity.LATENCY if "latency" in case.name else Quantity.BOTH_WAYS if both else Quantity.ONE_WAY
    cells = {_pair(case, cell): value * scale for cell, value in case.cells() if value is not None and cell[0] != cell[1]}
    return Grid(quantity, cells, peers=True, way=_way(case), title=case.name) if cells else None


def _access(case: _Case) -> Iterator[tuple[Pair, bool]]:
    """Where a copy between two GPUs has no figure, the tool found no peer access."""
    if _between_gpus(case) and "latency" not in case.name:
        for cell, value in case.cells():
            if cell[0] != cell[1] and value is None:
                yield _pair(case, cell), False


def _crowds(case: _Case) -> Iterator[Crowd]:
    if re.fullmatch(r"all_to_one_(?:read|write)_ce", case.name):
        for (row, column), value in case.cells():
            if row == 0 and value is not None:
                yield Crowd(column, _way(case), value)


def _host_rates(case: _Case) -> Iterator[HostRate]:
    if re.fullmatch(r"(?:host_to_device|device_to_host)_memcpy_ce", case.name):
        for (_, column), value in case.cells():
            if value is not None:
                yield HostRate(column, case.name.startswith("host"), value)


def _address(text: str) -> str:
    parts: Sequence[str] = text.lower().split(":")
    return f"{parts[0][-4:]}:{parts[1]}:{parts[2]}" if len(parts) == 3 else ""
