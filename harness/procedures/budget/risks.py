"""What can go wrong with a budget, at POST and in Linux, kept apart: the two fail in other ways and are put right in other ways.

POST    firmware finds no place: UEFI0134 (only a warning, and a GPU is missing) or UEFI0256 (the start may never end)
Linux   firmware left something to the kernel, or something is added while it runs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.procedures.budget.budget import Budget, Resource, Share

_LEGACY_GPUS = 13
"""More VGA-class GPUs than this have hung in POST (ROCm/legacy-rocm-build#295)."""


class When(StrEnum):
    """Who meets the risk."""

    POST = "POST"
    LINUX = "Linux"


@dataclass(frozen=True)
class Risk:
    """``where`` is the Dell slot, "" for the machine; ``do`` what to do about it before the restart."""

    when: When
    where: str
    what: str
    do: str


@dataclass(frozen=True)
class Knob:
    """A BIOS attribute and the figure of a budget that it changes."""

    attribute: str
    figure: str
    effect: str


KNOBS = (
    Knob("MmioAbove4Gb", "64-bit MMIO", "Disabled: no window above 4 GiB; what is wide must then fit into the 32-bit window"),
    Knob(
        "MemoryMappedIOH",
        "64-bit MMIO",
        "base and size per slot move together: 64 GiB each was seen on an R640, 256 GiB with its base at 12 TB on a C4140 "
        "(inferred). Leave it alone unless 64-bit MMIO is short, and read both back after a change",
    ),
    Knob(
        "SriovGlobalEnable",
        "VF BARs",
        "Enabled: firmware finds room for VF BARs too; network cards need it, RTX 8000 have none",
    ),
    Knob("Slot1, Slot2, Slot3", "everything of a slot", "Disabled: nothing behind it is numbered or placed"),
    Knob("PcieBusCustomization", "bus numbers", "not published: measure"),
    Knob("PCIRootDeviceUnhide", "bus numbers, windows", "not published: measure"),
)
"""None of them widens a slot's 32-bit window, which GPUs with a 16 MiB 32-bit BAR 0 run out of first: spread them instead."""


def risks(budget: Budget) -> tuple[Risk, ...]:
    """What to know before the first start with this population."""
    found = [risk for share in budget.shares if share.gpus for risk in _risks(share)]
    if budget.model.class_code == "0300" and budget.gpus > _LEGACY_GPUS:
        found.append(
            Risk(
                When.POST,
                "",
                f"{budget.gpus} GPUs of the VGA class: machines have hung in POST above {_LEGACY_GPUS} of them",
                "BootMode = Uefi, and option ROMs of these slots off",
            )
        )
    return tuple(found)


def _risks(share: Share) -> Iterator[Risk]:
    where = share.stack.slot
    if share.line(Resource.IO).left < 0:
        windows = share.line(Resource.IO).window // 4096
        yield Risk(
            When.POST,
            where,
            f"UEFI0256: {share.gpus} ports want an I/O window of 4 KiB each and there are {windows}. Linux only logs it; "
            "a Dell may start over and over before anything can be changed remotely",
            f"have a way to detach GPUs with the host off; first start with at most {windows} behind this slot, then look for it",
        )
    memory = [line for line in share.lines if line.resource in (Resource.LOW, Resource.WIDE) and line.left < 0]
    if memory and not share.fits:
        yield Risk(
            When.POST,
            where,
            f"UEFI0134: {' and '.join(line.resource.value for line in memory)} short; only a warning, and GPUs are lost",
            f"at most {share.most} behind this slot",
        )
    if share.line(Resource.BUSES).left < 0:
        yield Risk(
            When.POST,
            where,
            "bus numbers run out: bridges stay without devices below them",
            "fewer ports, or a slot with more numbers",
        )
    yield from _for_linux(share)


def _for_linux(share: Share) -> Iterator[Risk]:
    if share.fits and share.lost:
        yield Risk(
            When.LINUX,
            share.stack.slot,
            f"its own allocator pads windows more than firmware does: where it has to place them (pci=realloc), {share.lost} "
            f"of {share.gpus} GPUs get no place",
            f"leave pci=realloc off, or stay at {share.kernel_most} behind this slot",
        )
    if share.gpus < share.slots or share.fits:
        yield Risk(
            When.LINUX,
            share.stack.slot,
            "root windows are fixed at POST: a GPU added while Linux runs finds only what was reserved for its port (2 MiB)",
            "attach with the host off, chassis first, and start cold",
        )


def told(found: Sequence[Risk], when: When) -> tuple[Risk, ...]:
    """The risks of one kind; what all slots share is told once, with all their names."""
    places: dict[tuple[str, str], list[str]] = {}
    for risk in found:
        if risk.when is when:
            places.setdefault((risk.what, risk.do), []).append(risk.where)
    return tuple(Risk(when, ", ".join(filter(None, where)), what, do) for (what, do), where in places.items())
