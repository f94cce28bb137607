"""Training ResNet-50: the same result from every GPU, no straggler, finite numbers, the throughput of a healthy machine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.devices.gpu import Gpu
from harness.devices.resnet50 import Report
from harness.errors import NotApplicable, NotMeasured
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.gpu import model_of
from harness.procedures.places import Place, find_places, index_of
from harness.procedures.resnet50 import (
    judge_efficiency,
    judge_finite,
    judge_floor,
    judge_hash,
    judge_ranks,
    judge_spread,
    judge_straggler,
)
from harness.procedures.resnet50_watch import judge_watched


@pytest.mark.check("resnet50.hash")
def test_every_gpu_computes_the_same(
    slot: Slot, resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The GPU computes, alone, what most of the others do.

    A failure means silent corruption in this GPU: like GPUs give the same bits for the same seeded steps.
    """
    if len(resnet50.gpus) < 2:
        raise NotApplicable("it takes two GPUs to compare what they compute")
    places = _places(resnet50, gpu_in, platform)
    judge_hash(resnet50, places, _index_of(slot, places)).record(measure)


@pytest.mark.check("resnet50.straggler")
def test_no_gpu_is_a_straggler(
    slot: Slot, resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The GPU is about as fast, alone, as the median of all.

    A failure usually means heat or power. In step with a straggler all GPUs are as slow.
    """
    places = _places(resnet50, gpu_in, platform)
    judge_straggler(resnet50, places, _index_of(slot, places), platform.resnet50.solo).record(measure)


@pytest.mark.check("resnet50.watched")
def test_nothing_holds_a_gpu_back_while_it_trains(
    slot: Slot, resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The driver reports no error of the GPU while it trains, and its hardware holds it back by neither heat nor power.

    A failure usually means cooling, a power cable, or a link that is not seated well.
    """
    places = _places(resnet50, gpu_in, platform)
    model = model_of(gpu_in[slot.name], platform.models_for(slot)) if slot.name in gpu_in else None
    link, rate = (None if model is None else model.link), (None if platform.gpu is None else platform.gpu.replay_rate)
    judge_watched(resnet50, places, _index_of(slot, places), link, rate).record(measure)


@pytest.mark.check("resnet50.nan")
def test_every_loss_is_a_number(resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure) -> None:
    """Every loss and gradient is a finite number.

    A failure usually means the GPU where it came first, or the way to it.
    """
    judge_finite(resnet50, _places(resnet50, gpu_in, platform)).record(measure)


@pytest.mark.check("resnet50.ranks")
def test_all_ranks_end_with_the_same_parameters(
    resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """All ranks end with the same parameters, and the all-reduce adds up.

    A failure means that gradients were lost or changed on their way: the copies are wrong under this load.
    """
    judge_ranks(resnet50, _places(resnet50, gpu_in, platform)).record(measure)


@pytest.mark.check("resnet50.spread")
def test_the_rate_is_steady(resnet50: Report, platform: Platform, measure: Measure) -> None:
    """The rate of training is steady.

    A failure usually means throttling, a starved loader, or somebody else on the host: healthy runs stay within 1.7 %.
    """
    judge_spread(resnet50, platform.resnet50.spread).record(measure)


@pytest.mark.check("resnet50.efficiency")
def test_all_gpus_together_scale(resnet50: Report, platform: Platform, measure: Measure) -> None:
    """All GPUs together are nearly as many times as fast as one.

    A failure usually means that the all-reduce takes the wrong way, or contends with something.
    """
    if resnet50.transport is not None:
        measure("resnet50.transport", str(resnet50.transport))
    judge_efficiency(resnet50, platform.resnet50.efficiency).record(measure)


@pytest.mark.check("resnet50.floor")
def test_the_throughput_is_that_of_a_healthy_machine(
    resnet50: Report, platform: Platform, gpu_in: Mapping[str, Gpu], measure: Measure
) -> None:
    """The throughput is what this software reaches on as many healthy GPUs.

    A failure with good scaling and no straggler means the software path, not a part. Another software's rate is recorded, not
    judged.
    """
    present = sum(not gpu.error for gpu in gpu_in.values())
    places = _places(resnet50, gpu_in, platform)
    judge_floor(resnet50, places, platform.resnet50.floors, present).record(measure)


def _places(resnet50: Report, gpu_in: Mapping[str, Gpu], platform: Platform) -> dict[int, Place]:
    return find_places(resnet50.gpus, gpu_in, platform.slots)


def _index_of(slot: Slot, places: Mapping[int, Place]) -> int:
    index = index_of(places, slot.name)
    if index is None:
        raise NotMeasured(f"{slot}: the worker did not train on the GPU there")
    return index
