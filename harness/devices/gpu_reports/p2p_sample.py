"""``p2pBandwidthLatencyTest`` of the CUDA samples: tables of bandwidth and latency, with and without peer access.

    Device: 0, NAME, pciBusID: 1a, ...          who
    Device=0 CAN Access Peer Device=1           what the driver answers, by ordered pair
    TITLE Matrix (UNIT)                         a table: header "D\\D 0 1 ..." and a row a GPU
    P2P=... Latency ... Matrix (us)             two tables below one title: rows below "GPU", then rows below "CPU"

Bandwidths both ways are the sum of both; the tool does no warm-up, compares no byte, and stages silently through the host
(NVIDIA/cuda-samples).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.devices.gpu_reports.facts import Device, Grid, Pair, Quantity, Reading, Tool, plural

_DEVICE = re.compile(r"Device: (\d+), ([^,\n]+), pciBusID: ([0-9a-f]+), pciDeviceID: ([0-9a-f]+), pciDomainID: ?([0-9a-f]+)")
_ACCESS = re.compile(r"Device=(\d+) (CAN|CANNOT) Access Peer Device=(\d+)")
_TITLE = re.compile(r"(?:(Uni|Bi)directional )?P2P=(Enabled|Disabled) (Bandwidth|Latency)[^\n]{0,40}?Matrix \((?:GB/s|us)\)")
_HEADER = re.compile(r" *(D\\D|GPU|CPU)((?: +\d{1,3})+)")


@dataclass
class _Table:
    title: str
    quantity: Quantity
    peers: bool
    way: str
    clock: str = ""
    columns: tuple[int, ...] = ()
    cells: dict[Pair, float] = field(default_factory=dict)


def looks_like(text: str) -> bool:
    """True where the text has a table of this tool, or the start of its output."""
    return ("P2P=" in text and _TITLE.search(text) is not None) or "P2P (Peer-to-Peer) GPU Bandwidth Latency Test" in text


def parse(text: str, source: str) -> Reading:
    """Read all tables that are there; one that was cut off gives the rows that it has."""
    devices = tuple(
        Device(int(index), name.strip(), _address(domain, bus, slot)) for index, name, bus, slot, domain in _DEVICE.findall(text)
    )
    access = {(int(one), int(other)): can == "CAN" for one, can, other in _ACCESS.findall(text)}
    grids = tuple(
        Grid(table.quantity, table.cells, table.peers, table.way, table.title)
        for table in list(_tables(text))  # whole before any of it is looked at
        if table.cells and table.clock != "CPU"
    )
    count = len(devices) or max((index + 1 for grid in grids for pair in grid.cells for index in pair), default=0)
    summary = f"{plural(len(grids), 'table')} of {plural(count, 'GPU')}" if grids or access or devices else ""
    return Reading(Tool.P2P_SAMPLE, source, summary, devices=devices, grids=grids, access=access)


def _tables(text: str) -> Iterator[_Table]:
    table: _Table | None = None
    for line in text.splitlines():
        if len(line) > 10_000:
            continue
        if title := _TITLE.search(line):
            table = _titled(title)
            yield table
        elif table is not None and (header := _HEADER.fullmatch(line.rstrip())):
            columns = tuple(int(word) for word in header[2].split())
            if table.columns:  # the second table below a title of latencies
                table = _Table(table.title, table.quantity, table.peers, table.way)
                yield table
            table.clock, table.columns = header[1], columns
        elif table is not None and table.columns:
            table.cells.update(_row(line, table.columns))


def _titled(title: re.Match[str]) -> _Table:
    quantity = {"Latency": Quantity.LATENCY}.get(title[3], Quantity.BOTH_WAYS if title[1] == "Bi" else Quantity.ONE_WAY)
    return _Table(title[0], quantity, title[2] == "Enabled", "read" if "P2P Reads" in title[0] else "write")


def _row(line: str, columns: tuple[int, ...]) -> Iterator[tuple[Pair, float]]:
    """The cells of a row, but the GPU with itself."""
    words = line.split()
    if len(words) < 2 or not words[0].isdigit() or len(words[0]) > 3:
        return
    for column, word in zip(columns, words[1:], strict=False):
        if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", word) and int(words[0]) != column:
            yield (int(words[0]), column), float(word)


def _address(domain: str, bus: str, slot: str) -> str:
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.0" if max(len(domain), len(bus), len(slot)) <= 4 else ""
