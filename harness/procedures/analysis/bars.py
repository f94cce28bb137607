"""Does every GPU on the bus have each BAR that it needs, at an address and as large as that of its like?

The final state decides: a Region that is not there at all counts as much as a line that says "no space".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Bar, Function, Shortage
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.procedures.analysis.room import cause_of, size_text
from harness.procedures.chain import aperture_index
from harness.procedures.chain_causes import is_wide


def judge_bars(picture: Picture) -> Iterator[Diagnosis]:
    """Every GPU on the bus: has each BAR that it needs a place, and is it as large as that of its like?"""
    for function in picture.on_bus:
        if function.is_gone:
            continue
        lost = [*without_place(picture, function)]
        for index, size, evidence in lost[:1]:
            rest = tuple(f"BAR {other}: {why}" for other, _, why in lost[1:])
            yield _no_place(picture, function, (index, size, evidence), rest)
        if not lost:
            yield from _smaller_than_like(picture, function)


def judge_resizable(picture: Picture) -> Iterator[Diagnosis]:
    """Resizable BARs: the size in the device's register against the Region, and how much larger apertures could be."""
    larger: dict[int, list[str]] = {}
    for function in picture.on_bus:
        config = function.config
        for entry in () if config is None or config.gone else config.rebar:
            bar = function.bar(entry.index)
            if bar is None or not bar.assigned or not entry.size:
                continue
            if entry.size != bar.size:
                yield Diagnosis(
                    Severity.FAIL,
                    "rebar",
                    picture.label(function.bdf),
                    f"BAR {entry.index} has {size_text(entry.size)} by the device's register, {size_text(bar.size)} by the system",
                    "",
                    "",
                    "the BAR was resized by the firmware or a tool after the system had measured it",
                    "boot again, and leave the resizing to one of them (the firmware's setup, NVreg_EnableResizableBar)",
                    (function.bdf,),
                    Link.BARS,
                )
            elif entry.index == aperture_index(function) and (most := max(entry.sizes, default=0)) > bar.size:
                larger.setdefault(most, []).append(function.bdf)
    for most, gpus in larger.items():
        yield Diagnosis(
            Severity.NOTE,
            "rebar",
            f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}",
            f"the aperture could be as large as {size_text(most)} (resizable BAR): that is a choice, and a larger window to find",
            parts=tuple(gpus),
        )


def without_place(picture: Picture, function: Function) -> Iterator[tuple[int, int, str]]:
    """The memory BARs of a GPU that need a place and have none: (index, bytes or 0, how it shows)."""
    if picture.bars_from.get(function.bdf) is Format.KERNEL_LOG or not function.bars:
        yield from ((bar.index, bar.size, "the last line about it gives it no address") for bar in function.bars if _is_lost(bar))
        yield from _by_registers(function)
        return
    shown = {bar.index for bar in function.bars if bar.index < 6}
    expected = {*shown, *_usual(picture, function)}
    if function.vendor == "10de":
        aperture = aperture_index(function)
        expected |= {0} | ({aperture} if aperture is not None else set())
    for index in sorted(expected, key=lambda each: (each not in shown, each)):
        bar = function.bar(index)
        if bar is None:
            yield index, _usual_size(picture, function, index), f"there is no Region {index}"
        elif _is_lost(bar):
            yield index, bar.size or _usual_size(picture, function, index), _how_lost(bar)


def _how_lost(bar: Bar) -> str:
    if bar.start:
        return f"Region {bar.index} is in the kernel's books and not in the device's own register ([virtual])"
    return f"Region {bar.index} is unassigned"


def _by_registers(function: Function) -> Iterator[tuple[int, int, str]]:
    """What the registers tell where only bytes were mailed: memory decoding is on and a GPU's BAR holds no address."""
    config = function.config
    if config is None or function.bars or not config.memory_enabled or function.vendor != "10de":
        return
    wide = is_wide(function, 0)
    for index in (0, 2 if wide else 1):
        registers = config.bar_registers
        if (
            index + 1 < len(registers)
            and not registers[index] & 0xFFFFFFF0
            and not (is_wide(function, index) and registers[index + 1])
        ):
            yield index, 0, f"the register of BAR {index} holds no address"


def _is_lost(bar: Bar) -> bool:
    return bar.index < 6 and bar.is_memory and not bar.assigned


def _usual(picture: Picture, function: Function) -> Mapping[int, int]:
    """The memory BARs that most GPUs of the same kind have, with their sizes."""
    return picture.usual_bars.get((function.id, function.subsystem), {})


def _usual_size(picture: Picture, function: Function, index: int) -> int:
    return _usual(picture, function).get(index, 0)


def _smaller_than_like(picture: Picture, function: Function) -> Iterator[Diagnosis]:
    for bar in function.bars:
        usual = _usual_size(picture, function, bar.index)
        if bar.index < 6 and bar.is_memory and bar.assigned and bar.size < usual:
            yield Diagnosis(
                Severity.FAIL,
                "aperture",
                picture.label(function.bdf),
                f"BAR {bar.index} has {size_text(bar.size)}, that of its like {size_text(usual)}",
                str(bar),
                "",
                "the BAR was made smaller to fit, or this card is set up in another way (display mode, resizable BAR)",
                "compare the window above it with its neighbours'; read the card's mode with the vendor's tool",
                (function.bdf,),
                Link.BARS,
            )


def _no_place(picture: Picture, function: Function, lost: tuple[int, int, str], rest: tuple[str, ...]) -> Diagnosis:
    """A GPU's BAR without an address, with the line that explains it, or the words that none does."""
    index, size, evidence = lost
    wide = (
        is_wide(function, index)
        if function.bar(index) is not None or function.config is not None
        else index == aperture_index(function)
    )
    wide = wide or index == aperture_index(function)
    short = _explaining(picture, function, index, wide=wide)
    driver = next((bad.line for bad in picture.snapshot.log.invalid_bars if bad.bdf == function.bdf), "")
    line = "" if short is None else short.line
    size = size or (0 if short is None or short.name == "bridge window" else short.resource.size)
    cause, do = cause_of(picture, function, size, wide=wide, short=short)
    of = f" of {size_text(size)}" if size else ""
    what = f"BAR {index}{of} has no address ({'64' if wide else '32'}-bit memory-mapped I/O): {evidence}"
    return Diagnosis(
        Severity.FAIL,
        "aperture" if wide else "bars",
        picture.label(function.bdf),
        what,
        line or driver or "no line of the kernel log tells of it",
        picture.source_of(line or driver),
        cause,
        do,
        (function.bdf,),
        Link.BARS,
        rest,
    )


def _explaining(picture: Picture, function: Function, index: int, *, wide: bool) -> Shortage | None:
    """The line about the BAR itself, else about the window of a bridge above."""
    shortages = picture.snapshot.log.shortages
    own = next((short for short in shortages if short.bdf == function.bdf and short.name == f"BAR {index}"), None)
    above = {bridge.bdf for bridge in picture.snapshot.chain_up(function)[1:]}
    return own or next(
        (
            short
            for short in shortages
            if short.bdf in above and short.resource.kind == "mem" and short.resource.prefetchable == wide
        ),
        None,
    )
