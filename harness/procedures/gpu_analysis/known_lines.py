"""What lines of public bug reports mean, and what is to be done. Sources stand with their shapes in devices/gpu_reports."""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.gpu_reports.facts import Reading, Signature
from harness.procedures.analysis.diagnosis import Diagnosis, Severity

TOO_MANY = "with more than nine GPUs in one process, each would need more than eight peers (error 711)"

_MOST = 6

_MEANINGS: dict[Signature, tuple[Severity, str, str, str, str]] = {
    Signature.TOO_MANY_PEERS: (
        Severity.WARN,
        "peer-limit",
        "more peers were asked for than a GPU has: the limit of eight, system-wide, not broken hardware",
        "a program enables all pairs in one process, even with peer copies off; or another process (an X server) holds peers",
        "use one process a GPU; see in nvidia-smi who else holds the GPUs; test pair by pair, enabling and disabling",
    ),
    Signature.PATTERN: (
        Severity.FAIL,
        "wrong-bytes",
        "nvbandwidth found wrong bytes after a copy; it does not say between which GPUs",
        "the way between two GPUs (IOMMU, ACS, switch), or a memory",
        "find the pair: run the p2p stage, which names pair, offset and class of the wrong bytes; IOMMU off or pass-through first",
    ),
    Signature.VERIFICATION: (
        Severity.FAIL,
        "wrong-bytes",
        "simpleP2P found wrong bytes after its copies, whatever bandwidth it printed",
        "peer writes do not land: an IOMMU that translates, or a driver that only claims peer access for this GPU",
        "turn the IOMMU off or to pass-through, then compare every pair with and without peer access (the p2p stage)",
    ),
    Signature.IOMMU: (
        Severity.FAIL,
        "iommu",
        "the IOMMU refused an access between devices: peer writes are dropped",
        "an IOMMU that translates GPU-to-GPU traffic",
        "turn VT-d or AMD-Vi off in the BIOS, or boot with iommu=pt; touch no peer copies before",
    ),
    Signature.FABRIC_MANAGER: (
        Severity.FAIL,
        "fabric-manager",
        "CUDA says that the system is not ready (802): the NVSwitch fabric is not set up",
        "nvidia-fabricmanager does not run, or is of another version than the driver",
        "start it: systemctl status nvidia-fabricmanager; its version has to be the driver's",
    ),
    Signature.NCCL_CRASH: (
        Severity.WARN,
        "nccl-crash",
        "a process crashed inside NCCL",
        "a fault of the software, or memory of a peer that was gone",
        "read the process's own log, and the kernel log for Xids just before",
    ),
    Signature.PEERMEM: (
        Severity.NOTE,
        "peermem",
        "nvidia-peermem was told of memory that its owner had freed already",
        "a process ended while its memory was registered with a network card",
        "look for what ended that process",
    ),
}


def judge_lines(readings: tuple[Reading, ...]) -> Iterator[Diagnosis]:
    """A diagnosis for each kind of known line in each file."""
    for reading in readings:
        for sign in reading.signs:
            severity, check, what, cause, do = _MEANINGS[sign.signature]
            times = f", {sign.count} times" if sign.count > 1 else ""
            then = _holders(readings) if sign.signature is Signature.TOO_MANY_PEERS else ()
            yield Diagnosis(
                severity, check, sign.signature.value, f"{what}{times}", sign.line, reading.source, cause, do, then=then
            )


def _holders(readings: tuple[Reading, ...]) -> tuple[str, ...]:
    """Who may hold peers: the processes that nvidia-smi lists, graphics first."""
    found = sorted(
        ((process, reading.source) for reading in readings for process in reading.processes),
        key=lambda each: ("graphics" not in each[0].kind, each[0].index),
    )
    return tuple(
        f"may hold peers: {process.name} (pid {process.pid}, {process.kind or 'kind not told'}) on GPU {process.index} ({source})"
        for process, source in found[:_MOST]
    )
