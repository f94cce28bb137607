"""The text of ``lspci``: -n, -nn, -v to -vvv, -x to -xxxx in any mixture, with or without domains.

    19:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)      a record begins at the margin
    <tab>Region 0: Memory at 214042000000 (64-bit, prefetchable) [size=16M]           facts of the function
    <tab>Capabilities: [60] Express (v2) Endpoint, MSI 00                             a capability
    <tab><tab>LnkSta: Speed 32GT/s, Width x16                                         its registers
    00: de 10 30 23 ...                                                               bytes, which outrank the text

Both the older wording ("(ok)", "(downgraded)", "Report errors:") and the newer one are read, as pciutils 3.1 to 3.14 write them.
What ``lspci`` was not allowed to read is ``unread``, never "none".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.harvest import Format, Harvest
from harness.devices.dumps.lspci_header import begin_record
from harness.devices.dumps.lspci_lines import read_line
from harness.devices.dumps.lspci_record import Record
from harness.devices.pcie import Unread


def parse_lspci(text: str, source: str) -> Harvest:
    """Read every record in a text. Never raises; what is no record is passed over."""
    functions, names = [], {}
    unnamed_regions, denied = False, []
    for record in _records(text):
        function = record.freeze()
        functions.append(function)
        names[function.bdf] = record.name
        unnamed_regions |= record.unnamed_regions
        if record.denied:
            denied.append(function.bdf)
    has_hex = any(function.config is not None and function.config.raw for function in functions)
    unread = []
    if denied:
        unread.append(Unread("capabilities", "lspci ran without root", "run lspci -vvv as root", tuple(denied)))
    if functions and not any(function.bars for function in functions) and not has_hex:
        unread.append(Unread("BARs, links and bus numbers", "lspci ran without -vvv", "mail lspci -Dnnvvvxxxx, run as root"))
    elif unnamed_regions:
        unread.append(Unread("which BAR each region is", "lspci -v does not number them", "mail lspci -vvv"))
    gpus = sum(function.is_gpu for function in functions)
    summary = f"{len(functions)} functions, {gpus} of them display or 3D controllers"
    return Harvest(
        Format.LSPCI_HEX if has_hex else Format.LSPCI, source, summary, tuple(functions), names=names, unread=tuple(unread)
    )


def _records(text: str) -> Iterator[Record]:
    record: Record | None = None
    pending = ""
    lines = text.splitlines()
    taken = 0
    for number, line in enumerate(lines):
        if number < taken:
            continue
        if record is not None and line[2:4] in (": ", "0:"):
            if line.startswith("00: ") and (taken := _take_block(record, lines, number)) > number:
                continue
            if _take_row(record, line):
                continue
        if not line.strip():
            continue
        if line[0] not in " \t":
            begun = begin_record(line)
            if begun is not None or (record is not None and not line[0].isspace() and not line.startswith("!!!")):
                if record is not None:
                    yield record
                record, pending = begun, ""
                continue
        if record is not None:
            pending = read_line(record, line, pending)
    if record is not None:
        yield record


def _take_block(record: Record, lines: list[str], begin: int) -> int:
    """Take all rows of a dump without gaps at once, which is most of the work of a large one; the number of the line after it.

    0 where a row is not as long as it must be, or out of order: then each row is taken by itself.
    """
    end = begin
    while end < len(lines) and lines[end][2:4] in (": ", "0:"):
        end += 1
    rows = lines[begin:end]
    try:
        content = bytes.fromhex("".join([row[row.index(":") + 1 :] for row in rows]))
        last = int(rows[-1].partition(":")[0], 16)
    except ValueError:
        return 0
    if len(content) != 16 * len(rows) or last != 16 * (len(rows) - 1):
        return 0
    record.rows = {0: content}
    return end


def _take_row(record: Record, line: str) -> bool:
    """Take a row of sixteen bytes (or fewer at a cut), ``f0: 00 11 ...`` or ``ff0: 00 11 ...``; False where the line is none."""
    at, _, row = line.partition(": ")
    try:
        record.rows[int(at, 16)] = content = bytes.fromhex(row)
    except ValueError:
        return False
    return 0 < len(content) <= 16
