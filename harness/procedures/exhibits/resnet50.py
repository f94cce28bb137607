"""The training: each GPU alone, all together, and how warm and how throttled they were."""

from __future__ import annotations

from typing import Any

from harness.devices.resnet50 import Report
from harness.procedures.exhibits.bounds import shortened

_MOST_GPUS = 64
_MOST_WINDOWS = 200


def show_resnet50(report: Report) -> dict[str, Any]:
    """``gpus`` are (address, uuid, images/s alone, degrees Celsius, watts, {reason: share of time}).

    ``windows`` are images/s of all together.
    """
    return {
        "identity": shortened(report.identity.details),
        "gpus": [_gpu(report, gpu.index, gpu.address, gpu.uuid) for gpu in report.gpus[:_MOST_GPUS]],
        "windows": [_figure(window.rate) for window in report.windows[:_MOST_WINDOWS]],
        "total": _figure(report.total),
        "efficiency": _figure(report.efficiency, 3),
        "untried": shortened(report.untried),
    }


def _gpu(report: Report, index: int, address: str, uuid: str) -> list[Any]:
    solo, told = report.solo(index), report.told(index)
    reasons = {} if told is None else {name: round(share, 3) for name, share in told.reasons.items() if share > 0}
    return [
        address,
        uuid,
        None if solo is None else _figure(solo.rate),
        None if told is None else told.temperature,
        None if told is None else _figure(told.power),
        reasons,
    ]


def _figure(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
