"""Address space and bus numbers: what has no place, what lines about shortage mean, and what they do not mean.

Severity follows the resource, never the line alone: healthy machines print dozens of "no space" lines about I/O windows, ROMs and
windows of empty hot-plug ports. The final state decides; a log of the boot explains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Bar, Function, Shortage
from harness.devices.pcie.kernel_events import Kind
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.procedures.chain import aperture_index
from harness.procedures.chain_causes import is_wide
from harness.units import amount

_SMALL_WINDOW = 16 << 20
"""Hot-plug reserves are 2 MiB unless asked for otherwise (Linux Documentation/admin-guide/kernel-parameters.txt, hpmmiosize)."""
_GRANULARITY = (
    "raise the firmware's 64-bit window (MMIO above 4G; MMIO high granularity or size), or attach fewer GPUs to this root port"
)


def judge_bars(picture: Picture) -> Iterator[Diagnosis]:
    """Every GPU on the bus: has each BAR that it needs a place, and is it as large as that of its like?"""
    for function in picture.on_bus:
        if function.is_gone:
            continue
        lost = [*_without_place(picture, function)]
        for index, size, evidence in lost[:1]:
            rest = tuple(f"BAR {other}: {why}" for other, _, why in lost[1:])
            yield _no_place(picture, function, (index, size, evidence), rest)
        if not lost:
            yield from _smaller_than_like(picture, function)


def judge_shortages(picture: Picture) -> Iterator[Diagnosis]:
    """Lines about shortage that no GPU of the picture explains, and a count of the harmless ones."""
    harmless: Counter[str] = Counter()
    lost = {function.bdf for function in picture.on_bus for _ in _without_place(picture, function)}
    for shortage in picture.snapshot.log.shortages:
        function = picture.snapshot.by_bdf.get(shortage.bdf)
        if shortage.name.startswith("VF BAR"):
            yield _vf_shortage(picture, shortage)
        elif shortage.is_harmless:
            harmless["I/O space" if shortage.resource.kind == "io" else "ROMs"] += 1
        elif shortage.name == "bridge window":
            below = () if function is None else picture.snapshot.below(function)
            if any(each.bdf in lost for each in below):
                continue  # told with the GPU that it costs
            if below or _is_empty_port(picture, function) or shortage.resource.size < _SMALL_WINDOW:
                harmless["windows of ports with nothing that needs them"] += 1
            else:
                yield _window_shortage(picture, shortage)
        elif shortage.bdf in lost:
            continue
        elif _is_placed(picture, function, shortage):
            harmless["resources that have their place in the end"] += 1
        else:
            yield _bar_shortage(picture, shortage, function)
    if harmless:
        told = ", ".join(f"{count} about {what}" for what, count in sorted(harmless.items()))
        yield Diagnosis(Severity.NOTE, "shortage", "kernel log", f"lines about shortage that cost no GPU anything: {told}")


def judge_buses(picture: Picture) -> Iterator[Diagnosis]:
    """Bridges without bus numbers for what is behind them."""
    seen = set()
    for shortage in picture.snapshot.log.buses:
        if shortage.bdf in seen:
            continue
        seen.add(shortage.bdf)
        is_mild = "has subordinate" in shortage.line
        function = picture.snapshot.by_bdf.get(shortage.bdf)
        behind = () if function is None else picture.snapshot.below(function)
        root = picture.root_of(shortage.bdf)
        whole = next((each for each in picture.snapshot.log.roots if each.root == root and each.kind == "bus"), None)
        spans = []
        if function is not None and function.secondary_bus is not None and function.subordinate_bus is not None:
            spans.append(f"bus range {function.secondary_bus:02x}-{function.subordinate_bus:02x} of the bridge is full")
        if whole is not None:
            spans.append(f"{root} has {whole.size} numbers, {whole.start:02x}-{whole.end:02x}")
        yield Diagnosis(
            Severity.WARN if is_mild and behind else Severity.FAIL,
            "buses",
            picture.label(shortage.bdf),
            "no bus number is left for what is behind this bridge",
            shortage.line,
            picture.source_of(shortage.line),
            "; ".join(spans) or "the bus numbers behind this bridge were reserved at boot, and are used up",
            "power fabric and chassis before the host and cold-boot, so that firmware numbers them; or reserve more (hpbussize), "
            "or use a slot whose host bridge has more numbers",
            (shortage.bdf,),
            Link.BUSES,
        )


def judge_windows(picture: Picture) -> Iterator[Diagnosis]:
    """Windows that the kernel itself calls too small, BARs that hold nonsense, and clashes of VF BARs."""
    for event in picture.events:
        source = picture.source_of(event.line)
        if event.kind is Kind.WINDOW_SHORT:
            yield Diagnosis(
                Severity.FAIL,
                "aperture",
                picture.label(event.bdf),
                f"the window above cannot hold the {_size(event.number('need'))} that it needs",
                event.line,
                source,
                "a reserve for hot-plug is shared out between sibling ports: each gets a part of hpmmioprefsize",
                "raise hpmmioprefsize to that need times the number of sibling ports, or attach before the boot",
                (event.bdf,),
                Link.BARS,
            )
        elif event.kind is Kind.BAR_INVALID:
            yield Diagnosis(
                Severity.FAIL,
                "bars",
                picture.label(event.bdf),
                "a BAR is invalid before any driver ran",
                event.line,
                source,
                "firmware left it so: too little memory-mapped I/O for this many GPUs, or a fault of this firmware",
                "check MMIO above 4G in the firmware's setup, update the firmware, boot with fewer GPUs",
                (event.bdf,),
                Link.BARS,
            )
        elif event.kind is Kind.PNP_CLASH:
            yield Diagnosis(
                Severity.WARN,
                "vf-bars",
                picture.label(event.bdf),
                "a VF BAR has no place (it stands at address 0) and clashes with another device",
                event.line,
                source,
                "SR-IOV asks for more address space than there is; GPUs work without it",
                "switch SR-IOV off in the firmware's setup if nobody needs it",
                (event.bdf,),
            )


def judge_firmware(picture: Picture) -> Iterator[Diagnosis]:
    """What firmware and management controllers say, which is the first evidence where there is no boot."""
    for found in picture.firmware:
        yield Diagnosis(
            Severity.WARN if "option ROM" in found.rule else Severity.FAIL,
            "post",
            "firmware",
            f"firmware says that {found.rule}",
            found.line,
            "",
            "the GPUs ask for more than this firmware hands out: memory-mapped I/O, I/O space for bridges, option ROMs "
            "or bus numbers",
            "detach GPUs with the host off until it boots, then compare the windows of its host bridges with the need",
        )
    legacy = [function for function in picture.on_bus if function.kind == "0300"]
    if len(legacy) > 8:
        yield Diagnosis(
            Severity.WARN,
            "vga",
            f"{len(legacy)} GPUs",
            f"{len(legacy)} GPUs are of the VGA class, with legacy ranges and option ROMs",
            "",
            "",
            "legacy firmware tries to give each of them an option ROM below 1 MiB; machines have hung in POST above 13",
            "boot in UEFI mode with option ROMs of these slots off; cards of the 3D-controller class do not have this limit",
        )


def need_of(picture: Picture, root: str) -> tuple[int, int]:
    """What the GPUs behind a host bridge need at least, in bytes of 32-bit and of prefetchable space, each in its own window.

    A bridge's window is a multiple of 1 MiB and lies at a multiple of its largest BAR, so a GPU occupies more than its BARs' sum.
    """
    gpus = [function for function in picture.on_bus if function.root == root and function.bars]
    narrow = 0
    for function in gpus:
        sizes = [bar.size for bar in function.bars if bar.index < 6 and bar.is_memory and not bar.prefetchable]
        largest = max(1 << 20, *sizes, 0)
        narrow += -(-sum(sizes) // largest) * largest
    return narrow, max((_stride(function) for function in gpus), default=0) * len(gpus)


def _without_place(picture: Picture, function: Function) -> Iterator[tuple[int, int, str]]:
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
                f"BAR {bar.index} has {_size(bar.size)}, that of its like {_size(usual)}",
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
    cause, do = _cause(picture, function, size, wide=wide, short=short)
    of = f" of {_size(size)}" if size else ""
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


def _cause(picture: Picture, function: Function, size: int, *, wide: bool, short: Shortage | None) -> tuple[str, str]:
    root = picture.root_of(function.bdf)
    windows = [window for window in picture.windows_of(root) if window.is_32bit != wide]
    largest = max((window.size for window in windows), default=0)
    if wide and not windows and picture.windows_of(root):
        return f"{root} has no 64-bit window", "switch MMIO above 4G on in the firmware's setup"
    if wide and size and largest and largest < size:
        return (
            f"the root window of {root}, {_size(largest)}, is smaller than the {_size(size)} needed; no kernel option widens it",
            _GRANULARITY,
        )
    if above := _window_above(picture, function, wide=wide):
        return above
    need = need_of(picture, root)[wide]
    if largest and need and need * 2 <= largest:
        return (
            f"the {'64' if wide else '32'}-bit window of {root}, {_size(largest)}, could hold the {_size(need)} of these GPUs: "
            "a bridge's window between is too small, as after a hot-add, or something else took the space",
            "compare the bridges' windows with a good neighbour's; attach before the boot, or boot once with pci=realloc",
        )
    if largest:
        return f"the {'64' if wide else '32'}-bit window of {root}, {_size(largest)}, is used up by what is behind it", (
            _GRANULARITY
            if wide
            else "spread the GPUs over more root ports: each takes 16 MiB or more below 4 GiB, and no option widens that"
        )
    return _unmeasured_cause(short, wide=wide)


def _unmeasured_cause(short: Shortage | None, *, wide: bool) -> tuple[str, str]:
    """The likely cause where no file tells the size of the window."""
    if not wide:
        return "32-bit memory-mapped I/O is exhausted: that window is small, and every GPU before Hopper needs 16 MiB of it", (
            "spread the GPUs over more root ports, and switch option ROMs and unused functions off"
        )
    if short is None:
        return "it was passed over without a word: the windows above were sized without padding, or firmware left the BAR out", (
            "compare with a good neighbour; try a newer kernel, or one boot with pci=realloc"
        )
    return "the 64-bit window above is too small for what is behind it", _GRANULARITY


def _window_above(picture: Picture, function: Function, *, wide: bool) -> tuple[str, str] | None:
    """The nearest bridge above whose window is smaller than the GPUs behind it need, each rounded up to its largest BAR."""
    if not wide:
        return None
    for bridge in picture.snapshot.chain_up(function)[1:]:
        window = bridge.bar(15)
        gpus = [other for other in picture.snapshot.below(bridge) if other in picture.on_bus]
        strides = [_stride(other) for other in gpus]
        need = max(strides, default=0) * len(gpus)
        if window is not None and window.assigned and need > window.size:
            return (
                f"the port window of {bridge.bdf} is {_size(window.size)}, and {len(gpus)} GPUs behind it need "
                f"{_size(need)} with alignment",
                "let firmware or kernel size that window with padding (newer kernels do), or attach fewer GPUs behind this port",
            )
    return None


def _stride(function: Function) -> int:
    sizes = [bar.size for bar in function.bars if bar.index < 6 and bar.is_memory and bar.prefetchable]
    largest = max(sizes, default=0)
    return -(-sum(sizes) // largest) * largest if largest else 0


def _is_empty_port(picture: Picture, function: Function | None) -> bool:
    """A bridge that the picture knows, with nothing behind it."""
    return function is not None and picture.lists_bus and not picture.snapshot.below(function)


def _is_placed(picture: Picture, function: Function | None, shortage: Shortage) -> bool:
    if function is None or picture.bars_from.get(function.bdf) is Format.KERNEL_LOG:
        return False
    bar = function.bar(int(shortage.name[-1]))
    return bar is not None and bar.assigned


def _bar_shortage(picture: Picture, shortage: Shortage, function: Function | None) -> Diagnosis:
    """A BAR of something that is no known GPU."""
    resource = shortage.resource
    wide = resource.is_64bit
    known = Function(shortage.bdf, "") if function is None else function
    cause, do = _cause(picture, known, resource.size, wide=wide, short=shortage)
    is_other = function is not None and bool(function.class_code) and not function.is_gpu
    is_mild = is_other or (shortage.event == "not claimed")
    return Diagnosis(
        Severity.WARN if is_mild else Severity.FAIL,
        "aperture" if wide else "bars",
        picture.label(shortage.bdf),
        f"{shortage.name} of {_size(resource.size)} has no address ({'64' if wide else '32'}-bit memory-mapped I/O)",
        shortage.line,
        picture.source_of(shortage.line),
        cause,
        do,
        (shortage.bdf,),
        Link.BARS,
    )


def _window_shortage(picture: Picture, shortage: Shortage) -> Diagnosis:
    resource = shortage.resource
    root = picture.root_of(shortage.bdf)
    largest = max((window.size for window in picture.windows_of(root) if window.is_32bit != resource.prefetchable), default=0)
    given = f"; the window of {root} is {_size(largest)}" if largest else ""
    return Diagnosis(
        Severity.FAIL,
        "aperture" if resource.prefetchable else "bars",
        picture.label(shortage.bdf),
        f"the {_size(resource.size)} that are needed behind this bridge have no place",
        shortage.line,
        picture.source_of(shortage.line),
        "the window above this bridge is smaller than what is behind it needs: a reserve for hot-plug of 2 MiB, or "
        f"firmware's choice{given}",
        "attach before the boot so that firmware sizes the window, or reserve with hpmmioprefsize; check MMIO above 4G",
        (shortage.bdf,),
        Link.BARS,
    )


def _vf_shortage(picture: Picture, shortage: Shortage) -> Diagnosis:
    return Diagnosis(
        Severity.WARN,
        "vf-bars",
        picture.label(shortage.bdf),
        f"{shortage.name} has no place: SR-IOV cannot be switched on there",
        shortage.line,
        picture.source_of(shortage.line),
        "SR-IOV asks for address space for every virtual function",
        "none if nobody needs SR-IOV: switch it off in the firmware's setup and the space is free",
        (shortage.bdf,),
    )


def _size(size: int) -> str:
    (text,), unit = amount(size, unit="B")
    return f"{text} {unit}"
