"""Address windows: how much a set of BARs needs, and who gets what where it does not fit.

    window  |-------- given to a stack of the host --------|
    wants   [  bridge window, aligned 256M  ][ 16M ][16M][1M]      largest alignment first, then in order
    left                                                     |==|

Two rules make a small window fail the way firmware makes it fail: a want gets all or nothing, except that the window of a
bridge with further bridges below takes what is left and hands the shortage down. So a full window loses the last devices,
not the whole chassis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Region:
    """A range of addresses: ``start`` and ``size`` in bytes."""

    start: int
    size: int

    @property
    def last(self) -> int:
        """The last address that belongs to it."""
        return self.start + self.size - 1

    def __str__(self) -> str:
        return f"{self.start:#010x}-{self.last:#010x}"


@dataclass(frozen=True)
class Want:
    """A request for ``size`` bytes on a multiple of ``align``; one that ``shrinks`` takes less where less is left."""

    size: int
    align: int
    shrinks: bool = False


def place(window: Region | None, wants: Sequence[Want]) -> tuple[Region | None, ...]:
    """Give each want its region of ``window`` in the order of ``wants``; None for those that do not fit.

    Regions never overlap, keep their alignment and stay inside the window.
    """
    given: list[Region | None] = [None] * len(wants)
    if window is None:
        return tuple(given)
    order = sorted(range(len(wants)), key=lambda index: (-wants[index].align, index))
    cursor = window.start
    for rank, index in enumerate(order):
        want = wants[index]
        start = aligned(cursor, want.align)
        left = window.last + 1 - start
        if want.shrinks and want.size > left:
            left -= sum(wants[later].size for later in order[rank + 1 :])
            given[index] = Region(start, left - left % MIB) if left >= MIB else None
        elif want.size <= left:
            given[index] = Region(start, want.size)
        if (region := given[index]) is not None:
            cursor = region.last + 1
    return tuple(given)


def needed(wants: Sequence[Want], grain: int, *, shrinks: bool = False) -> Want | None:
    """The window that a bridge needs for ``wants``, in multiples of ``grain`` bytes; None where it needs none."""
    if not wants:
        return None
    align = max(grain, *(want.align for want in wants))
    regions = place(Region(0, sum(want.size + want.align for want in wants)), wants)
    end = max(region.last + 1 for region in regions if region is not None)
    return Want(aligned(end, grain), align, shrinks)


def aligned(address: int, align: int) -> int:
    """The next multiple of ``align`` at or after ``address``."""
    return -(-address // align) * align
