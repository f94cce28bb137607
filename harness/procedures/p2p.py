"""Judging peer-to-peer copies: preflight, wedged copies, wrong bytes, the path taken, links under load, contention.

refused ─▶ nothing is judged            a translating IOMMU drops peer writes
peers   ─▶ bench                        another process holds them
wedged  ─▶ the GPU is lost              its pairs are not tried, the others go on
bytes   ─▶ product, do not use          whatever the bandwidth says
path    ─▶ staged, or above its ceiling a copy that works proves nothing about the way it took
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median

from harness.devices.gpu import Peering, PeerStatus, Reason
from harness.devices.p2p import TOO_MANY_PEERS, Contention, LinkKind, Pair, Report
from harness.limits import Limit, Outcome, at_least, exactly
from harness.measurement import Measurement
from harness.platform import Link as LinkLimits
from harness.platform import P2p as Rules
from harness.procedures.finding import Finding, taken
from harness.procedures.p2p_both import judge_both
from harness.procedures.p2p_corruption import describe_corruption, redirects_between
from harness.procedures.p2p_missing import untried
from harness.procedures.p2p_patterns import common_ground, count_of, name_pair, slow_pairs
from harness.procedures.p2p_shifts import judge_shifts
from harness.procedures.places import Place
from harness.procedures.watched import describe_restraint, judge_heat, judge_slowdown

DIRECT, STAGED, HINDERED = "direct", "staged through the host", "hindered"

HALF = 0.5
"""A copy that goes straight and does less than so much of what it does through the host's memory, in the same run, is hindered
(nccl#814 saw peer access slower than none). Pairs across host bridges may well be somewhat slower; so much is no topology's."""
FELL_OFF = 79
"""The Xid of a GPU that fell off the bus (NVIDIA's Xid documentation)."""

_ALIVE = "alive"
_COPIED = "copied"

_ADVICE = {
    PeerStatus.CHIPSET_NOT_SUPPORTED: "this chipset does not route it: put both GPUs below one switch",
    PeerStatus.GPU_NOT_SUPPORTED: "this kind of GPU has none",
    PeerStatus.TOPOLOGY_NOT_SUPPORTED: "the GPUs are on different sockets of an old platform",
    PeerStatus.DISABLED_BY_REGKEY: "a module option of the driver switches it off",
    PeerStatus.NOT_SUPPORTED: "the driver could not read the topology",
}

_SOME = at_least(0.001, "GB/s")
"""Any bandwidth at all."""


def judge_budget(report: Report, places: Mapping[int, Place], peers: int) -> Finding:
    """May every GPU have the peers that the copies take? Error 711 behind that many is the limit, not a fault."""
    ruled_out = {(pair.source, pair.target) for pair in report.pairs if pair.can is False}
    there = [gpu.index for gpu in report.gpus if not gpu.error]
    measurements, short = [], []
    for gpu in report.gpus:
        slot = places[gpu.index].slot
        possible = sum(other != gpu.index and (gpu.index, other) not in ruled_out for other in there)
        wanted = at_least(min(peers, possible))
        if gpu.error:
            continue
        held = [str(holder) for holder in report.holders if holder.index == gpu.index]
        note = "error 711 at the next one: the limit of peers, not a fault" if gpu.stopped == TOO_MANY_PEERS and not held else ""
        measured = taken("p2p.peers", gpu.peers, slot, wanted, note="not probed" if gpu.peers is None else note)
        if measured.outcome is Outcome.FAIL:
            who = f"; held by {', '.join(held)}" if held else ""
            short.append(f"{slot}: {gpu.peers} of {wanted.bounds[0]} peers can be enabled (error {gpu.stopped}){who}")
            if report.holders:
                measured = taken("p2p.peers", gpu.peers, slot, note="held by another process")
        measurements.append(measured)
    text = "\n".join(short)
    if text and report.holders:
        holders = ", ".join(sorted({str(holder) for holder in report.holders}))
        return Finding(tuple(measurements), bench=f"{text}\nstop {holders} and run again: peers are counted system-wide")
    return Finding(tuple(measurements), text)


def judge_watchdog(report: Report, places: Mapping[int, Place], index: int) -> Finding:
    """Did every copy of the GPU end, without an error of the driver?"""
    slot = places[index].slot
    wedged = [entry for entry in report.wedged if index in entry.suspects]
    xids = [xid for xid in report.xids if xid.index == index]
    seen = report.gpu(index)
    lost = "" if seen is None else seen.error
    state = (
        ", ".join([*(f"Xid {xid.number}" for xid in xids), *("wedged" for _ in wedged[:1]), *(["lost"] if lost else [])]) or _ALIVE
    )
    measured = taken("p2p.watchdog", state, slot, exactly(_ALIVE))
    if state == _ALIVE:
        return Finding((measured,))
    lines = [f"{slot}: {lost}: it is there on the bus and does not work: look at its power and at the kernel log"] if lost else []
    for entry in wedged:
        within = entry.source == entry.target
        what = f"a copy within {slot}" if within else f"{name_pair(entry.source, entry.target, places)}: the copy"
        lines.append(f"{what} did not end in {entry.seconds:g} s and was killed")
        if entry.culprit is None:
            lines.append("no driver error names one of the two: neither is used any more")
            lines.append("a port on the way lost the packets, or a GPU stopped: see the kernel log, then try each with others")
        if not entry.reaped:
            lines.append("the killed process stays: the host has to be rebooted")
    lines += [f"Xid {xid.number} on {slot}{f': {xid.text}' if xid.text else ''}" for xid in xids]
    if any(xid.number == FELL_OFF for xid in xids):
        lines.append("it fell off the bus: look at its power, its seat, its riser and cable")
    elif xids:
        lines.append("the driver says so of this GPU: see NVIDIA's list of Xids, and the kernel log around it")
    left_out = sum(bool(pair.untried) for pair in report.pairs)
    lines.append(f"{count_of(len(report.tried), 'pair')} went on, {left_out} were not tried")
    return Finding((measured,), "\n".join(lines))


def judge_integrity(report: Report, places: Mapping[int, Place], index: int, limit: Limit) -> Finding:
    """Did every byte that left the GPU arrive where it should, unchanged?"""
    outgoing = [pair for pair in report.pairs if pair.source == index]
    measurements, failed = [], []
    for pair in outgoing:
        if pair.untried:
            continue
        name = name_pair(pair.source, pair.target, places)
        if pair.error and pair.error_code != TOO_MANY_PEERS:
            measurements.append(taken("p2p.copy", pair.error, name, exactly(_COPIED)))
            failed.append(f"{name}: the copy failed: {pair.error}")
            continue
        bad = pair.worst_bad if pair.checked else None
        note = pair.why_missing if pair.worst_bad is None else "" if pair.checked else "nothing was compared"
        measurements.append(taken("p2p.bad-bytes", bad, name, limit, note=note))
    if not measurements:
        return Finding(unmeasured=untried(outgoing, places[index].slot))
    bad_pairs = [pair for pair in outgoing if pair.worst_bad and limit.judge(pair.worst_bad) is Outcome.FAIL]
    lines = [describe_corruption(pair, report, places) for pair in bad_pairs]
    if bad_pairs:
        everywhere = [pair for pair in report.tried if limit.judge(pair.worst_bad) is Outcome.FAIL]
        clean = len(report.tried) - len(everywhere)
        lines.append(
            f"{count_of(len(everywhere), 'corrupt pair')} in all, {clean} clean: {common_ground(everywhere, report, places)}"
        )
    return Finding(tuple(measurements), "\n".join(lines + failed))


def judge_path(
    report: Report, places: Mapping[int, Place], index: int, rules: Rules, said: Mapping[tuple[str, str], Peering] | None = None
) -> Finding:
    """Did the copies go straight to the other GPU, and no faster than the link can? ``said`` is what NVML says, by slots.

    Silently staged: no faster with peer access than without (``staged_ratio``) and a write latency that only the host's
    memory explains. Bandwidth alone tells nothing: through the host Gen3 was seen at 11.4 GB/s.
    """
    outgoing = [pair for pair in report.pairs if pair.source == index]
    measurements: list[Measurement] = []
    lines: list[str] = []
    staged: list[str] = []
    slow = slow_pairs(report)
    for pair in outgoing:
        if pair.untried or pair.error:
            continue
        name = name_pair(pair.source, pair.target, places)
        if pair.can is False:
            measurements.append(taken("p2p.can-access", "no", name, exactly("yes")))
            ends = (places[pair.source].slot, places[pair.target].slot)
            lines.append(f"{name}: the driver says that peer access is not possible{_ruled_out((said or {}).get(ends))}")
            continue
        ceiling = rules.nvlink_ceiling if pair.link is LinkKind.NVLINK else rules.ceiling
        aside = "; well below its like, for information" if pair in slow else ""
        speed = taken("p2p.bandwidth", pair.best_enabled, name, ceiling, note=f"{_beside(pair)}{aside}")
        path = taken("p2p.path", path_of(pair, rules), name, exactly(DIRECT), note=_beside(pair))
        measurements += [speed, path]
        if pair.pulled is not None:
            pulled = taken("p2p.bandwidth-read", pair.pulled, name, ceiling)
            measurements.append(pulled)
            if pulled.outcome is Outcome.FAIL:
                lines.append(
                    f"{name}: read at {_speed(pair.pulled)} over {pair.link.value} ({ceiling}): it did not happen as timed"
                )
        both, one_way = judge_both(pair, report, places, rules.both_ways_ratio)
        measurements += both
        lines += one_way
        if pair.best_enabled is not None and pair.best_enabled <= 0:
            measurements.append(taken("p2p.bandwidth-above-nought", pair.best_enabled, name, _SOME))
            lines.append(f"{name}: {_speed(pair.best_enabled)} cannot have been measured")
        if speed.outcome is Outcome.FAIL:
            lines.append(f"{name}: {_speed(pair.best_enabled)} over {pair.link.value} ({ceiling}): it did not happen as timed")
        if path.value == HINDERED:
            lines.append(
                f"{name}: {HINDERED}: {_beside(pair)}: less than half of what the same copy does through the host's memory; "
                "look at the links and the access control on the way, and at the kernel log"
            )
        elif path.outcome is Outcome.FAIL:
            on_the_way = redirects_between(pair, report)
            behind = f"; access control on the way: {on_the_way}" if on_the_way else ""
            staged.append(f"{name}: {STAGED}: {_beside(pair)}{behind}")
    if not measurements:
        return Finding(unmeasured=untried(outgoing, places[index].slot))
    if staged:
        everywhere = [pair for pair in report.tried if path_of(pair, rules) == STAGED]
        lines += [staged[0], *([f"and {len(staged) - 1} more from {places[index]}"] if len(staged) > 1 else [])]
        lines.append(f"{count_of(len(everywhere), 'staged pair')} in all: {common_ground(everywhere, report, places)}")
        lines.append("the driver grants peer access and the platform does not route it: look at the IOMMU, ACS and the root ports")
    return Finding(tuple(measurements), "\n".join(lines))


def path_of(pair: Pair, rules: Rules) -> str | None:
    """``direct``, ``staged through the host``, ``hindered``, or None where a figure is missing."""
    enabled, disabled = pair.best_enabled, pair.best_disabled
    if enabled is None or disabled is None or pair.write_us is None:
        return None
    if enabled <= rules.staged_ratio * disabled and pair.write_us >= rules.staged_latency:
        return STAGED
    return HINDERED if enabled < HALF * disabled else DIRECT


def judge_link(report: Report, places: Mapping[int, Place], index: int, limits: LinkLimits, replay_rate: Limit) -> Finding:
    """Does the GPU's link run at full speed and width while it is busy, without replaying packets?"""
    slot, link = places[index].slot, report.link(index)
    if link is None or link.samples == 0:
        return Finding(unmeasured=f"{slot}: the worker took no sample of its link under load")
    measurements: tuple[Measurement, ...] = (
        taken("p2p.link-generation", link.generation, slot, limits.generation, note=f"{link.samples} samples under load"),
        taken("p2p.link-width", link.width, slot, limits.width, note=f"{link.samples} samples under load"),
        taken(
            "p2p.replay-rate", link.replays_per_minute, slot, replay_rate, note=f"{link.replays} in {link.seconds:g} s under load"
        ),
    )
    watched = next((entry for entry in report.telemetry if entry.index == index), None)
    restraint: tuple[Measurement, ...] = ()
    if watched is not None:
        seen = None if watched.reasons is None else [Reason(bit) for bit in watched.reasons]
        heat = judge_heat("p2p", slot, watched.temperature, watched.slowdown)
        restraint = (*judge_slowdown("p2p", slot, seen), *heat)
    measurements = (*measurements, *restraint)
    if not any(measured.outcome is Outcome.FAIL for measured in measurements):
        return Finding(measurements)
    lines = [f"{slot} under load: Gen{link.generation} x{link.width}, {link.replays} replays in {link.seconds:g} s"]
    if any(measured.outcome is Outcome.FAIL for measured in measurements[:2]):
        lines.append("at rest it may idle down, under load it must not: look at the card, its riser and cable, the port above it")
    if measurements[2].outcome is Outcome.FAIL:
        lines.append("it repeats packets all the time: reseat the card, then its riser and cable")
    if watched is not None:
        lines += describe_restraint(restraint, watched.temperature, watched.slowdown)
    slow = [pair for pair in slow_pairs(report) if index in (pair.source, pair.target)]
    if slow:
        middle = median(pair.best_enabled for pair in report.tried if pair.best_enabled is not None)
        own = median(pair.best_enabled or 0.0 for pair in slow)
        lines.append(
            f"{count_of(len(slow), 'slow pair')}, median {own:g} GB/s where all pairs have {middle:g}: "
            f"{common_ground(slow, report, places)}"
        )
    return Finding(measurements, "\n".join(lines))


def judge_contention(report: Report, places: Mapping[int, Place], uplink: str, limit: Limit) -> Finding:
    """Does an uplink keep its rate when several GPUs use it at once, for writes as for reads?"""
    found = [entry for entry in report.contention if _uplink_of(entry, places) == uplink]
    if not found:
        return Finding(unmeasured=f"{uplink}: the worker did not try it under contention")
    measurements: list[Measurement] = []
    lines: list[str] = []
    for entry in found:
        count = count_of(len(entry.gpus), "GPU")
        for way, ratio, alone, together in (
            ("write", entry.write_ratio, entry.write_alone, entry.write_together),
            ("read", entry.read_ratio, entry.read_alone, entry.read_together),
        ):
            figures = f"{_speed(together)} for {count} at once, {_speed(alone)} for one pair alone"
            note = figures if ratio is not None else entry.untried or "no figures"
            measured = taken(f"p2p.contention.{way}", ratio, uplink, limit, note=note)
            measurements.append(measured)
            if measured.outcome is Outcome.FAIL:
                lines.append(f"{uplink}: {way}s collapse under contention: {figures}")
    if len(lines) == 1 and "writes" in lines[0]:
        lines.append("reads stay healthy: posted writes of several GPUs block each other in a switch or root port")
    shifted, picture = judge_shifts(report, places, uplink, limit)
    measurements += shifted
    lines += picture
    return Finding(tuple(measurements), "\n".join(lines))


def _beside(pair: Pair) -> str:
    """The other figures of a pair: one alone says nothing."""
    text = f"{_speed(pair.best_enabled)} with, {_speed(pair.best_disabled)} without peer access"
    return f"{text}, write {pair.write_us:g} us" if pair.write_us is not None else f"{text}, write latency unknown"


def _ruled_out(said: Peering | None) -> str:
    """NVML's reason, and what it means for a person."""
    told = (
        None if said is None else next((status for status in (said.write, said.read) if status not in (None, PeerStatus.OK)), None)
    )
    return "" if told is None else f": {told.name.lower().replace('_', ' ')} ({_ADVICE.get(told, 'ask the kernel log')})"


def _speed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} GB/s"


def _uplink_of(entry: Contention, places: Mapping[int, Place]) -> str:
    """The uplink that most of the entry's GPUs are behind."""
    behind = Counter(places[index].uplink for index in entry.gpus if index in places)
    return behind.most_common(1)[0][0] if behind else ""
