"""Judging each GPU while it trained: errors that the driver reported, clocks held back, heat, and its link.

A GPU that its hardware holds back may still keep up, and then no rate shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.gpu import LoadedLink, Reason
from harness.devices.resnet50 import Report, Telemetry
from harness.limits import Limit, Outcome, exactly
from harness.measurement import Measurement
from harness.platform import Link as LinkLimits
from harness.procedures.finding import Finding, taken
from harness.procedures.places import Place
from harness.procedures.watched import describe_restraint, judge_heat, judge_slowdown


def judge_watched(
    report: Report, places: Mapping[int, Place], index: int, link: LinkLimits | None = None, replay_rate: Limit | None = None
) -> Finding:
    """Was the GPU left alone by driver and hardware while it trained? Without limits for its link that is only recorded."""
    slot, told, seen = places[index].slot, report.told(index), report.link(index)
    xids = [xid for xid in report.xids if xid.index == index]
    if told is None and seen is None and not xids:
        return Finding(unmeasured=f"{slot}: nobody watched it while it trained{f': {report.untried}' if report.untried else ''}")
    state = ", ".join(f"Xid {xid.number}" for xid in xids) or "none"
    measurements: tuple[Measurement, ...] = (taken("resnet50.xid", state, slot, exactly("none")),)
    restraint: tuple[Measurement, ...] = ()
    if told is not None:
        heat = judge_heat("resnet50", slot, told.temperature, told.slowdown)
        restraint = (*judge_slowdown("resnet50", slot, _reasons(told)), *heat)
    measurements += restraint
    if seen is not None:
        measurements += _judge_link(slot, seen, link, replay_rate)
    if not any(measured.outcome is Outcome.FAIL for measured in measurements):
        return Finding(measurements)
    lines = [f"{slot} while training: {told if told is not None else 'no telemetry of it'}"]
    lines += [f"Xid {xid.number} on {slot}: see NVIDIA's list of Xids, and the kernel log around it" for xid in xids]
    if told is not None:
        lines += describe_restraint(restraint, told.temperature, told.slowdown)
    if seen is not None and any(measured.outcome is Outcome.FAIL for measured in measurements[1 + len(restraint) :]):
        lines.append(
            f"its link: at best Gen{seen.generation} x{seen.width}, {seen.replays} replays in {seen.seconds:g} s: "
            "reseat the card, then its riser and cable"
        )
    return Finding(measurements, "\n".join(lines))


def _judge_link(slot: str, seen: LoadedLink, link: LinkLimits | None, replay_rate: Limit | None) -> tuple[Measurement, ...]:
    note = f"{seen.samples} samples while training"
    return (
        taken("resnet50.link-generation", seen.generation, slot, None if link is None else link.generation, note=note),
        taken("resnet50.link-width", seen.width, slot, None if link is None else link.width, note=note),
        taken("resnet50.replay-rate", seen.replays_per_minute, slot, replay_rate, note=f"{seen.replays} in {seen.seconds:g} s"),
    )


def _reasons(told: Telemetry) -> list[Reason] | None:
    """The reasons by name, None where the card tells none; a name that nvml.h did not have is nothing that is judged."""
    known = {reason.name: reason for reason in Reason}
    return [known[name.upper()] for name in told.reasons if name.upper() in known] if told.is_told else None
