"""From the bytes of a file to what is in it: results of GPU tests here, everything else by the readers of machines' files.

bytes ─ gzip, bzip2, xz ─ text ─┬─ readers of results, each takes its own lines ─ Reading
                                └─ dumps (nvidia-smi, topo, lspci, kernel log) ─── Harvest
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.devices.dumps.harvest import Harvest
from harness.devices.dumps.recognise import LARGEST, read_dump
from harness.devices.gpu_reports import (
    dcgm_diag,
    known_lines,
    machine_notes,
    nccl_tests,
    nvbandwidth,
    p2p_sample,
    processes,
    stress,
    superbench,
    tf_cnn_benchmarks,
)
from harness.devices.gpu_reports.facts import Reading
from harness.devices.pcie import Unread
from harness.errors import UsageMistake

_KNOWN = (
    "p2pBandwidthLatencyTest, nvbandwidth, nccl-tests, tf_cnn_benchmarks, nvidia-smi (topo -m, topo -p2p, -q -x), DCGM diag JSON, "
    "SuperBench results, gpu-burn, and what bringup pcie analyze reads"
)
_UNKNOWN = "nothing in it is known"
_READERS: tuple[tuple[Callable[[str], bool], Callable[[str, str], Reading]], ...] = (
    (p2p_sample.looks_like, p2p_sample.parse),
    (nvbandwidth.looks_like, nvbandwidth.parse),
    (nccl_tests.looks_like, nccl_tests.parse),
    (tf_cnn_benchmarks.looks_like, tf_cnn_benchmarks.parse),
    (machine_notes.looks_like_notes, machine_notes.parse_notes),
    (machine_notes.looks_like_trace, machine_notes.parse_trace),
    (dcgm_diag.looks_like, dcgm_diag.parse),
    (superbench.looks_like_copies, superbench.parse_copies),
    (superbench.looks_like_results, superbench.parse_results),
    (stress.looks_like_burn, stress.parse_burn),
    (stress.looks_like_host_copies, stress.parse_host_copies),
    (processes.looks_like, processes.parse),
    (known_lines.looks_like, known_lines.parse),
)
"""A look for a format that costs little, and its reader. A reading without a summary found nothing after all."""


@dataclass(frozen=True)
class Found:
    """Everything that a file gave."""

    readings: tuple[Reading, ...] = ()
    harvests: tuple[Harvest, ...] = ()


def read_report(name: str, data: bytes) -> Found:
    """Everything that a file gives. ``name`` may hold its folders: they tell what some logs leave out.

    Raises UsageMistake with one line where the file is empty, damaged, too large, or nothing in it is known.
    """
    if not data:
        raise UsageMistake(f"{name}: the file is empty")
    content, is_whole = _unpacked(name, data)
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    readings = tuple(_readings(name, text))
    left_out = [] if is_whole else [Unread(f"{name}: the end of the file", "it is cut off or damaged", "send it again")]
    try:
        harvests = read_dump(name, data)
    except UsageMistake as mistake:
        is_unknown = _UNKNOWN in str(mistake)
        if not readings and is_unknown:
            raise UsageMistake(f"{name}: {_UNKNOWN}; known are: {_KNOWN}") from mistake
        if not readings:
            raise
        harvests = ()
        if not is_unknown:
            left_out.append(Unread(f"{name}: the rest of the file", str(mistake).removeprefix(f"{name}: "), "send it again"))
    return Found(tuple(replace(reading, unread=tuple(left_out)) for reading in readings), harvests)


def _readings(name: str, text: str) -> Iterator[Reading]:
    for is_there, parse in _READERS:
        if is_there(text):
            reading = parse(text, name)
            if reading.summary:
                yield reading


def _unpacked(name: str, data: bytes) -> tuple[bytes, bool]:
    """The content as far as it goes, and whether it is whole; a tar is left to the readers of machines' files."""
    pieces: list[bytes] = []
    rest, is_whole = data, True
    try:
        while rest and is_whole and (unpacker := _unpacker_for(rest)) is not None:
            pieces.append(unpacker.decompress(rest, LARGEST + 1))
            if sum(map(len, pieces)) > LARGEST:
                raise UsageMistake(f"{name}: unpacks to more than {LARGEST >> 20} MiB; cut out what matters")
            rest, is_whole = unpacker.unused_data, unpacker.eof
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
        if not pieces:
            raise UsageMistake(f"{name}: the packed file is damaged: {error}") from error
        is_whole = False
    return b"".join(pieces) if pieces else data, is_whole


def _unpacker_for(data: bytes) -> zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor | None:
    """What unpacks data that begin so; None where they are not packed."""
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if data.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(memlimit=1 << 28)
    return None
