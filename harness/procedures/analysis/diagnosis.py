"""What an analysis says of one thing: how bad, what, where, the words that show it, the likely cause, the next step.

The chain of losses orders what belongs to one part: the first link that lost it is the diagnosis, what follows from it is told
beneath it.

    link < buses < bars < driver < init < runtime < view
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum


class Severity(StrEnum):
    """FAIL: something is wrong. WARN: may be meant so, or will bite later. NOTE: looks bad and is harmless."""

    FAIL = "FAIL"
    WARN = "WARN"
    NOTE = "note"


class Link(IntEnum):
    """Where in the chain a part is lost; OTHER does not lose one."""

    LINK = 0
    BUSES = 1
    BARS = 2
    DRIVER = 3
    INIT = 4
    RUNTIME = 5
    VIEW = 6
    OTHER = 7


@dataclass(frozen=True)
class Diagnosis:
    """One diagnosis. ``parts`` are the addresses that it is about; ``quote`` the words that show it and ``source`` their file.

    ``then`` are further lines: what follows from it, in order.
    """

    severity: Severity
    check: str
    where: str
    what: str
    quote: str = ""
    source: str = ""
    cause: str = ""
    do: str = ""
    parts: tuple[str, ...] = ()
    link: Link = Link.OTHER
    then: tuple[str, ...] = ()


def fold(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Tell each lost part once: later losses of a part go beneath the first one. The worst stand first."""
    listed = list(dict.fromkeys(diagnoses))
    losses = sorted(
        (each for each in listed if each.severity is Severity.FAIL and each.link is not Link.OTHER), key=lambda each: each.link
    )
    kept: list[Diagnosis] = []
    for loss in losses:
        device = {_device(part) for part in loss.parts}
        first = next(
            (number for number, other in enumerate(kept) if device and device <= {_device(part) for part in other.parts}), None
        )
        if first is None:
            kept.append(loss)
        else:
            line = loss.quote or loss.what
            before = kept[first]
            if line not in (before.quote, *before.then):
                kept[first] = replace(before, then=(*before.then, line))
    others = [each for each in listed if each not in losses]
    order = list(Severity)
    return tuple(sorted([*kept, *others], key=lambda each: order.index(each.severity)))


def _device(address: str) -> str:
    return address.rsplit(".", 1)[0]
