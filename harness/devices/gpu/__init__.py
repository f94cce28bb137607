"""The GPUs as the driver sees them: inventory, the slot of each, and telemetry."""

from harness.devices.gpu.facts import Ecc, Gpu, Inventory, Level, Link, Peering, PeerStatus, Process, Reason, Replays
from harness.devices.gpu.inventory import join, read_inventory
from harness.devices.gpu.telemetry import Sample, share_of_reasons, watch_gpus

__all__ = [
    "Ecc",
    "Gpu",
    "Inventory",
    "Level",
    "Link",
    "PeerStatus",
    "Peering",
    "Process",
    "Reason",
    "Replays",
    "Sample",
    "join",
    "read_inventory",
    "share_of_reasons",
    "watch_gpus",
]
