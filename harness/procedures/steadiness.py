"""Does anything on the way to a part change while it is watched: a link's lanes or speed, the count of corrected errors?

lanes                    never change
speed of links above     never changes: they do not idle down with the GPU
speed of the GPU's own   recorded: at rest it falls and under load it rises
corrected errors         a rate, never a total: healthy machines show 150 old ones
"""

from __future__ import annotations

from harness.devices.pcie import Function, Snapshot
from harness.devices.pcie.watch import Watch, changes
from harness.limits import Limit, Outcome, exactly
from harness.platform import Slot
from harness.procedures.finding import Finding, taken
from harness.procedures.links import hops

_FIRMWARE_FIRST = ("PCIe AER handled by firmware", "_OSC: platform does not support [AER")


def judge_steadiness(snapshot: Snapshot, slot: Slot, watch: Watch) -> Finding:
    """The links of every hop on a slot's path, sampled."""
    walk = [hop for hop in hops(snapshot, slot.path) if watch.widths(hop.bdf)]
    if not walk or len(watch.samples) < 2:
        return Finding(unmeasured=f"{slot}: no link on its path was sampled twice")
    own = {slot.path, slot.path.rpartition("/")[0]}
    measurements, lines = [], []
    for hop in walk:
        widths, speeds = watch.widths(hop.bdf), watch.speeds(hop.bdf)
        if changes(widths):
            lines.append(_told(hop, f"x{min(widths)} to x{max(widths)}", changes(widths), watch))
            measurements.append(taken(f"pcie.width-changes.{hop.bdf}", changes(widths), slot.name, exactly(0)))
        if changes(speeds) and hop.path not in own:
            lines.append(_told(hop, f"{min(speeds):g} to {max(speeds):g} GT/s", changes(speeds), watch))
            measurements.append(taken(f"pcie.speed-changes.{hop.bdf}", changes(speeds), slot.name, exactly(0)))
    rest = sum(changes(watch.speeds(hop.bdf)) for hop in walk if hop.path in own)
    measurements.append(
        taken("pcie.link-changes", len(lines), slot.name, exactly(0), note=f"{len(walk)} hops, {watch.seconds:.0f} s")
    )
    measurements.append(taken("pcie.own-speed-changes", rest, slot.name))
    if not lines:
        return Finding(tuple(measurements))
    cause = "likely a marginal link that retrains: seat, cable or retimer; swap it with a good neighbour and see what moves"
    return Finding(tuple(measurements), "\n".join([*lines, cause]))


def judge_error_rate(snapshot: Snapshot, slot: Slot, watch: Watch, limit: Limit) -> Finding:
    """How fast corrected errors come at the worst hop on a slot's path, by the kernel's counters."""
    walk = hops(snapshot, slot.path)
    rates = {hop.bdf: rate for hop in walk if (rate := watch.errors_per_minute(hop.bdf)) is not None}
    if not rates:
        return Finding(unmeasured=f"{slot}: the kernel counts no corrected errors on its path (Linux 4.19 and later do)")
    worst = max(rates, key=lambda bdf: rates[bdf])
    quiet = any(mark in line for line in snapshot.log.lines for mark in _FIRMWARE_FIRST)
    note = f"at {worst}" if rates[worst] else "firmware handles errors first, so these counters may stay silent" if quiet else ""
    measured = taken("pcie.corrected-errors", rates[worst], slot.name, limit, unit="/min", note=note)
    if measured.outcome is not Outcome.FAIL:
        return Finding((measured,))
    text = (
        f"{slot}: {worst} corrected {rates[worst]:.0f} errors a minute while it was watched for {watch.seconds:.0f} s\n"
        "likely a marginal link: seat, cable or retimer; swap it with a good neighbour and see what moves"
    )
    return Finding((measured,), text)


def _told(hop: Function, what: str, count: int, watch: Watch) -> str:
    return f"{hop.bdf}: {what}, {count} changes in {len(watch.samples)} samples of {watch.seconds:.0f} s"
