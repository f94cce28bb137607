"""Wrong bytes in words: which pair, what became of the right ones, what acquits the memories, what redirects on the way."""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.p2p import Damage, Pair, Report, Wrong
from harness.procedures.p2p_patterns import name_pair
from harness.procedures.places import Place

_BECAME = {
    Damage.ZERO: "zeros arrived",
    Damage.DROPPED: "the writes were dropped: the target still holds what it held",
    Damage.MISROUTED: "the data of another GPU arrived",
    Damage.SHIFTED: "the right data arrived in the wrong place",
    Damage.SINGLE_BIT: "single bits flipped: a memory or a link",
    Damage.ALL_ONES: "all ones arrived: a device fell off the bus",
    Damage.OTHER: "the bytes fit no known pattern",
}


def describe_corruption(pair: Pair, report: Report, places: Mapping[int, Place]) -> str:
    """The evidence of one corrupt pair, several lines."""
    lines = [f"DATA CORRUPTION {name_pair(pair.source, pair.target, places)}: do not use"]
    wrong = pair.wrong
    if wrong is None:
        lines.append(f"  {pair.worst_bad} wrong bytes of {pair.checked}")
    else:
        who = f" ({places[wrong.of].slot})" if wrong.of is not None and wrong.of in places else ""
        lines.append(f"  {wrong.way}: {_BECAME[wrong.damage]}{who}; class {wrong.damage.value}")
        lines.append(f"  {wrong.size} wrong bytes of {pair.checked}, first at offset {wrong.first:#x}, last at {wrong.last:#x}")
        lines.append(f"  {_acquitted(wrong)}")
    if pair.alone is not None and pair.alone.bad is not None:
        lines.append(f"  alone: {'the same' if pair.alone.bad == pair.bad else f'{pair.alone.bad} wrong bytes'}")
    back = next((other for other in report.pairs if (other.source, other.target) == (pair.target, pair.source)), None)
    if back is not None and back.worst_bad is not None:
        lines.append(f"  the other way: {'clean' if back.worst_bad == 0 else f'{back.worst_bad} wrong bytes'}")
    if pair.best_enabled is not None:
        lines.append(f"  bandwidth {pair.best_enabled:g} GB/s, which tells nothing")
    on_the_way = redirects_between(pair, report)
    if on_the_way:
        lines.append(f"  access control on the way: {on_the_way}")
    return "\n".join(lines)


def redirects_between(pair: Pair, report: Report) -> str:
    """The ports above the pair's GPUs that send peer traffic up to the root complex, with their controls."""
    found = [port for port in report.redirects if pair.source in port.gpus or pair.target in port.gpus]
    return ", ".join(f"{port.address} {'/'.join(port.controls)}" for port in found)


def _acquitted(wrong: Wrong) -> str:
    if wrong.disabled_bad is None:
        return "not tried without peer access"
    if wrong.disabled_bad == 0:
        return "without peer access: clean, so it is the path (IOMMU, ACS, switch), not a memory"
    return f"without peer access: {wrong.disabled_bad} wrong bytes too, so suspect the memory of one of the two GPUs or of the host"
