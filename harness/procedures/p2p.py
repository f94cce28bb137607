"""Judging peer-to-peer copies: preflight, wedged copies, wrong bytes, the path taken, links under load, contention.

refused ─▶ nothing is judged            a translating IOMMU drops peer writes
peers   ─▶ bench                        another process holds them
wedged  ─▶ the GPU is lost              its pairs are not tried, the others go on
bytes   ─▶ product, do not use          whatever the bandwidth says
path    ─▶ staged, or above its ceiling a copy that works proves nothing about the way it took
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from harness.devices.gpu import Peering, PeerStatus
from harness.devices.p2p import TOO_MANY_PEERS, Contention, Damage, LinkKind, Pair, Report, Wrong
from harness.limits import Limit, Outcome, at_least, exactly
from harness.measurement import Measurement
from harness.platform import Link as LinkLimits
from harness.platform import P2p as Rules
from harness.procedures.finding import Finding, taken
from harness.procedures.p2p_patterns import common_ground, count_of, name_pair, slow_pairs
from harness.procedures.places import Place

DIRECT, STAGED = "direct", "staged through the host"
_ALIVE = "alive"
_COPIED = "copied"

_BECAME = {
    Damage.ZERO: "zeros arrived",
    Damage.DROPPED: "the writes were dropped: the target still holds what it held",
    Damage.MISROUTED: "the data of another GPU arrived",
    Damage.SHIFTED: "the right data arrived in the wrong place",
    Damage.SINGLE_BIT: "single bits flipped: a memory or a link",
    Damage.ALL_ONES: "all ones arrived: a device fell off the bus",
    Damage.OTHER: "the bytes fit no known pattern",
}

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
    wanted = at_least(min(peers, len(report.gpus) - 1))
    measurements, short = [], []
    for gpu in report.gpus:
        slot = places[gpu.index].slot
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
    state = ", ".join([*(f"Xid {xid.number}" for xid in xids), *("wedged" for _ in wedged[:1])]) or _ALIVE
    measured = taken("p2p.watchdog", state, slot, exactly(_ALIVE))
    if state == _ALIVE:
        return Finding((measured,))
    lines = []
    for entry in wedged:
        lines.append(f"{name_pair(entry.source, entry.target, places)}: the copy did not end in {entry.seconds:g} s and was killed")
        if entry.culprit is None:
            lines.append("no driver error names one of the two: neither is used any more")
        if not entry.reaped:
            lines.append("the killed process stays: the host has to be rebooted")
    lines += [f"Xid {xid.number} on {slot}{f': {xid.text}' if xid.text else ''}" for xid in xids]
    untried = sum(bool(pair.untried) for pair in report.pairs)
    lines.append(f"{count_of(len(report.tried), 'pair')} went on, {untried} were not tried")
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
        return Finding(unmeasured=_untried(outgoing, places[index].slot))
    bad_pairs = [pair for pair in outgoing if pair.worst_bad and limit.judge(pair.worst_bad) is Outcome.FAIL]
    lines = [_corruption(pair, report, places) for pair in bad_pairs]
    if bad_pairs:
        everywhere = [pair for pair in report.tried if limit.judge(pair.worst_bad) is Outcome.FAIL]
        clean = len(report.tried) - len(everywhere)
        lines.append(
            f"{count_of(len(everywhere), 'corrupt pair')} in all, {clean} clean: {common_ground(everywhere, report, places)}"
        )
    return Finding(tuple(measurements), "\n".join(lines + failed))


def missing_from(report: Report, places: Mapping[int, Place], index: int) -> tuple[str, ...]:
    """Where the GPU's copies were not all made and compared in full: what is missing is not a pass.

    A pair with a GPU that hung or fell off the bus is left out: ``judge_watchdog`` judges that one.
    """
    out_of_it = {wedge.source for wedge in report.wedged} | {wedge.target for wedge in report.wedged}
    made = {pair.target: pair for pair in report.pairs if pair.source == index}
    missing = []
    for target in sorted(places):
        if target == index or target in out_of_it or index in out_of_it:
            continue
        name, pair = name_pair(index, target, places), made.get(target)
        if pair is None:
            missing.append(f"{name}: the worker says nothing of it")
        elif pair.untried:
            missing.append(f"{name}: {pair.untried}")
        elif not pair.error and 0 < pair.checked < report.size:
            missing.append(f"{name}: only {pair.checked} of {report.size} bytes were compared")
    return tuple(missing)


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
        if pair.best_enabled is not None and pair.best_enabled <= 0:
            measurements.append(taken("p2p.bandwidth-above-nought", pair.best_enabled, name, _SOME))
            lines.append(f"{name}: {_speed(pair.best_enabled)} cannot have been measured")
        if speed.outcome is Outcome.FAIL:
            lines.append(f"{name}: {_speed(pair.best_enabled)} over {pair.link.value} ({ceiling}): it did not happen as timed")
        if path.outcome is Outcome.FAIL:
            staged.append(f"{name}: {STAGED}: {_beside(pair)}")
    if not measurements:
        return Finding(unmeasured=_untried(outgoing, places[index].slot))
    if staged:
        everywhere = [pair for pair in report.tried if path_of(pair, rules) == STAGED]
        lines += [staged[0], *([f"and {len(staged) - 1} more from {places[index]}"] if len(staged) > 1 else [])]
        lines.append(f"{count_of(len(everywhere), 'staged pair')} in all: {common_ground(everywhere, report, places)}")
    return Finding(tuple(measurements), "\n".join(lines))


def path_of(pair: Pair, rules: Rules) -> str | None:
    """``direct``, ``staged through the host``, or None where a figure is missing."""
    enabled, disabled = pair.best_enabled, pair.best_disabled
    if enabled is None or disabled is None or pair.write_us is None:
        return None
    staged = enabled <= rules.staged_ratio * disabled and pair.write_us >= rules.staged_latency
    return STAGED if staged else DIRECT


def judge_link(report: Report, places: Mapping[int, Place], index: int, limits: LinkLimits, replay_rate: Limit) -> Finding:
    """Does the GPU's link run at full speed and width while it is busy, without replaying packets?"""
    slot, link = places[index].slot, report.link(index)
    if link is None or link.samples == 0:
        return Finding(unmeasured=f"{slot}: the worker took no sample of its link under load")
    measurements = (
        taken("p2p.link-generation", link.generation, slot, limits.generation, note=f"{link.samples} samples under load"),
        taken("p2p.link-width", link.width, slot, limits.width, note=f"{link.samples} samples under load"),
        taken(
            "p2p.replay-rate", link.replays_per_minute, slot, replay_rate, note=f"{link.replays} in {link.seconds:g} s under load"
        ),
    )
    if not any(measured.outcome is Outcome.FAIL for measured in measurements):
        return Finding(measurements)
    lines = [f"{slot} under load: Gen{link.generation} x{link.width}, {link.replays} replays in {link.seconds:g} s"]
    slow = [pair for pair in slow_pairs(report) if index in (pair.source, pair.target)]
    if slow:
        middle = median(pair.best_enabled for pair in report.tried if pair.best_enabled is not None)
        own = median(pair.best_enabled or 0.0 for pair in slow)
        lines.append(
            f"{count_of(len(slow), 'slow pair')}, median {own:g} GB/s where all pairs have {middle:g}: "
            f"{common_ground(slow, report, places)}"
        )
    return Finding(measurements, "\n".join(lines))


