"""The ResNet-50 smoke test: running it and what it did."""

from harness.devices.resnet50.facts import FULL_SIZE, AllReduce, Identity, Rank, RankGpu, Report, Solo, Telemetry, Transport, Window
from harness.devices.resnet50.reading import run_resnet50

__all__ = [
    "FULL_SIZE",
    "AllReduce",
    "Identity",
    "Rank",
    "RankGpu",
    "Report",
    "Solo",
    "Telemetry",
    "Transport",
    "Window",
    "run_resnet50",
]
