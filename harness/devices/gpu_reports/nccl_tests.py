"""The programs of ``nccl-tests``: a header, a line a rank, a table by size, and a count of wrong values.

    # Collective test starting: all_reduce_perf
    # nThread 1 ... validation: 1 graph: 0
    #  Rank  0 Group  0 Pid 1234 on host device  0 [0000:1b:00] NAME
    size count type redop root | time algbw busbw #wrong | time algbw busbw #wrong  [#iters]
    # Out of bounds values : 0 OK
    # Avg bus bandwidth    : 210.99

Columns are counted from the right: older versions leave some of the first ones empty. Lines of NCCL and of errors stand in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.devices.gpu_reports.facts import Collective, Device, Rank, Reading, Row, Tool, plural

_STARTING = re.compile(r"# Collective test starting: (\w{1,60})")
_OPTIONS = re.compile(r"# nThread \d+ .*validation: (\d)")
_RANK = re.compile(r"# +Rank +(\d+)(?: +Group +\d+)? +Pid +(\d+) on +(\S+) device +(\d+) \[([0-9a-fA-Fx:.]*)\] (.+)")
_WRONG = re.compile(r"# Out of bounds values : (\d+) (\w+)")
_AVERAGE = re.compile(r"# Avg bus bandwidth +: ([\d.]+)(?: (\w+))?")
_ERROR = re.compile(
    r"Test (?:NCCL |CUDA )?failure|Cuda failure|CUDA error|NCCL failure"
    r"|unhandled (?:cuda|system) error|internal error|Segmentation|Aborted"
)
_FIGURE = re.compile(r"\d{1,15}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?")


def looks_like(text: str) -> bool:
    """True where the text has the header or the table of nccl-tests."""
    return "# nThread " in text or "# Collective test starting" in text or "# Avg bus bandwidth" in text or "busbw" in text


def parse(text: str, source: str) -> Reading:
    """Read one run; a table that was cut off gives the rows that it has."""
    lines = [line for line in text.splitlines() if len(line) < 10_000]
    counts_errors = any("busbw" in line and "error" in line for line in lines)
    has_iterations = any("busbw" in line and "#iters" in line for line in lines)
    rows = tuple(row for line in lines if (row := _row(line, counts_errors, has_iterations)) is not None)
    ranks = tuple(_rank(found) for line in lines if (found := _RANK.match(line)))
    collective = Collective(
        name=next((found[1] for line in lines if (found := _STARTING.match(line))), ""),
        ranks=ranks,
        rows=rows,
        validated=next((found[1] != "0" for line in lines if (found := _OPTIONS.match(line))), None),
        wrong=next((int(found[1]) for line in lines if (found := _WRONG.match(line))), None),
        average=next((float(found[1]) for line in lines if (found := _AVERAGE.match(line)) and _FIGURE.fullmatch(found[1])), None),
        refused=next(_refusals(lines), ""),
        errors=tuple(line.strip() for line in lines if _ERROR.search(line)),
        ended=any(_AVERAGE.match(line) for line in lines),
    )
    if not (ranks or rows or collective.ended or collective.validated is not None):
        return Reading(Tool.NCCL_TESTS, source)
    summary = f"{collective.name or 'a collective'} over {plural(len(ranks), 'rank')}, {plural(len(rows), 'size')}"
    devices = tuple({rank.device.index: rank.device for rank in ranks}.values())
    return Reading(Tool.NCCL_TESTS, source, summary, devices=devices, collective=collective)


def _rank(found: re.Match[str]) -> Rank:
    address = f"{found[5].lower()}.0" if found[5].count(":") == 2 else ""
    return Rank(int(found[1]), int(found[2]), found[3], Device(int(found[4]), found[6].strip(), address))


def _refusals(lines: list[str]) -> Iterator[str]:
    """The tool's own bad verdicts on its last lines."""
    for line in lines:
        found = _AVERAGE.match(line) or _WRONG.match(line)
        if found and found[2] and found[2] != "OK":
            yield line.strip("# ").strip()


def _row(line: str, counts_errors: bool, has_iterations: bool) -> Row | None:
    words = line.split()
    if has_iterations:
        words = words[:-1]
    if len(words) < 11 or not words[0].isdigit() or not words[1].isdigit() or len(words[0]) > 15:
        return None
    tail = words[-8:]
    if not all(_FIGURE.fullmatch(word) for word in (*tail[:3], *tail[4:7])):
        return None
    counted = [int(word) for word in (tail[3], tail[7]) if word.isdigit()] if not counts_errors else []
    return Row(int(words[0]), float(tail[2]), float(tail[6]), sum(counted) if counted else None)
