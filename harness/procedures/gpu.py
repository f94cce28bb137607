"""Judging the GPUs as the driver sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from harness.devices.gpu import Gpu, Inventory, Peering
from harness.devices.pcie import Snapshot
from harness.limits import Outcome, exactly
from harness.platform import DeviceModel, Platform, Slot
from harness.platform import Gpu as GpuLimits
from harness.procedures.finding import Finding, taken

T = TypeVar("T", int, str)

_MIB = 1 << 20
_NVIDIA = "10de"
NOT_SUPPORTED = "Not Supported"
"""How the driver says that a card has no such thing (nvml.h, NVML_ERROR_NOT_SUPPORTED)."""

_UNSIGNED = ("unsigned module", "key is rejected", "key was rejected", "signature and/or required key")


def judge_binding(slot: str, address: str, driver: str, inventory: Inventory) -> Finding:
    """Does the nvidia driver hold the GPU at ``address``? ``driver`` is what sysfs shows, "" for none."""
    held = taken("gpu.driver-bound", driver or "none", slot, exactly("nvidia"))
    if driver == "nvidia":
        return Finding((held,))
    return Finding((held,), f"{slot} at {address}: {_why_unbound(address, driver, inventory)}")


def judge_counted(slot: str, address: str, gpu: Gpu | None, inventory: Inventory) -> Finding:
    """Does NVML count the GPU that the driver holds at ``address``, and can it open it?"""
    if gpu is not None and not gpu.error:
        return Finding((taken("gpu.nvml-count", "counted", slot, exactly("counted")),))
    state = "missing" if gpu is None else gpu.error
    lines = [f"{slot} at {address} is bound to the driver, but is not among the {_opened(inventory)} GPUs that NVML opens"]
    if gpu is not None:
        lines = [f"{slot} at {address}: NVML counts it and cannot open it ({gpu.error})"]
    lines += _quote(inventory.said_of(address), inventory)
    return Finding((taken("gpu.nvml-count", state, slot, exactly("counted")),), "\n".join(lines))


def judge_unexpected(inventory: Inventory, snapshot: Snapshot, platform: Platform, expected: Sequence[Slot]) -> Finding:
    """Does a GPU sit where none is ``expected``: in a slot that the bench calls empty, or in none of the platform's?

    Told by the PCI tree (NVIDIA's display functions) as well as by the driver.
    """
    known = {function.bdf for slot in expected if (function := snapshot.at(slot.path)) is not None}
    seen = {function.bdf for function in snapshot.functions if function.vendor == _NVIDIA and function.is_gpu}
    driven = {gpu.address for gpu in inventory.gpus if gpu.address}
    strangers = sorted((seen | driven) - known)
    measured = taken("gpu.unexpected", len(strangers), "", exactly(0))
    empty = {function.bdf: slot for slot in platform.slots if (function := snapshot.at(slot.path)) is not None}
    lines = []
    for address in strangers:
        gpu, slot = inventory.at(address), empty.get(address)
        who = "a GPU" if gpu is None or not gpu.name else f"{gpu.name} (serial {gpu.serial or 'unknown'})"
        where = (
            f"in {slot}, which the bench calls empty"
            if slot is not None
            else f"at {_path_of(address, snapshot)}, no slot of the platform"
        )
        lines.append(f"{address}: {who} {where}: name its slot, or take the GPU out")
    return Finding((measured,), "\n".join(lines))


def judge_memory(slot: Slot, gpu: Gpu, fellows: Mapping[str, Gpu], platform: Platform) -> Finding:
    """Is the frame buffer what the model has for this ECC state, and the same as that of its fellows with that state?"""
    model = model_of(gpu, platform.models_for(slot))
    if model is None or model.memory is None:
        return Finding(unmeasured=f"{slot}: the platform says no memory size for {gpu.device or 'an unknown device'}")
    mode = ecc_mode(gpu)
    wanted = model.memory.ecc_on if gpu.ecc.current else model.memory.ecc_off
    limit = exactly(wanted / _MIB, "MiB", within=model.memory.within)
    value = None if gpu.memory is None else gpu.memory / _MIB
    measured = taken("gpu.memory", value, slot.name, limit, note=gpu.why_unread("memory") if value is None else f"ECC {mode}")
    like = [other.memory for other in fellows.values() if other.memory is not None and other.ecc.current == gpu.ecc.current]
    if value is None or not like:
        return Finding((measured,))
    most = _most_common(like)
    alike = taken("gpu.memory.alike", value, slot.name, exactly(most / _MIB, "MiB", within=0.1))
    if measured.outcome is not Outcome.FAIL and alike.outcome is not Outcome.FAIL:
        return Finding((measured, alike))
    same = sum(memory == most for memory in like)
    return Finding(
        (measured, alike),
        f"{slot}: {value:.0f} MiB with ECC {mode}; {same} of {len(like)} GPUs with ECC {mode} have {most / _MIB:.0f} MiB",
    )


def judge_ecc(slot: str, gpu: Gpu, limits: GpuLimits) -> Finding:
    """Has the GPU's memory had errors that ECC could not correct, and does a page wait for its retirement?"""
    ecc = gpu.ecc
    note = gpu.why_unread("uncorrected") if ecc.uncorrected is None else ""
    measurements = [taken("gpu.uncorrected-ecc", ecc.uncorrected, slot, limits.uncorrected_ecc, note=note)]
    # parts with row remapping have no page retirement: there is nothing that could be pending
    if ecc.retirement_pending is not None or gpu.unread.get("retirement_pending") != NOT_SUPPORTED:
        pending = None if ecc.retirement_pending is None else int(ecc.retirement_pending)
        note = gpu.why_unread("retirement_pending") if pending is None else ""
        measurements.append(taken("gpu.pending-retirement", pending, slot, limits.pending_retirement, note=note))
    if ecc.remapping_pending is not None:
        waits = int(ecc.remapping_pending or bool(ecc.remapping_failed))
        note = "a remapping failed: no spare row is left" if ecc.remapping_failed else ""
        measurements.append(taken("gpu.pending-remapping", waits, slot, limits.pending_retirement, note=note))
    if not any(measured.outcome is Outcome.FAIL for measured in measurements):
        return Finding(tuple(measurements))
    text = (
        f"{slot} (serial {gpu.serial or 'unknown'}): errors since the driver was loaded: {_number(ecc.uncorrected)} uncorrected, "
        f"{_number(ecc.corrected)} corrected; retired pages: {_number(ecc.retired_single)} for single-bit, "
        f"{_number(ecc.retired_double)} for double-bit errors"
    )
    if ecc.remapping_failed:
        text += "; remapping a row failed: replace the card"
    elif ecc.remapping_pending:
        text += "; a row waits for its remapping: reset the GPU or reboot, then look again, and replace the card if it comes back"
    if ecc.retirement_pending:
        text += "; a page waits for its retirement: reset the GPU or reboot, then look again, and replace the card if it comes back"
    return Finding(tuple(measurements), text)


def judge_replays(slot: str, gpu: Gpu, limits: GpuLimits) -> Finding:
    """Does the link replay packets now? Old replays are history."""
    replays = gpu.replays
    rate = replays.per_minute
    if rate is None:
        backwards = replays.first is not None and replays.later is not None and replays.later < replays.first
        why = "the counter went backwards between the readings" if backwards else gpu.why_unread("replays")
        return Finding((taken("gpu.replay-rate", None, slot, limits.replay_rate, note=why),))
    note = f"{replays.first} before, {replays.later} after {replays.seconds:g} s"
    measured = taken("gpu.replay-rate", rate, slot, limits.replay_rate, note=note)
    if measured.outcome is not Outcome.FAIL:
        return Finding((measured,))
    text = f"{slot}: {note}: the link corrects errors all the time. Reseat the card, then its riser and cable"
    return Finding((measured,), text)


def judge_alike(slot: str, gpu: Gpu, fellows: Mapping[str, Gpu]) -> Finding:
    """Is the GPU the same kind of part, with the same VBIOS and ECC mode, as most of its fellows (itself among them)?"""
    traits = (
        ("gpu.name", "name", {name: other.name for name, other in fellows.items()}),
        ("gpu.device", "device", {name: _ids(other) for name, other in fellows.items()}),
        ("gpu.vbios", "VBIOS", {name: other.vbios for name, other in fellows.items()}),
        ("gpu.ecc-mode", "ECC", {name: ecc_mode(other) for name, other in fellows.items()}),
    )
    measurements, odd = [], []
    for measured, shown, values in traits:
        told = [value for value in values.values() if value]
        most = _most_common(told) if told else ""
        value = values.get(slot, "")
        field = measured.removeprefix("gpu.")
        note = "" if value else gpu.why_unread(field)
        measurements.append(taken(measured, value or None, slot, exactly(most), note=note))
        if value and value != most:
            odd.append(f"{slot} has {shown} {value}; {told.count(most)} of {len(told)} have {most}")
    return Finding(tuple(measurements), "\n".join(odd))


def fellows_of(slot: Slot, slots: Iterable[Slot], gpus: Mapping[str, Gpu]) -> dict[str, Gpu]:
    """The GPUs, this one among them, in slots for which the platform says the same of the model: mixed models are judged apart."""
    names = [other.name for other in slots if other.model == slot.model]
    return {name: gpus[name] for name in names if name in gpus and not gpus[name].error}


def peerings(inventory: Inventory, gpus: Mapping[str, Gpu]) -> dict[tuple[str, str], Peering]:
    """What the driver says of each ordered pair of slots."""
    names = {gpu.index: name for name, gpu in gpus.items()}
    return {(names[one], names[other]): said for (one, other), said in inventory.peers.items() if one in names and other in names}


def ecc_mode(gpu: Gpu) -> str:
    """``on``, ``off`` or ``not supported``, with the mode after the next boot where that is another."""
    if gpu.ecc.current is None:
        return "not supported"
    words = {True: "on", False: "off"}
    now = words[gpu.ecc.current]
    if gpu.ecc.pending is None or gpu.ecc.pending == gpu.ecc.current:
        return now
    return f"{now} ({words[gpu.ecc.pending]} after a reboot)"


def _why_unbound(address: str, driver: str, inventory: Inventory) -> str:
    if driver == "nouveau":
        return "nouveau holds it: blacklist nouveau, rebuild the initramfs and reboot"
    if driver.startswith("vfio"):
        return (
            f"{driver} holds it, for a virtual machine: give it back to nvidia (driverctl unset-override, or the kernel's vfio ids)"
        )
    if driver:
        return f"{driver} holds it: unbind it and let nvidia bind"
    refused = [line for line in inventory.kernel if any(sign in line.lower() for sign in _UNSIGNED)]
    if refused:
        text = "no driver holds it: the kernel refused an unsigned module (Secure Boot): sign nvidia.ko and enrol the key"
        return "\n".join([text, *_quote(refused, inventory)])
    own = inventory.said_of(address)
    text = "no driver holds it" if own else "no driver holds it: is the nvidia module installed for this kernel, and loaded?"
    return "\n".join([text, *_quote(own, inventory)])


def _quote(lines: Sequence[str], inventory: Inventory) -> list[str]:
    """The end of the kernel log's lines about the part, or that there are none. Lines about another part are no evidence."""
    if inventory.kernel_error:
        return [f"the kernel log could not be read: {inventory.kernel_error}"]
    return [f"kernel: {line.strip()}" for line in lines[-3:]] or ["no line of the kernel log is about it"]


def _path_of(address: str, snapshot: Snapshot) -> str:
    return next((function.path for function in snapshot.functions if function.bdf == address), "an unknown place")


def _opened(inventory: Inventory) -> int:
    return sum(not gpu.error for gpu in inventory.gpus)


def model_of(gpu: Gpu, models: Sequence[DeviceModel]) -> DeviceModel | None:
    """The model with the GPU's ids, else the only one there may be."""
    same = [model for model in models if model.device == gpu.device]
    exact = [model for model in same if model.subsystem in ("", gpu.subsystem)]
    return next(iter(exact or same or (models if len(models) == 1 else ())), None)


def _ids(gpu: Gpu) -> str:
    return f"{gpu.device} {gpu.subsystem}".strip()


def _most_common(values: Sequence[T]) -> T:
    return Counter(values).most_common(1)[0][0]


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)
