"""From a platform to what hangs from one host bridge: the bridges on the ways to its slots, and a part in the first N of them.

    pci0000:3a ─ 00.0 root port ─ 00.0 upstream ─ 00.0 downstream ─ 00.0 upstream ─┬ 01.0 port ─ 00.0 part
                                    └ switch_bar                      └ switch_bar  ├ 02.0 port ─ 00.0 part
                                                                                    └ 0b.0 port   one more than the platform has

Every declared port counts, populated or not, for each takes a bus number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.errors import ConfigError
from harness.platform import DeviceModel, Platform, Slot, Stack
from harness.procedures.budget.demand import Ask, Device, Openings, Region, Space

MOST_PORTS = 32
"""Devices that one bus can have."""


def slots_of(platform: Platform, stack: Stack) -> tuple[Slot, ...]:
    """The platform's slots behind a stack, in the order of the file."""
    return tuple(slot for slot in platform.slots if slot.hba == stack.slot)


def openings_of(stack: Stack) -> Openings:
    """What the stack's host bridge hands out; a range whose place is not known begins where no alignment costs anything."""
    wide = () if stack.wide is None else (Region(int(stack.wide_at or "0", 16), int(stack.wide)),)
    io = () if stack.io is None else (Region(0x1000, int(stack.io)),)
    return Openings(io=io, low=(Region(int(stack.low_at or "0", 16), int(stack.low)),), wide=wide)


def cable(platform: Platform, stack: Stack, model: DeviceModel, count: int) -> tuple[Device, ...]:
    """What is on the stack's root bus with ``count`` parts of ``model`` behind it.

    A stack without slots is cabled like the first that has some. Raises ConfigError where the platform has none to take after.
    """
    ways = [_hops(slot) for slot in slots_of(platform, stack)]
    if not ways:
        ways = next(
            ([_hops(slot) for slot in slots_of(platform, other)] for other in platform.stacks if slots_of(platform, other)), []
        )
    if not ways:
        raise ConfigError(
            platform.name, "no [[slot]] names the slot of a [[stack]] as its hba, so it is not known what hangs there"
        )
    ways = list(_with_more_ports(ways, count))
    populated = {tuple(way) for way in ways[:count]}
    return _bus(ways, (), populated, _asks(model), platform.pcie.switch_bar)


def _hops(slot: Slot) -> list[str]:
    return slot.path.split("/")[1:]


def _with_more_ports(ways: Sequence[list[str]], count: int) -> Iterator[list[str]]:
    """The ways to the slots, and for as many more as ``count`` wants further ports beside the last one's."""
    yield from ways
    last = ways[-1]
    depth = max(0, len(last) - 2)
    taken = {int(way[depth][:2], 16) for way in ways if way[:depth] == last[:depth]}
    free = (place for place in range(256) if place not in taken)
    for _ in range(count - len(ways)):
        yield [*last[:depth], f"{next(free):02x}.0", *last[depth + 1 :]]


def _bus(
    ways: Sequence[list[str]], above: tuple[str, ...], populated: set[tuple[str, ...]], part: tuple[Ask, ...], switch: float | None
) -> tuple[Device, ...]:
    """The devices on the bus to which the walk ``above`` leads, in the order of their numbers."""
    depth = len(above)
    places = sorted({way[depth] for way in ways if tuple(way[:depth]) == above and len(way) > depth})
    return tuple(device for place in places if (device := _device(ways, (*above, place), populated, part, switch)) is not None)


def _device(
    ways: Sequence[list[str]], walk: tuple[str, ...], populated: set[tuple[str, ...]], part: tuple[Ask, ...], switch: float | None
) -> Device | None:
    if any(tuple(way) == walk for way in ways):
        return Device(walk[-1], part) if walk in populated else None
    is_upstream = len(walk) % 2 == 0  # below a root port, a switch's upstream and downstream ports take turns
    own = (Ask("BAR 0", int(switch), Space.LOW),) if is_upstream and switch else ()
    return Device(walk[-1], own, is_bridge=True, children=_bus(ways, walk, populated, part, switch))


def _asks(model: DeviceModel) -> tuple[Ask, ...]:
    """Everything that one part asks for, function by function."""
    bars = {**model.assumed, **model.bars}
    wide = tuple(index for index in bars if index) if model.wide is None else model.wide
    asks = [*_memory("BAR", bars, wide)]
    asks += [Ask(f"BAR {index}", int(size), Space.IO) for index, size in sorted(model.io.items())]
    if model.rom is not None:
        asks.append(Ask("ROM", int(model.rom), Space.LOW))
    if model.virtual is not None:
        asks += _memory("VF BAR", model.virtual.bars, model.virtual.wide, model.virtual.count)
    for function in model.functions:
        asks += _memory(f"{function.name} BAR", function.bars, function.wide)
    return tuple(asks)


def _memory(name: str, bars: dict[int, float], wide: Sequence[int], times: int = 1) -> Iterator[Ask]:
    for index, size in sorted(bars.items()):
        yield Ask(f"{name} {index}", int(size) * times, Space.WIDE if index in wide else Space.LOW, int(size))
