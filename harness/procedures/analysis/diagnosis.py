"""What an analysis says of one thing: how bad, what, where, the words that show it, the likely cause, the next step.

The chain of losses orders what belongs to one part: the first link that lost it is the diagnosis, what follows from it is told
beneath it.

    link < buses < bars < driver < init < runtime < view
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    losses: list[Diagnosis] = []
    others: list[Diagnosis] = []
    for each in dict.fromkeys(diagnoses):
        is_loss = each.severity is Severity.FAIL and each.link is not Link.OTHER
        (losses if is_loss else others).append(each)
    kept = _folded(sorted(losses, key=lambda each: each.link))
    order = list(Severity)
    return tuple(sorted([*kept, *others], key=lambda each: order.index(each.severity)))


def _folded(losses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Each loss whose devices are all among those of an earlier one, beneath the first such."""
    kept: list[tuple[Diagnosis, set[str], dict[str, None]]] = []
    with_device: dict[str, list[int]] = {}
    for loss in losses:
        devices = {_device(part) for part in loss.parts}
        earlier = with_device.get(min(devices, default=""), ())
        first = next((number for number in earlier if devices <= kept[number][1]), None)
        if first is None:
            for device in devices:
                with_device.setdefault(device, []).append(len(kept))
            kept.append((loss, devices, dict.fromkeys(loss.then)))
        elif (line := loss.quote or loss.what) != kept[first][0].quote:
            kept[first][2][line] = None
    for loss, _, then in kept:
        yield replace(loss, then=tuple(then))


def _device(address: str) -> str:
    return address.rsplit(".", 1)[0]
