"""``bringup pcie``: read what people mailed, and say what is wrong with it and what they left out.

ANALYSIS of 2 files, no machine was touched: 1 fault, 0 warnings
files      what each was recognised as
chain      enumerated 8 > BARs assigned 6 > ...
tree       GPUs and the bridges above them, with links and windows
findings   what, where, quote, likely cause, next step
not told   what these files cannot show, and what to mail
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from harness import locator
from harness.cli.analysis import content_of, cut, finding_lines, headline
from harness.cli.streams import complain
from harness.devices.dumps.harvest import Harvest
from harness.devices.dumps.picture import Picture, merge
from harness.devices.dumps.recognise import read_dump
from harness.devices.pcie import Function
from harness.procedures.analysis.analysis import Analysis, analyse
from harness.procedures.analysis.diagnosis import Severity
from harness.procedures.analysis.room import need_of
from harness.units import amount


def analyse_files(files: Sequence[Path], platform: str | None) -> Analysis:
    """Read the files and judge what they tell together. Raises UsageMistake with one line for a file that cannot be read."""
    expected = None if platform is None else locator.find_platform(platform)[0]
    harvests: list[Harvest] = []
    for file in files:
        if len(files) > 1:
            complain(f"reading {file}")
        harvests += read_dump(str(file), content_of(file))
    return analyse(merge(harvests), expected)


def as_json(analysis: Analysis) -> str:
    """The whole analysis as one JSON object."""
    picture = analysis.picture
    told = {
        "schema": 1,
        "failed": analysis.failed,
        "files": [{"source": each.source, "format": each.format.value, "summary": each.summary} for each in picture.harvests],
        "system": dict(picture.system),
        "chain": dict(analysis.counts),
        "gpus": [asdict(gpu) for gpu in picture.gpus],
        "functions": [_as_fact(picture, function) for function in picture.snapshot.functions],
        "windows": [asdict(window) for window in picture.snapshot.windows],
        "findings": [asdict(diagnosis) for diagnosis in analysis.diagnoses],
        "unread": [asdict(unread) for unread in analysis.unread],
    }
    return json.dumps(told, indent=1)


def as_text(analysis: Analysis) -> Iterator[str]:
    """The whole analysis as a person reads it."""
    picture = analysis.picture
    yield _headline(analysis)
    yield ""
    for harvest in picture.harvests:
        yield f"  {harvest.source}: {harvest.format.value}, {harvest.summary}"
    if picture.system:
        yield "  " + ", ".join(f"{key} {value}" for key, value in sorted(picture.system.items()))
    if analysis.counts:
        yield ""
        yield "  " + " > ".join(f"{name} {count}" for name, count in analysis.counts)
    tree = list(_tree(picture))
    if tree:
        yield ""
        yield from tree
    windows = list(_windows(picture))
    if windows:
        yield ""
        yield "address space of the host bridges"
        yield from windows
    for diagnosis in analysis.diagnoses:
        yield ""
        yield from finding_lines(diagnosis)
    yield ""
    yield "these files do not tell"
    for unread in analysis.unread:
        yield f"  {unread}"


def _headline(analysis: Analysis) -> str:
    count = len({harvest.source.split(":", 1)[0] for harvest in analysis.picture.harvests})
    return headline(count, len(analysis.of(Severity.FAIL)), len(analysis.of(Severity.WARN)))


def _tree(picture: Picture) -> Iterator[str]:
    """The GPUs on the bus, below the bridges above them; everything else is only counted."""
    wanted = {hop.bdf for function in picture.on_bus for hop in picture.snapshot.chain_up(function)}
    shown = sorted(
        (function for function in picture.snapshot.functions if function.bdf in wanted), key=lambda function: function.path
    )
    root = ""
    for function in shown:
        if function.root != root:
            root = function.root
            yield root
        yield f"{'  ' * function.path.count('/')}{_line(picture, function)}"
    others = len(picture.snapshot.functions) - len(shown)
    if shown and others:
        yield f"and {others} functions that are not on the way to a GPU"


def _line(picture: Picture, function: Function) -> str:
    words = [function.bdf, f"[{function.vendor}:{function.device or '????'}]" if function.vendor else ""]
    link = function.link
    if link.current_width is not None and not function.is_gone:
        speed = f"{link.current_speed:g} GT/s " if link.current_speed else ""
        words.append(
            f"{speed}x{link.current_width}" + (f" of x{link.max_width}" if link.max_width not in (None, link.current_width) else "")
        )
    if function.is_bridge:
        window = function.bar(15)
        words.append(f"window {_size(window.size)}" if window is not None and window.assigned else "")
    else:
        bars = [bar for bar in function.bars if bar.index < 6 and bar.is_memory]
        words.append(" ".join(f"BAR{bar.index} {_size(bar.size) if bar.assigned else 'unassigned'}" for bar in bars))
        words.append(function.driver)
        words.append("GONE" if function.is_gone else "")
        words.append(cut(picture.names.get(function.bdf, ""), 60))
    return "  ".join(word for word in words if word)


def _windows(picture: Picture) -> Iterator[str]:
    """What each host bridge may hand out, and what the GPUs behind it need at least."""
    holders = [function.root for function in picture.on_bus if function.bars]
    for root in dict.fromkeys([*(window.root for window in picture.snapshot.windows), *holders]):
        sizes = [f"{'32' if window.is_32bit else '64'}-bit {_size(window.size)}" for window in picture.windows_of(root)]
        buses = next((each for each in picture.snapshot.log.roots if each.root == root and each.kind == "bus"), None)
        if buses is not None:
            sizes.append(f"{buses.size} buses ({buses.start:02x}-{buses.end:02x})")
        gpus = holders.count(root)
        narrow, wide = need_of(picture, root)
        need = (
            f"; {gpus} GPU{'s' * (gpus != 1)} need {_size(narrow)} of 32-bit and {_size(wide)} of 64-bit space at least"
            if gpus
            else ""
        )
        yield f"  {root}: {', '.join(sizes) or 'windows not told (the kernel log of the boot tells them)'}{need}"


def _as_fact(picture: Picture, function: Function) -> dict[str, object]:
    return {
        "bdf": function.bdf,
        "path": function.path,
        "id": function.id if function.vendor else "",
        "subsystem": function.subsystem,
        "class": function.class_code,
        "name": picture.names.get(function.bdf, ""),
        "driver": function.driver,
        "link": asdict(function.link),
        "bars": [{"name": bar.name, "size": bar.size, "start": bar.start, "assigned": bar.assigned} for bar in function.bars],
        "gone": function.is_gone,
    }


def _size(size: int) -> str:
    (text,), unit = amount(size, unit="B")
    return f"{text} {unit}"
