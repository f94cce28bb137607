"""What the ranks exchange: whether the sums are right, and which way they go."""

from __future__ import annotations

import re
from typing import Any, Dict

import torch
import torch.distributed as dist

ELEMENTS = 1 << 20

_MODULUS = 251
"""Prime, so that the pattern falls into step with no page, packet or block."""

_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : .* via (P2P|SHM|NET|COLLNET)")
"""The line that NCCL logs for each connection with NCCL_DEBUG=INFO, such as ``... via P2P/IPC`` (NVIDIA/nccl, src/transport)."""


def pattern(rank: int, device: Any) -> Any:
    """Integers that differ by rank and place. Sums over up to 2**8 ranks stay far below 2**24, which fp32 holds exactly."""
    places = torch.arange(ELEMENTS, device=device, dtype=torch.int64)
    return ((places * (rank + 3) + 7 * rank) % _MODULUS).float()


def wrong_sums(rank: int, ranks: int, device: Any) -> int:
    """How many sums of one all-reduce this rank holds wrong; what they should be is computed here, without the others."""
    sums = pattern(rank, device)
    dist.all_reduce(sums)
    wanted = torch.zeros(ELEMENTS, device=device)
    for other in range(ranks):
        wanted += pattern(other, device)
    return int((sums != wanted).sum().item())


def count_channels(log: str) -> Dict[str, int]:
    """NCCL's connections in its log, by the way they go."""
    ways = [match.group(1) for match in _CHANNEL.finditer(log)]
    return {"p2p": ways.count("P2P"), "shm": ways.count("SHM"), "net": ways.count("NET") + ways.count("COLLNET")}
