"""The GPUs as the driver sees them: held by the right driver, all counted, healthy and alike."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.bench import Bench
from harness.devices.gpu import Gpu, Inventory
from harness.devices.pcie import Snapshot
from harness.errors import Blocked, NotApplicable, NotMeasured
from harness.limits import exactly
from harness.platform import Gpu as GpuLimits
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.gpu import (
    NOT_SUPPORTED,
    ecc_mode,
    fellows_of,
    judge_alike,
    judge_binding,
    judge_counted,
    judge_ecc,
    judge_memory,
    judge_replays,
    judge_unexpected,
)
from harness.procedures.gpu_xids import judge_xids


@pytest.mark.check("gpu.driver-bound")
@pytest.mark.presence
def test_the_nvidia_driver_holds_every_gpu(slot: Slot, pcie: Snapshot, gpus: Inventory, measure: Measure) -> None:
    """The nvidia driver holds the GPU.

    A failure usually means that nouveau or vfio got there first, or that the kernel refused an unsigned module (Secure Boot).
    """
    function = pcie.at(slot.path)
    if function is None:
        raise Blocked(f"{slot}: the PCI tree has no function there")
    judge_binding(slot.name, function.bdf, function.driver, gpus).record(measure)


@pytest.mark.check("gpu.nvml")
@pytest.mark.vital
def test_nvml_answers(gpus: Inventory, measure: Measure) -> None:
    """NVML, the driver's library, answers.

    A failure usually means that the driver is not loaded, or was updated under a running kernel. Without NVML nothing more can
    be said of any GPU.
    """
    measure("gpu.nvml", gpus.error or "answers", limit=exactly("answers"))
    measure("gpu.driver-version", gpus.driver or None, note=gpus.error)
    measure("gpu.count", gpus.count)


@pytest.mark.check("gpu.nvml-count")
@pytest.mark.presence
def test_nvml_counts_every_gpu(slot: Slot, pcie: Snapshot, gpus: Inventory, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """NVML counts and opens the GPU.

    A failure usually means that the driver could not start the GPU (RmInitAdapter failed): power, firmware, or a BAR without a
    place.
    """
    function = pcie.at(slot.path)
    if function is None:
        raise Blocked(f"{slot}: the PCI tree has no function there")
    judge_counted(slot.name, function.bdf, gpu_in.get(slot.name), gpus).record(measure)


@pytest.mark.check("gpu.unexpected")
def test_no_gpu_is_where_none_is_expected(
    bench: Bench, platform: Platform, pcie: Snapshot, gpus: Inventory, measure: Measure
) -> None:
    """No GPU sits in a slot that the bench calls empty, or in none that the platform has.

    A failure usually means a bench or platform file that lags behind the machine, or a neighbour's GPU that the fabric attached.
    """
    _limits(platform)
    judge_unexpected(gpus, pcie, platform, platform.populated(bench.populated)).record(measure)


@pytest.mark.check("gpu.memory")
def test_every_gpu_has_all_its_memory(slot: Slot, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """The GPU has as much memory as its model and ECC mode say.

    A failure usually means another kind of card, or one that switched a memory partition off.
    """
    gpu = _gpu_in(slot, gpu_in)
    judge_memory(slot, gpu, fellows_of(slot, platform.slots, gpu_in), platform).record(measure)


@pytest.mark.check("gpu.ecc")
def test_no_gpu_has_uncorrected_errors(slot: Slot, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """The GPU's memory has no uncorrected errors and no page to retire.

    A failure means that the memory is failing: data may be wrong already.
    """
    gpu = _gpu_in(slot, gpu_in)
    if gpu.ecc.current is None and gpu.why_unread("ecc") != NOT_SUPPORTED:
        raise NotMeasured(f"{slot}: whether ECC is on: {gpu.why_unread('ecc')}")
    if not gpu.ecc.current:
        raise NotApplicable(f"{slot}: ECC is {ecc_mode(gpu)}, so nothing counts errors")
    judge_ecc(slot.name, gpu, _limits(platform)).record(measure)


@pytest.mark.check("gpu.xids")
def test_the_driver_reported_no_fault_of_a_gpu(slot: Slot, gpus: Inventory, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """The driver has reported no fault of the GPU, its memory or its link since the machine started (Xid in the kernel log).

    A failure usually means a card that fails under some load, even if it works now. Numbers that a program brings on itself are
    recorded only.
    """
    judge_xids(slot.name, _gpu_in(slot, gpu_in), gpus).record(measure)


@pytest.mark.check("gpu.replay-rate")
def test_no_link_replays_packets_all_the_time(slot: Slot, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """The GPU's link does not replay packets all the time.

    A failure usually means a marginal link: a card, riser or cable that is not seated well. Replays of the past do not count.
    """
    judge_replays(slot.name, _gpu_in(slot, gpu_in), _limits(platform)).record(measure)


@pytest.mark.check("gpu.alike")
def test_all_gpus_are_alike(slot: Slot, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """The GPU is of the same kind, VBIOS and ECC mode as the others.

    A failure usually means a replaced card: rates and results of the GPUs cannot be compared.
    """
    judge_alike(slot.name, _gpu_in(slot, gpu_in), fellows_of(slot, platform.slots, gpu_in)).record(measure)


def _gpu_in(slot: Slot, gpu_in: Mapping[str, Gpu]) -> Gpu:
    gpu = gpu_in.get(slot.name)
    if gpu is None or gpu.error:
        raise NotMeasured(f"{slot}: NVML does not open the GPU there; see gpu.nvml-count")
    return gpu


def _limits(platform: Platform) -> GpuLimits:
    if platform.gpu is None:
        raise NotApplicable("the platform has no [gpu]")
    return platform.gpu
