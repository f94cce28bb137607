"""Lines that public bug reports tell of, wherever they stand: in a program's output, in a kernel log, pasted into a mail."""

from __future__ import annotations

import re

from harness.devices.gpu_reports.facts import Reading, Sign, Signature, Tool, plural

_SIGNATURES: tuple[tuple[Signature, str], ...] = (
    (
        # NVIDIA/nccl-tests#324, NVIDIA/nccl#1874 and #356, tensorflow/tensorflow#30887 and #42039, ggml-org/llama.cpp#21883;
        # the last one is the driver's own word (NVIDIA/open-gpu-kernel-modules, kern_bus_gm200.c)
        Signature.TOO_MANY_PEERS,
        r"peer mapping resources exhausted|TOO_MANY_PEERS|Cuda failure 711\b|CUDA error 711\b|no peer IDs available",
    ),
    (Signature.PATTERN, r"Invalid value when checking the pattern at"),  # NVIDIA/nvbandwidth#34 and #19
    (Signature.VERIFICATION, r"Verification error @ element"),  # NVIDIA/cuda-samples#390, aikitoria/open-gpu-kernel-modules#8
    # unslothai/unsloth#10613, NVIDIA/cuda-samples#48
    (Signature.IOMMU, r"DMAR: \[DMA (?:Write|Read)|AMD-Vi:.{0,60}IO_PAGE_FAULT"),
    (Signature.FABRIC_MANAGER, r"(?:CUDA|Cuda) (?:error|failure) 802\b|CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady"),
    (Signature.NCCL_CRASH, r"segfault at \S+ .{0,120} in libnccl\.so"),  # leptonai/gpud
    (Signature.PEERMEM, r"nvidia-peermem nv_get_p2p_free_callback"),  # leptonai/gpud
)
_ANY = re.compile("|".join(pattern for _, pattern in _SIGNATURES))
_LONGEST = 400


def looks_like(text: str) -> bool:
    """True where any of the lines is there."""
    return _ANY.search(text) is not None


def parse(text: str, source: str) -> Reading:
    """Keep the first line of each kind, and how many there are."""
    found: dict[Signature, list[str]] = {}
    for line in text.splitlines():
        if _ANY.search(line):
            for signature, pattern in _SIGNATURES:
                if match := re.search(pattern, line):
                    start = max(0, match.start() - _LONGEST)
                    found.setdefault(signature, []).append(line[start : match.end() + _LONGEST].strip())
    signs = tuple(Sign(signature, lines[0], len(lines)) for signature, lines in found.items())
    return Reading(Tool.LINES, source, f"{plural(sum(sign.count for sign in signs), 'known line')}", signs=signs)
