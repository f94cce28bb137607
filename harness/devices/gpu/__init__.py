"""The GPUs as the driver sees them: inventory, the slot of each, and telemetry at rest and at work."""

from harness.devices.gpu.facts import Ecc, Gpu, Inventory, Level, Link, Peering, PeerStatus, Process, Reason, Replays
from harness.devices.gpu.inventory import join, read_inventory
from harness.devices.gpu.telemetry import Sample, share_of_reasons, watch_gpus
from harness.devices.gpu.watched import LoadedLink, Telemetry, Xid, links_in, xids_in

__all__ = [
    "Ecc",
    "Gpu",
    "Inventory",
    "Level",
    "Link",
    "LoadedLink",
    "PeerStatus",
    "Peering",
    "Process",
    "Reason",
    "Replays",
    "Sample",
    "Telemetry",
    "Xid",
    "join",
    "links_in",
    "read_inventory",
    "share_of_reasons",
    "watch_gpus",
    "xids_in",
]
