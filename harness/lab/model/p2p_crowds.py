"""Many copies at once on the modelled machine: over one uplink, and from every GPU to the k-th next.

An uplink carries about 11.2 GB/s each way when several GPUs use it, and one pair across reaches 10: assumptions. Payloads of 128
bytes leave 13.3 GB/s of a Gen3 x16 link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.lab.model.cards import Card, line, vary
from harness.lab.model.parts import View

COLLAPSED = "jbogB"


def crowded(view: View, listed: Sequence[Card], now: float, loops: int) -> Iterator[tuple[float, str]]:
    """The lines ``contention`` and ``shift``, from ``now`` on."""
    groups = [[card for card in listed if card.group == group] for group in dict.fromkeys(card.group for card in listed)]
    for fields in _contentions(view, groups):
        now += 0.3 * loops
        yield now, line("contention", **fields)
    for fields in _shifts(view, listed, groups):
        now += 0.04 * loops
        yield now, line("shift", **fields)


def _contentions(view: View, groups: Sequence[Sequence[Card]]) -> Iterator[dict[str, Any]]:
    """Four GPUs of each switch at once to or from four of another: the uplink's rate, shared.

    The collapse is that of voipmonitor/rtx6kpro: writes 37 to 2.7 GB/s under concurrency, reads healthy, single pairs perfect.
    """
    for number, group in enumerate(groups):
        others = groups[(number + 1) % len(groups)]
        width = min(4, len(group), len(others))
        fields: dict[str, Any] = {"group": group[0].group, "gpus": [card.index for card in group[:width]]}
        if len(groups) < 2 or width < 2:
            yield fields | {"untried": "it takes two GPUs below each of two switches"}
            continue
        alone = 10.0 + 0.3 * vary("uplink", number)
        yield fields | {
            "partners": [card.index for card in others[:width]],
            "write_alone": round(alone, 2),
            "write_together": round(alone * _share(view, group, 0.97), 2),
            "read_alone": round(alone * 0.95, 2),
            "read_together": round(alone * 0.93, 2),
        }


def _shifts(view: View, listed: Sequence[Card], groups: Sequence[Sequence[Card]]) -> Iterator[dict[str, Any]]:
    """Every GPU to the k-th next: one copy that leaves a switch has its uplink for itself, several share it."""
    for by in range(1, len(listed)) if len(groups) > 1 else ():
        for number, group in enumerate(groups):
            pairs = [(card, listed[(listed.index(card) + by) % len(listed)]) for card in group]
            leaving = sum(card.group != other.group for card, other in pairs)
            rate = 10.0 + 0.3 * vary("uplink", number) if leaving == 1 else 11.2
            write = rate * (_share(view, group, 1.0) if leaving > 1 else 1.0)
            if leaving:
                yield {
                    "by": by,
                    "group": group[0].group,
                    "copies": leaving,
                    "write": round(write, 2),
                    "read": round(rate * 0.98, 2),
                }


def _share(view: View, group: Sequence[Card], healthy: float) -> float:
    """What is left of an uplink's rate when several GPUs write."""
    return 2.7 / 37 if "p2p.contention" in view.faults and group[0].gpu.chassis.name == COLLAPSED else healthy