def why_no_contention(places: Mapping[int, Place], uplink: str) -> str:
    """Why several GPUs cannot use an uplink at once, or nothing: it takes two behind it, and two behind another one."""
    behind = Counter(place.uplink for place in places.values() if place.uplink)
    if behind[uplink] < 2:
        return f"{uplink}: {count_of(behind[uplink], 'GPU')} behind it; it takes two to use it at once"
    if not any(count >= 2 for other, count in behind.items() if other != uplink):
        return f"{uplink}: no other uplink has two GPUs behind it, so several cannot copy across it at once"
    return ""


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
    return Finding(tuple(measurements), "\n".join(lines))


def _corruption(pair: Pair, report: Report, places: Mapping[int, Place]) -> str:
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
    return "\n".join(lines)


def _acquitted(wrong: Wrong) -> str:
    if wrong.disabled_bad is None:
        return "not tried without peer access"
    if wrong.disabled_bad == 0:
        return "without peer access: clean, so it is the path (IOMMU, ACS, switch), not a memory"
    return f"without peer access: {wrong.disabled_bad} wrong bytes too, so suspect the memory of one of the two GPUs or of the host"


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


def _untried(pairs: Sequence[Pair], slot: str) -> str:
    reasons = sorted({pair.why_missing for pair in pairs})
    return f"{slot}: no copy from it: {'; '.join(reasons) or 'the worker has no pair of it'}"


def _uplink_of(entry: Contention, places: Mapping[int, Place]) -> str:
    """The uplink that most of the entry's GPUs are behind."""
    behind = Counter(places[index].uplink for index in entry.gpus if index in places)
    return behind.most_common(1)[0][0] if behind else ""
