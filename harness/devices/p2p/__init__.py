"""Peer-to-peer copies between all GPUs: running them and what came of each pair."""

from harness.devices.p2p.facts import (
    TOO_MANY_PEERS,
    Alone,
    Contention,
    Damage,
    Holder,
    LinkKind,
    LoadedLink,
    Pair,
    PeerGpu,
    Redirect,
    Report,
    Telemetry,
    Wedged,
    Wrong,
    Xid,
)
from harness.devices.p2p.reading import run_p2p

__all__ = [
    "TOO_MANY_PEERS",
    "Alone",
    "Contention",
    "Damage",
    "Holder",
    "LinkKind",
    "LoadedLink",
    "Pair",
    "PeerGpu",
    "Redirect",
    "Report",
    "Telemetry",
    "Wedged",
    "Wrong",
    "Xid",
    "run_p2p",
]
