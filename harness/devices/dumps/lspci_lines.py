"""The indented lines of one function of ``lspci -v``: regions, windows, buses, capabilities and their registers."""

from __future__ import annotations

import re

from harness.devices.dumps.lspci_header import subsystem
from harness.devices.dumps.lspci_record import DISABLED, IO, MEM_64, MEMORY, PREFETCH, UNSET, Record
from harness.devices.dumps.lspci_registers import first_number
from harness.devices.pcie import Bar, PortType, ResizableBar

_REGION = re.compile(
    r"(?:Region (?P<index>\d): )?(?P<what>Memory|I/O ports) at (?P<at>[0-9a-f]+|<unassigned>|<ignored>|<invalid[^>]*>)"
    r"(?: \((?P<flags>[^)]*)\))?(?P<rest>.*)"
)
_ROM = re.compile(r"Expansion ROM at (?P<at>[0-9a-f]+|<unassigned>|<ignored>)(?P<rest>.*)")
_WINDOW = re.compile(
    r"(?P<what>I/O|Memory|Prefetchable memory) behind bridge: (?P<range>\[disabled\]|(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+))"
)
_SIZE = re.compile(r"\[size=(?P<size>\d+)(?P<unit>[KMGT]?)\]")
_BUS = re.compile(
    r"Bus: primary=(?P<primary>[0-9a-f]{2}), secondary=(?P<secondary>[0-9a-f]{2}), subordinate=(?P<subordinate>[0-9a-f]{2})"
)
_EXPRESS = re.compile(r"Express (?:\(v(?P<version>\d)\) )?(?P<type>[A-Z][^(,\[]*?)(?: \(Slot(?P<slot>[+-])\))?(?:,| MSI|$)")
_REBAR = re.compile(r"BAR (?P<index>\d): current size: (?P<size>\S+?), supported: (?P<sizes>.*)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_REBAR_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_PORTS = {
    "Endpoint": PortType.ENDPOINT, "Legacy Endpoint": PortType.LEGACY_ENDPOINT, "Root Port": PortType.ROOT_PORT,
    "Upstream Port": PortType.UPSTREAM, "Downstream Port": PortType.DOWNSTREAM,
    "PCI-Express to PCI/PCI-X Bridge": PortType.TO_PCI, "PCI/PCI-X to PCI-Express Bridge": PortType.FROM_PCI,
    "Root Complex Integrated Endpoint": PortType.INTEGRATED, "Root Complex Event Collector": PortType.EVENT_COLLECTOR,
}  # fmt: skip


def read_line(record: Record, line: str, pending: str) -> str:
    """Take one indented line; returns the key that a continuation line belongs to."""
    bare = line.strip()
    deep = line.startswith(("\t\t", "        ", "\t    "))
    if bare.startswith("!!! Unknown header type 7f") or "Unknown header type 7f" in bare:
        record.gone = True
        return ""
    if not deep:
        _read_shallow(record, bare)
        return ""
    key, colon, rest = bare.partition(":")
    if (
        colon
        and re.fullmatch(r"[A-Z][A-Za-z0-9]{2,12}", key)
        and key not in ("Changed", "Control", "Status", "Masking", "Address", "Region")
    ):
        record.told.lines.setdefault(key, rest)
        return key
    if (rebar := _REBAR.match(bare)) and not record.is_virtual_rebar:
        sizes = tuple(size for word in rebar["sizes"].split() if (size := _rebar_size(word)))
        record.told.rebar.append(ResizableBar(int(rebar["index"]), _rebar_size(rebar["size"]), sizes))
        return ""
    if bare.startswith("Initial VFs"):
        record.told.lines["IOVSta"] = bare
        return ""
    if pending:
        record.told.lines[pending] += f" {bare}"
    return pending


def _read_shallow(record: Record, bare: str) -> None:
    if region := _REGION.match(bare):
        _read_region(record, region)
    elif rom := _ROM.match(bare):
        record.bars.append(_bar(6, rom["at"], MEMORY, rom["rest"]))
    elif window := _WINDOW.match(bare):
        _read_window(record, window)
    elif buses := _BUS.match(bare):
        record.secondary, record.subordinate = int(buses["secondary"], 16), int(buses["subordinate"], 16)
    elif bare.startswith("Subsystem:"):
        record.subsystem = subsystem(bare)
    elif bare.startswith("Control:"):
        record.memory_on = "Mem+" in bare
    elif bare.startswith("NUMA node:"):
        record.numa = first_number(r"NUMA node: (\d+)", bare) if re.search(r"NUMA node: \d", bare) else None
    elif bare.startswith("IOMMU group:"):
        record.group = bare.partition(":")[2].strip()
    elif bare.startswith("Kernel driver in use:"):
        record.driver = bare.partition(":")[2].strip()
    elif bare.startswith("Capabilities: <access denied>"):
        record.denied = True
    elif bare.startswith("Capabilities:"):
        _read_capability(record, bare)


def _read_capability(record: Record, bare: str) -> None:
    record.has_capabilities = True
    record.is_virtual_rebar = "Virtual Resizable BAR" in bare
    if "Express" in bare and (found := _EXPRESS.search(bare)):
        record.told.port = _PORTS.get(found["type"].strip(), PortType.UNKNOWN)
        record.told.has_slot = found["slot"] == "+"
        record.told.version = int(found["version"] or 1)
    elif serial := re.search(r"Device Serial Number ([0-9a-f-]{23})", bare):
        record.told.lines["serial"] = serial[1]
    elif "Alternative Routing-ID" in bare:
        record.told.lines["ari"] = bare


def _read_region(record: Record, region: re.Match[str]) -> None:
    flags = region["flags"] or ""
    bits = IO if region["what"] == "I/O ports" else MEMORY
    bits |= (MEM_64 if "64-bit" in flags else 0) | (PREFETCH if re.search(r"(?<!non-)prefetchable", flags) else 0)
    if region["index"] is None:
        record.unnamed_regions = True
        last = max((bar for bar in record.bars if bar.index < 6), key=lambda bar: bar.index, default=None)
        index = 0 if last is None else last.index + (2 if last.is_64bit else 1)
    else:
        index = int(region["index"])
    if "[virtual]" in region["rest"] and record.memory_on:
        bits |= DISABLED
    if index < 6:
        record.bars.append(_bar(index, region["at"], bits, region["rest"]))


def _bar(index: int, at: str, flags: int, rest: str) -> Bar:
    """A BAR of its text. A virtual one has an address that the kernel knows and that the device's own register does not hold."""
    size = _size(rest)
    if at.startswith("<") or (int(at, 16) == 0 and not flags & IO):
        return Bar(index, 0, max(size - 1, 0), flags | UNSET)
    start = int(at, 16)
    return Bar(index, start, start + max(size, 2) - 1, flags)


def _read_window(record: Record, window: re.Match[str]) -> None:
    index = {"I/O": 13, "Memory": 14, "Prefetchable memory": 15}[window["what"]]
    flags = IO if index == 13 else MEMORY | (PREFETCH | MEM_64 if index == 15 else 0)
    if window["start"] is None:
        return
    start, end = int(window["start"], 16), int(window["end"], 16)
    if start < end:
        record.bars.append(Bar(index, start, end, flags))


def _size(text: str) -> int:
    found = _SIZE.search(text)
    return int(found["size"]) * _UNITS[found["unit"]] if found else 0


def _rebar_size(word: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]B)", word)
    return int(found[1]) * _REBAR_UNITS[found[2]] if found else 0
