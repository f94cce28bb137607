"""One tool's tables as the facts of the p2p stage: a pair each, so that the same judges and rules hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.devices.gpu import PeerStatus
from harness.devices.gpu_reports.facts import Grid, Quantity, Reading
from harness.devices.gpu_reports.facts import Pair as Ends
from harness.devices.p2p import Pair, PeerGpu, Report
from harness.platform import P2p
from harness.procedures.gpu_analysis.machine import Machine
from harness.procedures.p2p import DIRECT, path_of
from harness.procedures.p2p_patterns import common_ground
from harness.procedures.places import Place


@dataclass(frozen=True)
class Copies:
    """The copies of one tool. ``both`` are sums of both ways with peer access; ``halved`` where only sums were measured."""

    report: Report
    places: Mapping[int, Place]
    both: Mapping[Ends, float]
    halved: bool


def copies_of(reading: Reading, machine: Machine) -> Copies:
    """The copies between pairs of a reading. Where a table is only of both ways at once, half of the sum stands for one way."""
    enabled, disabled = (reading.grid(Quantity.ONE_WAY, peers=peers) for peers in (True, False))
    both, both_disabled = (reading.grid(Quantity.BOTH_WAYS, peers=peers) for peers in (True, False))
    pulled = reading.grid(Quantity.ONE_WAY, peers=True, way="read")
    is_halved = enabled is None and pulled is None and both is not None
    writes = _scaled(both, 0.5) if is_halved else _scaled(enabled)
    through_host = _scaled(both_disabled, 0.5) if is_halved else _scaled(disabled)
    late = _scaled(reading.grid(Quantity.LATENCY, peers=True))
    reads = _scaled(pulled)
    ends = sorted({*writes, *reads, *through_host, *reading.access, *machine.said})
    pairs = tuple(
        Pair(
            *each,
            can=_can(each, reading, machine),
            link=machine.kind(each),
            enabled=writes.get(each, reads.get(each)),
            disabled=through_host.get(each),
            write_us=late.get(each),
            pulled=reads.get(each) if each in writes else None,
        )
        for each in ends
    )
    indexes = sorted({index for each in ends for index in each})
    gpus = tuple(PeerGpu(index, machine.addresses.get(index, ""), "", machine.switches.get(index, "")) for index in indexes)
    places = {index: Place(machine.label(index), machine.switches.get(index, "")) for index in indexes}
    return Copies(Report(gpus, pairs), places, _scaled(both), is_halved)


def _can(ends: Ends, reading: Reading, machine: Machine) -> bool | None:
    """What the tool says of peer access, else the driver. OK of the driver alone proves nothing: not told."""
    told = reading.access.get(ends)
    if told is None and machine.said.get(ends, PeerStatus.OK) is not PeerStatus.OK:
        return False
    return told


def _scaled(grid: Grid | None, scale: float = 1.0) -> dict[Ends, float]:
    return {} if grid is None else {pair: value * scale for pair, value in grid.cells.items()}


def shared_by(pairs: Sequence[Pair], copies: Copies) -> str:
    """What bad pairs have in common, in the words of the p2p stage, which counts compared pairs: here all were timed only."""
    timed = tuple(replace(pair, bad=0) for pair in copies.report.pairs)
    return common_ground(pairs, replace(copies.report, pairs=timed), copies.places)


def named(pairs: Iterable[Pair], places: Mapping[int, Place], most: int = 4) -> str:
    """The first few pairs in words, and how many more there are."""
    listed = [f"{places[pair.source].slot} -> {places[pair.target].slot}" for pair in pairs]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def direct_pairs(copies: Copies, rules: P2p) -> list[Pair]:
    """The pairs with a figure that nothing shows to be staged."""
    pairs = [pair for pair in copies.report.pairs if pair.enabled and pair.can is not False]
    return [pair for pair in pairs if path_of(pair, rules) in (DIRECT, None)]


def figures_of(pair: Pair) -> str:
    """All figures of a pair: one alone says nothing."""
    words = [f"{_speed(pair.enabled)} with, {_speed(pair.disabled)} without peer access"]
    words += [f"read {pair.pulled:g} GB/s"] if pair.pulled is not None else []
    words += [f"write latency {pair.write_us:g} us"] if pair.write_us is not None else []
    return ", ".join(words)


def _speed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} GB/s"


def addresses_of(pairs: Sequence[Pair], machine: Machine) -> tuple[str, ...]:
    """The addresses of all GPUs of some pairs, as far as they are known."""
    indexes = dict.fromkeys(index for pair in pairs for index in (pair.source, pair.target))
    return tuple(address for index in indexes if (address := machine.addresses.get(index, "")))
