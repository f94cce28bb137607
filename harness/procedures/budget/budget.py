"""The budget: what GPUs need of each slot's host bridge, what its firmware hands out, and how many fit.

    platform ─ split ─ layout.cable ─┬ firmware.need    what POST must find room for: the verdict
                                     └ kernel.assign    what Linux would place where firmware leaves it to it: a risk of its own

I/O ports are no part of the verdict: GPUs work without them. They are a risk at POST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import ConfigError, UsageMistake
from harness.platform import DeviceModel, Platform, Stack
from harness.procedures.budget import firmware, kernel
from harness.procedures.budget.demand import Device, Openings, Region, Space
from harness.procedures.budget.layout import MOST_PORTS, cable, openings_of, slots_of


class Resource(StrEnum):
    """What runs out."""

    LOW = "32-bit MMIO"
    WIDE = "64-bit MMIO"
    VIRTUAL = "of it VF BARs"
    IO = "I/O ports"
    BUSES = "bus numbers"


_SPACES = {Resource.LOW: Space.LOW, Resource.WIDE: Space.WIDE, Resource.IO: Space.IO}


@dataclass(frozen=True)
class Line:
    """One resource of one stack, in bytes or bus numbers: what firmware's packing needs, what Linux' needs, what there is."""

    resource: Resource
    need: int
    kernel_need: int
    window: int

    @property
    def left(self) -> int:
        """What is left of the window; negative for what is lacking."""
        return self.window - self.need


@dataclass(frozen=True)
class Share:
    """One stack with its GPUs.

    ``fits`` by firmware's packing, I/O ports apart; ``lost`` are the GPUs to which Linux alone would not give all their memory.
    ``most`` is the largest number that fits by firmware's packing, ``kernel_most`` by Linux', ``io_most`` the largest whose I/O
    windows fit; ``slots`` the platform has there.
    """

    stack: Stack
    gpus: int
    slots: int
    lines: tuple[Line, ...]
    fits: bool
    lost: int
    most: int
    kernel_most: int
    io_most: int

    @property
    def safe(self) -> int:
        """The largest number that nothing is foretold to go wrong with, at POST or in Linux."""
        return min(self.most, self.kernel_most, self.io_most)

    def line(self, resource: Resource) -> Line:
        """The line of a resource."""
        return next(line for line in self.lines if line.resource is resource)

    @property
    def short(self) -> tuple[Resource, ...]:
        """What lacks, I/O ports included."""
        return tuple(line.resource for line in self.lines if line.left < 0)


@dataclass(frozen=True)
class Budget:
    """GPUs of one model on one platform, over the stacks that are cabled, and the stacks that could be.

    ``better`` is a split of as many that fits, where this one does not and there is one.
    """

    platform: str
    model: DeviceModel
    shares: tuple[Share, ...]
    spare: tuple[Share, ...] = ()
    better: tuple[int, ...] = ()

    @property
    def gpus(self) -> int:
        """How many in all."""
        return sum(share.gpus for share in self.shares)

    @property
    def fits(self) -> bool:
        """Whether all fit."""
        return all(share.fits for share in self.shares)

    @property
    def most(self) -> int:
        """The largest number that fits over the cabled stacks."""
        return sum(share.most for share in self.shares)

    @property
    def kernel_most(self) -> int:
        """The largest number that fits whoever places them."""
        return sum(min(share.most, share.kernel_most) for share in self.shares)

    @property
    def split(self) -> str:
        """``10 + 10``."""
        return _sum([share.gpus for share in self.shares])

    @property
    def way_out(self) -> str:
        """The better split as it is written, "" where there is none."""
        return _sum(self.better) if self.better else ""


def budgets(
    platform: Platform, gpus: int | None = None, *, split: Sequence[int] = (), model: str = "", where: str = ""
) -> tuple[Budget, ...]:
    """One budget for each model that may sit in the slots, or for the one that is named.

    Without ``gpus`` or ``split`` every declared slot is populated. ``split`` counts GPUs by stack in the order of the platform.
    Raises ConfigError, naming ``where``, for a platform without stacks, UsageMistake for a model or a split that it does not have.
    """
    if not platform.stacks:
        missing = "no [[stack]] says what firmware hands out at each slot's host bridge; the kernel log of a boot tells it"
        raise ConfigError(where or platform.name, f'{missing} ("root bus resource")', key="stack")
    if len(split) > len(platform.stacks):
        raise UsageMistake(
            f"a split of {len(split)}, and {platform.name} has {len(platform.stacks)} stacks: {_named(platform.stacks)}"
        )
    known = [each for each in platform.models if not model or each.name == model]
    if not known:
        listed = ", ".join(repr(each.name) for each in platform.models) or "none"
        raise UsageMistake(f"platform {platform.name} has no model {model!r}; it has {listed}")
    return tuple(_budget(platform, each, gpus, split) for each in known)


def judge_stack(platform: Platform, stack: Stack, model: DeviceModel, gpus: int) -> Share:
    """What ``gpus`` parts need of one stack, and how many it holds."""
    devices, openings = cable(platform, stack, model, gpus), openings_of(stack)
    return Share(
        stack=stack,
        gpus=gpus,
        slots=len(slots_of(platform, stack)),
        lines=tuple(_lines(devices, openings, stack)),
        fits=_fits(devices, openings, stack),
        lost=len(_lost(devices, openings) & set(_parts(devices))),
        most=_most(platform, stack, model, _fits),
        kernel_most=_most(platform, stack, model, _fits_in_linux),
        io_most=_most(platform, stack, model, _fits_in_ports),
    )


def _budget(platform: Platform, model: DeviceModel, gpus: int | None, split: Sequence[int]) -> Budget:
    cabled = [stack for stack in platform.stacks if slots_of(platform, stack)] or list(platform.stacks[:1])
    most = {stack: _most(platform, stack, model, _fits) for stack in cabled}
    if split:
        counts = dict(zip(platform.stacks, split, strict=False))
        shared = {stack: counts.get(stack, 0) for stack in platform.stacks if counts.get(stack) or stack in cabled}
    elif gpus is None:
        shared = {stack: len(slots_of(platform, stack)) for stack in cabled}
    else:
        shared = _spread(most, gpus)
    shares = tuple(judge_stack(platform, stack, model, count) for stack, count in shared.items())
    spare = tuple(judge_stack(platform, stack, model, 0) for stack in platform.stacks if stack not in shared)
    wanted = sum(shared.values())
    is_split_wrong = not all(share.fits for share in shares) and wanted <= sum(most.values())
    better = tuple(_spread(most, wanted).values()) if is_split_wrong else ()
    return Budget(platform.name, model, shares, spare, better)


def _spread(most: dict[Stack, int], gpus: int) -> dict[Stack, int]:
    """As evenly as the stacks hold them; what no stack holds goes where least is, so that the budget shows what lacks."""
    counts = dict.fromkeys(most, 0)
    for _ in range(gpus):
        room = [stack for stack in counts if counts[stack] < most[stack]] or list(counts)
        counts[min(room, key=lambda stack: counts[stack])] += 1
    return counts


def _lines(devices: tuple[Device, ...], openings: Openings, stack: Stack) -> list[Line]:
    lines = []
    for resource, space in _SPACES.items():
        ranges = openings.of(space)
        start = ranges[0].start if ranges else 0
        by_kernel = _kernel_span(devices, space, start)
        lines.append(Line(resource, firmware.need(devices, space, start), by_kernel, sum(each.size for each in ranges)))
    virtual = sum(ask.size for device in devices for ask in device.every_ask() if ask.name.startswith("VF "))
    if virtual:
        lines.insert(2, Line(Resource.VIRTUAL, virtual, virtual, lines[1].window))
    buses = _buses(devices)
    return [*lines, Line(Resource.BUSES, buses, buses, stack.buses)]


def _kernel_span(devices: tuple[Device, ...], space: Space, start: int) -> int:
    """From ``start`` to the end of what Linux would place on the root bus, had it all the room it wants."""
    endless = Region(start, 1 << 62)
    openings = Openings(**{str(space): (endless,)})
    tops = [
        each
        for each in kernel.assign(tuple(device.without(*_others(space)) for device in devices), openings)
        if "/" not in each.path
    ]
    return max((each.region.end - start for each in tops if each.region is not None), default=0)


def _others(space: Space) -> tuple[Space, ...]:
    return tuple(other for other in Space if other is not space)


def _fits(devices: tuple[Device, ...], openings: Openings, stack: Stack) -> bool:
    return firmware.fits(devices, openings) and _has_buses(devices, stack)


def _fits_in_linux(devices: tuple[Device, ...], openings: Openings, stack: Stack) -> bool:
    return not _lost(devices, openings) and _has_buses(devices, stack)


def _fits_in_ports(devices: tuple[Device, ...], openings: Openings, stack: Stack) -> bool:
    del stack
    return firmware.need(devices, Space.IO, 0) <= sum(region.size for region in openings.io)


def _has_buses(devices: tuple[Device, ...], stack: Stack) -> bool:
    return _buses(devices) <= stack.buses


def _buses(devices: tuple[Device, ...]) -> int:
    """The root bus' own number, and one for each bridge."""
    return 1 + sum(device.bridges() for device in devices)


