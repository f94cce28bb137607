"""What the kernel and the NVIDIA driver reported of the PCI tree while it ran, by the shape of the line, never by kernel version.

    line ─ stamp (seconds) ─ prefix (driver bdf:) ─ message ─ the first shape that fits ─ Event(kind, bdf, words)

Wordings differ between kernels ("Corrected" became "Correctable", "can't change power state" became "Unable to change"), so a
shape accepts all of them. Sources of the shapes: Linux drivers/pci (pcie/aer.c, pcie/dpc.c, hotplug/pciehp_ctrl.c, pci.c), and
NVIDIA/open-gpu-kernel-modules (nv-pci.c, nv.c, osinit.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from harness.devices.pcie.kernel_log import strip_stamp

_BDF = r"(?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"


class Kind(StrEnum):
    """What a line reports."""

    BUS_ERROR = "a PCIe bus error"
    ERROR_BIT = "a bit of the error before"
    FIRMWARE_ERROR = "an error that firmware handled first"
    RECOVERED = "a device recovered"
    NOT_RECOVERED = "a device did not recover"
    CONTAINED = "a port was contained"
    LINK_LOST = "a hot-plug port lost its link or card"
    LINK_FOUND = "a hot-plug port has its link or card"
    LINK_FAILED = "a hot-plug port cannot get its link up"
    POWER_FAULT = "a slot's power failed"
    POWER_STUCK = "a device does not come out of its sleep"
    NOT_READY = "a device does not come back from a reset"
    BANDWIDTH = "a bottleneck on the way"
    WINDOW_SHORT = "a window cannot hold what is behind it"
    BAR_INVALID = "a BAR holds nonsense before any driver"
    PNP_CLASH = "a VF BAR without a place clashes with another device"
    PROBE_FAILED = "a driver refused a device"
    PROBES_FAILED = "the driver refused some devices"
    NO_GPU = "the driver found no GPU"
    INIT_FAILED = "the driver could not initialise a GPU"
    GSP_FAILED = "the GPU's own processor did not start"
    OFF_THE_BUS = "a GPU fell off the bus"
    POWER_CABLE = "a GPU has no power cable"
    REGION_TAKEN = "somebody else owns a GPU's registers"
    RESIZE_FAILED = "the driver could not resize an aperture"
    PEER_LIMIT = "no ninth peer"
    IOMMU_FAULT = "the IOMMU refused an access"
    DOMAIN_TYPE = "what the IOMMU does by default"
    NODELESS = "a host bridge has no NUMA node"
    FIRMWARE_OWNS_ERRORS = "the firmware keeps the errors to itself"


@dataclass(frozen=True)
class Event:
    """One reported event: ``bdf`` "" where the line names none, ``at`` seconds on the log's own time scale or None.

    ``words`` are the named parts of the line; ``line`` is the line without its stamp.
    """

    kind: Kind
    bdf: str
    line: str
    at: float | None = None
    words: Mapping[str, str] = field(default_factory=dict, hash=False)

    def number(self, word: str) -> int:
        """A named part as a number; hexadecimal with 0x. 0 where it is not there."""
        text = self.words.get(word, "")
        return int(text, 0) if text else 0


_SHAPES: tuple[tuple[str, Kind, re.Pattern[str]], ...] = tuple(
    (mark, kind, re.compile(shape))
    for mark, kind, shape in (
        ("Bus Error", Kind.BUS_ERROR,
         _BDF + r": (?:AER: )?PCIe Bus Error: severity=(?P<severity>[^,]+), type=(?P<type>[^,(]+)"),
        ("[", Kind.ERROR_BIT, _BDF + r": (?:AER: )? +\[ ?(?P<bit>\d{1,2})\] (?P<name>\w+)"),
        ("aer_", Kind.FIRMWARE_ERROR,
         r"(?:" + _BDF + r": )?(?:AER: )?.*?aer_(?P<which>uncor_|cor_)?status: (?P<status>0x[0-9a-f]+)"
         r"(?:, aer_(?:uncor_|cor_)?mask: (?P<mask>0x[0-9a-f]+))?"),
        ("recover", Kind.NOT_RECOVERED, _BDF + r": .*(?:device recovery failed|can't recover)"),
        ("recovery successful", Kind.RECOVERED, _BDF + r": .*device recovery successful"),
        ("containment event", Kind.CONTAINED,
         _BDF + r": .*containment event, status:(?P<status>0x[0-9a-f]+)"),
        ("Slot(", Kind.POWER_FAULT, _BDF + r":.*Slot\((?P<slot>[^)]*)\): Power fault"),
        ("Slot(", Kind.LINK_FAILED, _BDF + r":.*Slot\((?P<slot>[^)]*)\): (?:No link|Cannot train link|No device found)"),
        ("Slot(", Kind.LINK_LOST, _BDF + r":.*Slot\((?P<slot>[^)]*)\): (?:Link Down(?!/Up ignored)|Card not present)"),
        ("Slot(", Kind.LINK_FOUND, _BDF + r":.*Slot\((?P<slot>[^)]*)\): (?:Link Up|Card present)"),
        ("power state", Kind.POWER_STUCK,
         _BDF + r": (?:(?:Unable to|can't) change power state from D3\w* to D0|[Rr]efused to change power state)"),
        ("giving up", Kind.NOT_READY, _BDF + r": not ready \d+ms after .*; giving up"),
        ("limited by", Kind.BANDWIDTH,
         _BDF + r": (?P<have>[\d.]+) Gb/s available PCIe bandwidth, limited by "
         r"(?P<speed>[\d.]+) GT/s(?: PCIe)? x(?P<width>\d+) link"
         r" at (?P<at>\S+) \(capable of (?P<want>[\d.]+) Gb/s"),
        ("cannot fit", Kind.WINDOW_SHORT,
         r"ssigned bridge window (?P<window>\[[^\]]*\]) to (?P<buses>\[bus [^\]]*\]) cannot fit (?P<need>0x[0-9a-f]+) required for "
         + _BDF),
        ("invalid", Kind.BAR_INVALID,
         _BDF + r": (?:reg 0x\w+: |BAR \d[ :].*)"
         r"(?:initial BAR value 0x[0-9a-f]+ invalid|invalid; can't size|\[mem [^\]]*\]: error updating)"),
        ("error updating", Kind.BAR_INVALID, _BDF + r": BAR \d.*error updating"),
        ("because it overlaps", Kind.PNP_CLASH,
         r"pnp \S+: disabling \[[^\]]*\] because it overlaps " + _BDF + r" (?P<name>(?:VF )?BAR \d+) (?P<range>\[[^\]]*\])"),
        ("probe", Kind.PROBE_FAILED,
         r"(?P<driver>[\w-]+):? (?:probe of )?" + _BDF + r":? (?:probe )?failed with error (?P<error>-?\d+)"),
        ("probe routine", Kind.PROBES_FAILED,
         r"NVRM: The NVIDIA probe routine (?P<how>failed|was not called) for (?P<count>\d+) device"),
        ("NVRM", Kind.NO_GPU, r"NVRM: (?:None of the NVIDIA devices were initialized|No NVIDIA GPU found)"),
        ("GSP", Kind.GSP_FAILED, r"NVRM:.*(?:Cannot initialize GSP|failed to wait for GFW_BOOT)"),
        ("RmInitAdapter failed", Kind.INIT_FAILED,
         r"NVRM: (?:GPU (?:" + _BDF + r"): )?RmInitAdapter failed! \((?P<codes>[^)]*)\)"),
        ("fallen off", Kind.OFF_THE_BUS,
         r"NVRM: GPU (?:at )?(?:PCI:)?(?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?): GPU has fallen off the bus"),
        ("power cables", Kind.POWER_CABLE, r"(?:" + _BDF + r".*)?GPU does not have the necessary power cables"),
        ("request_mem_region", Kind.REGION_TAKEN, r"NVRM: request_mem_region failed for"),
        ("BAR1", Kind.RESIZE_FAILED, r"NVRM:.*(?:No address space to allocate resized BAR1|Failed to re-allocate BAR1)"),
        ("peer mapping", Kind.PEER_LIMIT, r"peer mapping resources exhausted"),
        ("DMAR: [", Kind.IOMMU_FAULT,
         r"DMAR: \[DMA (?P<what>Write|Read)[^\]]*\] Request device \[(?P<device>[0-9a-f:.]+)\]"),
        ("IO_PAGE_FAULT", Kind.IOMMU_FAULT, r"IO_PAGE_FAULT.*device=(?P<device>[0-9a-f:.]+)"),
        ("Default domain type", Kind.DOMAIN_TYPE, r"iommu: Default domain type: (?P<type>\w+)"),
        ("Unknown NUMA node", Kind.NODELESS, r"Unknown NUMA node; performance will be reduced"),
        ("handled by firmware", Kind.FIRMWARE_OWNS_ERRORS, r"PCIe AER handled by firmware"),
        ("platform does not support [", Kind.FIRMWARE_OWNS_ERRORS, r"_OSC: platform does not support \[[^\]]*\bAER\b"),
    )
)  # fmt: skip
_MARKS = tuple(dict.fromkeys(mark for mark, _, _ in _SHAPES if mark != "["))
_BLOCK_DEVICE = re.compile(r"\[Hardware Error\]: +device_id: " + _BDF)
_SECONDS = re.compile(r"(?:<\d+>|[a-z]+ *:[a-z]+ *: )?\[ *(?P<seconds>\d+\.\d+)\]")
_KMSG = re.compile(r"\d+,\d+,(?P<micro>\d+),")
_WALL = re.compile(r"\[(?P<wall>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})\]")
_ISO = re.compile(r"(?:[a-z]+ *:[a-z]+ *: )?(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def parse_kernel_events(lines: Iterable[str]) -> tuple[Event, ...]:
    """The events that a kernel log tells of, in its order. Never raises."""
    return tuple(_events(lines))


def seconds_of(line: str) -> float | None:
    """The line's stamp in seconds: since boot, or since 1970 where the log has wall-clock stamps; None without one."""
    if found := _SECONDS.match(line):
        return float(found["seconds"])
    if found := _KMSG.match(line):
        return int(found["micro"]) / 1e6
    try:
        if found := _WALL.match(line):
            return datetime.strptime(f"{found['wall']} +0000", "%a %b %d %H:%M:%S %Y %z").timestamp()
        if found := _ISO.match(line):
            return datetime.fromisoformat(f"{found['iso']}+00:00").timestamp()
    except ValueError:
        return None
    return None


