"""What matters in a recorded answer, as rules that change it: each is a way in which a machine may lie or be broken.

A rule that no check notices is a hole in the checks. One with an ``excuse`` may pass unnoticed, and the excuse says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.ports import Json
from harness.tape.mutants import GONE, STATUS, TEXT, Gone, Rule

_JOB = r"/redfish/v1/Managers/[^/]+/(Oem/Dell/)?Jobs/JID_\d+"
_SYSTEM = r"/redfish/v1/Systems/[^/?]+"
_LOG = r".*/Lclog/Entries.*"
_TRANSLATING = {"id": "7", "type": "DMA"}
_LC_STATUS = r".*GetRemoteServicesAPIStatus.*"


def _to(value: Json) -> Callable[[Json], Json]:
    return lambda _: value


def _when(now: str, then: str) -> Callable[[Json], Json]:
    return lambda told: then if told == now else told


def _plus(**fields: Json) -> Callable[[Json], Json]:
    return lambda table: {**table, **fields}


def _denied_idrac(member: Json) -> Json:
    """An iDRAC version that the platform denies, where this is the installed one."""
    is_idrac = isinstance(member, dict) and str(member.get("Id", "")).startswith("Installed-25227-")
    return {**member, "Version": "7.00.00.00"} if is_idrac else member


def _newest_is_a_shortage(members: Json) -> Json:
    """The newest entry of the log, which stands first, tells of MMIO that is short."""
    return [{**members[0], "MessageId": "IDRAC.2.8.UEFI0134"}, *members[1:]] if isinstance(members, list) and members else members


def _gone(_: Json) -> Gone:
    return GONE


def _scaled(factor: float) -> Callable[[Json], Json]:
    return lambda value: round(value * factor, 3) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _other(value: Json) -> Json:
    """Another text of the same length."""
    return value[:-1] + ("1" if value.endswith("0") else "0") if isinstance(value, str) and value else value


def _flipped(value: Json) -> Json:
    return not value if isinstance(value, bool) else value


def _of_gpu(change: Callable[[dict[str, Any]], Json | Gone]) -> Callable[[Json], Json | Gone]:
    """A change of PCI functions that are GPUs: display controllers that are no VGA, or VGA of NVIDIA."""

    def on_gpus(line: Json) -> Json | Gone:
        is_gpu = isinstance(line, dict) and str(line.get("class", "")).startswith("0302")
        return change(line) if is_gpu else line

    return on_gpus


def _config(offset: int, value: int) -> Callable[[dict[str, Any]], Json]:
    """A 16-bit register of the PCI Express capability set to ``value``."""

    def changed(line: dict[str, Any]) -> Json:
        data = bytearray.fromhex(line["config"])
        place = _capability(data, 0x10)
        if not place or place + offset + 2 > len(data):
            return line
        data[place + offset : place + offset + 2] = value.to_bytes(2, "little")
        return line | {"config": data.hex()}

    return changed


def _capability(data: bytes | bytearray, wanted: int) -> int:
    """Where a capability stands in configuration space, 0 where there is none (PCI Local Bus 3.0, 6.7)."""
    place, seen = data[0x34] if len(data) > 0x40 else 0, set[int]()
    while 0x40 <= place < len(data) - 1 and place not in seen:
        seen.add(place)
        if data[place] == wanted:
            return place
        place = data[place + 1] & 0xFC
    return 0


def _no_memory(line: dict[str, Any]) -> Json:
    """The large region that nobody placed."""
    return line | {
        "resource": [[0, 0, 0] if end - start >= 1 << 27 else [start, end, flags] for start, end, flags in line["resource"]]
    }


def _says(text: str) -> Callable[[Json], Json]:
    """A kernel log with one more line at its end."""
    return lambda log: f"{str(log).rstrip()}\n{text}\n"


BMC = (
    Rule("another-machine", "bmc", _SYSTEM, "SKU", _other, "session/(contact|boot)", lasts=True),
    Rule("bios-version", "bmc", _SYSTEM, "BiosVersion", _to("2.4.7"), "session/bios", lasts=True),
    Rule("job-failed", "bmc", _JOB, "JobState", _to("Failed")),
    Rule("job-message", "bmc", _JOB, "MessageId", lambda told: "PR31" if told == "PR19" else told, lasts=True),
    Rule("halted", "bmc", _LC_STATUS, "ServerStatus", _when("InPOST", "HaltedF1/F2Prompt"), "session/boot"),
    Rule(
        "in-setup",
        "bmc",
        _LC_STATUS,
        "ServerStatus",
        lambda told: "EnteredF2Setup" if told == "OutOfPOST" else told,
        "session/boot",
    ),
    Rule("not-read-back", "bmc", rf"{_SYSTEM}/Bios", "Attributes.MmioAbove4Gb", _to("Disabled"), "session/bios", lasts=True),
    Rule("somebody-s-value", "bmc", rf"{_SYSTEM}/Bios/Settings", "Attributes", _plus(NumLock="Off"), "session/bios"),
    Rule("log-event", "bmc", _LOG, "Members", _newest_is_a_shortage, "session/boot"),
    Rule("restarted-bmc", "bmc", r"/redfish/v1/Managers/[^/?]+", "LastResetTime", _to("2031-01-01T00:00:00-06:00")),
    Rule("old-firmware", "bmc", r".*FirmwareInventory.*", r"Members.\*", _denied_idrac),
    Rule("status-500", "bmc", rf"{_SYSTEM}(/Bios(/Settings)?)?|{_JOB}", STATUS, lambda status: 500 if status == 200 else status),
    Rule("locked-down", "bmc", r".*DellAttributes/.*", r"Attributes.Lockdown\.1\.SystemLockdown", _to("Enabled")),
)

FABRIC = (
    Rule("serial-in-fabric", "fabric", ".*", r"response.data.\*.serial_num", _other),
    Rule("owner-in-fabric", "fabric", ".*", r"response.data.\*.mname", _to("somebody-else")),
    Rule("lost-in-fabric", "fabric", ".*", r"response.data.\*", _gone),
)

PCI = (
    Rule("gpu-not-enumerated", "host", "agent pci", "function", _of_gpu(lambda _: GONE)),
    Rule("narrow-link", "host", "agent pci", "function", _of_gpu(_config(0x12, 0x1081))),
    Rule("gpu-without-memory", "host", "agent pci", "function", _of_gpu(_no_memory)),
    Rule("another-card", "host", "agent pci", "function", _of_gpu(lambda line: line | {"subsystem_device": "1234"})),
    Rule("no-driver", "host", "agent pci", "function", _of_gpu(lambda line: line | {"driver": ""})),
    Rule("translating-iommu", "host", "agent pci", "function", _of_gpu(lambda line: line | {"iommu_group": _TRANSLATING})),
    Rule("another-host", "host", "agent pci", "host.serial", _other),
    Rule("aer-errors", "host", "agent pci", "function", _of_gpu(lambda line: line | {"aer": {"fatal": {"TLP": 3}}})),
    Rule("xid", "host", "dmesg", TEXT, _says("[  900.0] NVRM: Xid (PCI:0000:3f:00): 79, fallen off the bus"), "session/gpus"),
    Rule("no-space", "host", "dmesg", TEXT, _says("[  900.1] pci 0000:3f:00.0: BAR 1: failed to assign [mem size 0x10000000]"),
         excuse="the final state decides: the tree shows the region in its place"),
    Rule("worker-fails", "host", "agent .*", STATUS, _to(1)),
)  # fmt: skip

GPU = (
    Rule("gpu-unseen", "host", "agent nvml.*", "gpu", _gone),
    Rule("gpu-count", "host", "agent nvml.*", "system.count", _scaled(0.95)),
    Rule("gpu-memory", "host", "agent nvml.*", "gpu.memory", _scaled(0.9)),
    Rule("gpu-vbios", "host", "agent nvml.*", "gpu.vbios", _other),
    Rule("gpu-ecc", "host", "agent nvml.*", "gpu.uncorrected", _to(1)),
    Rule("gpu-retirement", "host", "agent nvml.*", "gpu.retirement_pending", _flipped),
    Rule("gpu-replays", "host", "agent nvml.*", "gpu.replays_later", _to(100)),
    Rule("gpu-serial", "host", "agent nvml.*", "gpu.serial", _other),
)

P2P = (
    Rule("bad-bytes", "host", "agent p2p.*", "pair.bad", _to(4096)),
    Rule("slow-pair", "host", "agent p2p.*", "pair.enabled", _to(1.0)),
    Rule("staged-pair", "host", "agent p2p.*", "pair", lambda line: {**line, "enabled": line["disabled"], "write_us": 14.0}),
    Rule("no-access", "host", "agent p2p.*", "pair.can", _flipped),
    Rule("pair-not-measured", "host", "agent p2p.*", "pair", _gone),
    Rule("narrow-under-load", "host", "agent p2p.*", "link.width", _to(8)),
    Rule("slow-under-load", "host", "agent p2p.*", "link.generation", _to(1)),
    Rule("translating-group", "host", "agent p2p.*", "gpu.iommu", _to("DMA")),
)  # fmt: skip

RESNET50 = (
    Rule("slow-gpu", "host", "agent resnet50.*", "solo.rate", _scaled(0.8)),
    Rule("another-hash", "host", "agent resnet50.*", "solo.hash", _other),
    Rule("nan", "host", "agent resnet50.*", "rank.bad_step", _to(3)),
    Rule("ranks-differ", "host", "agent resnet50.*", "rank.hash", _other),
    Rule("wrong-sums", "host", "agent resnet50.*", "allreduce.wrong", _to(7)),
    Rule("slow-windows", "host", "agent resnet50.*", "window.rate", _scaled(0.5)),
    Rule("rank-missing", "host", "agent resnet50.*", "rank", _gone),
)

RULES = (*BMC, *FABRIC, *PCI, *GPU, *P2P, *RESNET50)
"""All of them, in the order of the stages."""
