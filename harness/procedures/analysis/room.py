"""How much address space there is and how much GPUs need: the likely cause of a BAR without a place.

need of a GPU    its BARs, each window a multiple of the largest of them
given            the window of the host bridge, then those of the bridges between
"""

from __future__ import annotations

from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Function, Shortage
from harness.units import amount

_GRANULARITY = (
    "raise the firmware's 64-bit window (MMIO above 4G; MMIO high granularity or size), or attach fewer GPUs to this root port"
)


def need_of(picture: Picture, root: str) -> tuple[int, int]:
    """What the GPUs behind a host bridge need at least, in bytes of 32-bit and of prefetchable space, each in its own window.

    A bridge's window is a multiple of 1 MiB and lies at a multiple of its largest BAR, so a GPU occupies more than its BARs' sum.
    """
    gpus = [function for function in picture.by_root.get(root, ()) if function.bars]
    narrow = 0
    for function in gpus:
        sizes = [bar.size for bar in function.bars if bar.index < 6 and bar.is_memory and not bar.prefetchable]
        largest = max(1 << 20, *sizes, 0)
        narrow += -(-sum(sizes) // largest) * largest
    return narrow, max((_stride(function) for function in gpus), default=0) * len(gpus)


def cause_of(picture: Picture, function: Function, size: int, *, wide: bool, short: Shortage | None) -> tuple[str, str]:
    """The likely cause of a BAR of ``size`` bytes (0 where unknown) without a place, and what to do next."""
    root = picture.root_of(function.bdf)
    windows = [window for window in picture.windows_of(root) if window.is_32bit != wide]
    largest = max((window.size for window in windows), default=0)
    if wide and not windows and picture.windows_of(root):
        return f"{root} has no 64-bit window", "switch MMIO above 4G on in the firmware's setup"
    if wide and size and largest and largest < size:
        return (
            f"the root window of {root}, {size_text(largest)}, is smaller than the {size_text(size)} needed; "
            "no kernel option widens it",
            _GRANULARITY,
        )
    if above := _window_above(picture, function, wide=wide):
        return above
    need = need_of(picture, root)[wide]
    if largest and need and need * 2 <= largest:
        return (
            f"the {'64' if wide else '32'}-bit window of {root}, {size_text(largest)}, could hold the {size_text(need)} of these "
            "GPUs: a bridge's window between is too small, as after a hot-add, or something else took the space",
            "compare the bridges' windows with a good neighbour's; attach before the boot, or boot once with pci=realloc",
        )
    if largest:
        return f"the {'64' if wide else '32'}-bit window of {root}, {size_text(largest)}, is used up by what is behind it", (
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
                f"the port window of {bridge.bdf} is {size_text(window.size)}, and {len(gpus)} GPUs behind it need "
                f"{size_text(need)} with alignment",
                "let firmware or kernel size that window with padding (newer kernels do), or attach fewer GPUs behind this port",
            )
    return None


def _stride(function: Function) -> int:
    sizes = [bar.size for bar in function.bars if bar.index < 6 and bar.is_memory and bar.prefetchable]
    largest = max(sizes, default=0)
    return -(-sum(sizes) // largest) * largest if largest else 0


def size_text(size: int) -> str:
    """A size for people, with its unit."""
    (text,), unit = amount(size, unit="B")
    return f"{text} {unit}"