def _events(lines: Iterable[str]) -> Iterator[Event]:
    device = ""
    after_error = False
    for line in lines:
        if after_error and "[" in line:
            marks: tuple[str, ...] = ("[",)
        else:
            marks = ()
        marks += tuple(mark for mark in _MARKS if mark in line)
        if not marks:
            if "Hardware Error" in line and (found := _BLOCK_DEVICE.search(line)):
                device = found["bdf"]
            continue
        event = _event(line, marks, device)
        if event is not None:
            after_error = event.kind in (Kind.BUS_ERROR, Kind.ERROR_BIT)
            yield event


def _event(line: str, marks: tuple[str, ...], device: str) -> Event | None:
    bare = strip_stamp(line)
    for mark, kind, shape in _SHAPES:
        if mark in marks and (found := shape.search(bare)):
            words = {name: word for name, word in found.groupdict().items() if word is not None and name != "bdf"}
            bdf = found.groupdict().get("bdf") or words.get("device", "")
            if not bdf and kind is Kind.FIRMWARE_ERROR:
                bdf = device
            return Event(kind, _full(bdf), bare, seconds_of(line), words)
    return None


def _full(bdf: str) -> str:
    """An address with its domain, and with function 0 where none is told."""
    if not bdf:
        return ""
    whole = bdf if bdf.count(":") == 2 else f"0000:{bdf}"
    return whole if "." in whole else f"{whole}.0"