def _lost(devices: tuple[Device, ...], openings: Openings) -> set[str]:
    """The parts and switches to which Linux does not give all their memory, by their walk."""
    windows = frozenset(kernel.WINDOWS.values())
    lacking = (each for each in kernel.assign(devices, openings) if each.region is None and each.ask.space is not Space.IO)
    return {each.path for each in lacking if each.ask.name not in windows}


def _parts(devices: tuple[Device, ...], above: str = "") -> Iterator[str]:
    """The walks to all that is no bridge."""
    for device in devices:
        walk = f"{above}{device.place}"
        if device.is_bridge:
            yield from _parts(device.children, f"{walk}/")
        else:
            yield walk


def _most(platform: Platform, stack: Stack, model: DeviceModel, fits: Callable[[tuple[Device, ...], Openings, Stack], bool]) -> int:
    """The largest number of parts that fit behind a stack, each number below it fitting too."""
    openings = openings_of(stack)
    return next(
        (count - 1 for count in range(1, MOST_PORTS + 1) if not fits(cable(platform, stack, model, count), openings, stack)),
        MOST_PORTS,
    )


def _sum(counts: Sequence[int]) -> str:
    return " + ".join(str(count) for count in counts if count) or "0"


def _named(stacks: Sequence[Stack]) -> str:
    return ", ".join(stack.slot for stack in stacks)
