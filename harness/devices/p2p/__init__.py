"""Peer-to-peer copies between all GPUs: running them and what came of each pair."""

from harness.devices.gpu import LoadedLink, Telemetry, Xid
from harness.devices.p2p.facts import (
    TOO_MANY_PEERS,
    Alone,
    Contention,
    Contexts,
    Damage,
    Holder,
    LinkKind,
    Loopback,
    Pair,
    PeerGpu,
    Redirect,
    Report,
    Shift,
    Wedged,
    Wrong,
)
from harness.devices.p2p.reading import run_p2p

__all__ = [
    "TOO_MANY_PEERS",
    "Alone",
    "Contention",
    "Contexts",
    "Damage",
    "Holder",
    "LinkKind",
    "LoadedLink",
    "Loopback",
    "Pair",
    "PeerGpu",
    "Redirect",
    "Report",
    "Shift",
    "Telemetry",
    "Wedged",
    "Wrong",
    "Xid",
    "run_p2p",
]
