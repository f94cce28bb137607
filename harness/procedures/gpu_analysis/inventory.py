"""What a platform expects of the GPUs that nvidia-smi lists: how many, which kind, how much memory; same rules as the gpu stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.devices.dumps.harvest import DriverGpu
from harness.devices.dumps.picture import Picture
from harness.devices.gpu import Ecc, Gpu
from harness.platform import Platform, Slot
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.gpu import judge_memory, model_of


def judge_inventory(picture: Picture, platform: Platform) -> Iterator[Diagnosis]:
    """The GPUs of nvidia-smi against the platform's slots and models."""
    listed = [gpu for gpu in picture.gpus if gpu.address and not gpu.lost]
    if not picture.lists_driver or not listed:
        return
    expected = len(platform.slots)
    if len(listed) != expected:
        yield Diagnosis(
            Severity.FAIL,
            "count",
            f"{len(listed)} GPUs",
            f"the platform {platform.name} expects {expected}",
            "",
            listed[0].source,
            "lost on the way to the driver, or not all of them are in"
            if len(listed) < expected
            else "another machine, or more cards",
            "follow the missing ones: bringup pcie analyze with lspci -vvv and dmesg",
        )
    for gpu in listed:
        yield from _kind(gpu, platform)
        yield from _memory(gpu, platform)


def _kind(gpu: DriverGpu, platform: Platform) -> Iterator[Diagnosis]:
    known = {model.device for model in platform.models}
    if gpu.device and known and gpu.device not in known:
        yield Diagnosis(
            Severity.FAIL,
            "identity",
            f"{gpu.address} {gpu.name}".strip(),
            f"it is {gpu.device}, and the platform knows {', '.join(sorted(known))}",
            "",
            gpu.source,
            "another card",
            "check its part number",
            (gpu.address,),
        )


def _memory(gpu: DriverGpu, platform: Platform) -> Iterator[Diagnosis]:
    """The frame buffer, for the ECC state in which the size that is nearest stands: nvidia-smi's own state is not kept."""
    seen = Gpu(0, gpu.address, device=gpu.device, subsystem=gpu.subsystem, name=gpu.name, memory=gpu.memory, serial=gpu.serial)
    model = model_of(seen, platform.models)
    if gpu.memory is None or model is None or model.memory is None:
        return
    is_on = abs(gpu.memory - model.memory.ecc_on) < abs(gpu.memory - model.memory.ecc_off)
    place = Slot(name=gpu.address, path="pci0000:00/00.0")
    with_ecc = replace(seen, ecc=Ecc(current=is_on))
    finding = judge_memory(place, with_ecc, {gpu.address: with_ecc}, platform)
    if finding.explanation:
        yield Diagnosis(
            Severity.FAIL,
            "memory",
            f"{gpu.address} {gpu.name}".strip(),
            finding.explanation.splitlines()[0],
            "",
            gpu.source,
            "memory that was retired or mapped out, or another card",
            "compare with its like, and look at retired pages",
            (gpu.address,),
        )
