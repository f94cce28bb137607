"""What the kernel's lines about address space mean, and what they do not mean.

Severity follows the resource, never the line alone: healthy machines print dozens of "no space" lines about I/O windows, ROMs and
windows of empty hot-plug ports. The final state decides; a log of the boot explains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Function, Shortage
from harness.devices.pcie.kernel_events import Kind
from harness.procedures.analysis.bars import without_place
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.procedures.analysis.room import cause_of, size_text

_SMALL_WINDOW = 16 << 20
"""Hot-plug reserves are 2 MiB unless asked for otherwise (Linux Documentation/admin-guide/kernel-parameters.txt, hpmmiosize)."""


def judge_shortages(picture: Picture) -> Iterator[Diagnosis]:
    """Lines about shortage that no GPU of the picture explains, and a count of the harmless ones."""
    harmless: Counter[str] = Counter()
    lost = {function.bdf for function in picture.on_bus for _ in without_place(picture, function)}
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


def judge_windows(picture: Picture) -> Iterator[Diagnosis]:
    """Windows that the kernel itself calls too small, BARs that hold nonsense, and clashes of VF BARs."""
    for event in picture.events:
        source = picture.source_of(event.line)
        if event.kind is Kind.WINDOW_SHORT:
            yield Diagnosis(
                Severity.FAIL,
                "aperture",
                picture.label(event.bdf),
                f"the window above cannot hold the {size_text(event.number('need'))} that it needs",
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
    cause, do = cause_of(picture, known, resource.size, wide=wide, short=shortage)
    is_other = function is not None and bool(function.class_code) and not function.is_gpu
    is_mild = is_other or (shortage.event == "not claimed")
    return Diagnosis(
        Severity.WARN if is_mild else Severity.FAIL,
        "aperture" if wide else "bars",
        picture.label(shortage.bdf),
        f"{shortage.name} of {size_text(resource.size)} has no address ({'64' if wide else '32'}-bit memory-mapped I/O)",
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
    given = f"; the window of {root} is {size_text(largest)}" if largest else ""
    return Diagnosis(
        Severity.FAIL,
        "aperture" if resource.prefetchable else "bars",
        picture.label(shortage.bdf),
        f"the {size_text(resource.size)} that are needed behind this bridge have no place",
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
