"""The text of ``lspci``: -n, -nn, -v to -vvv, -x to -xxxx in any mixture, with or without domains.

    19:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)      a record begins at the margin
    <tab>Region 0: Memory at 214042000000 (64-bit, prefetchable) [size=16M]           facts of the function
    <tab>Capabilities: [60] Express (v2) Endpoint, MSI 00                             a capability
    <tab><tab>LnkSta: Speed 32GT/s, Width x16                                         its registers
    00: de 10 30 23 ...                                                               bytes, which outrank the text

Both the older wording ("(ok)", "(downgraded)", "Report errors:") and the newer one are read, as pciutils 3.1 to 3.14 write them.
What ``lspci`` was not allowed to read is ``unread``, never "none".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness.devices.dumps.harvest import Format, Harvest, full_address
from harness.devices.dumps.lspci_registers import ToldRegisters, first_number
from harness.devices.pcie import (
    Bar,
    ConfigSpace,
    Function,
    IommuGroup,
    Link,
    PortType,
    ResizableBar,
    Unread,
    decode_config,
    speed_of,
)

HEADER = re.compile(
    r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<class>(?:Class )?[0-9a-f]{4}|[A-Z3][^:\[\n]{2,60}?)(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_BARE = re.compile(r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: (?P<rest>.*))?$")
_IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]|\b(?P<vendor2>[0-9a-f]{4}):(?P<device2>[0-9a-f]{4})\b")
_REVISION = re.compile(r"\(rev (?P<rev>[0-9a-f]{2})\)")
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
_CLASSES = {
    "VGA compatible controller": "030000", "3D controller": "030200", "Display controller": "038000", "PCI bridge": "060400",
    "Bridge": "068000", "Host bridge": "060000", "ISA bridge": "060100", "Ethernet controller": "020000",
    "Infiniband controller": "020700", "Non-Volatile memory controller": "010802", "RAID bus controller": "010400",
    "SATA controller": "010601", "Audio device": "040300", "USB controller": "0c0330", "Serial bus controller": "0c8000",
    "System peripheral": "088000", "Processing accelerators": "120000", "Performance counters": "110100",
}  # fmt: skip
_VENDORS = {
    "NVIDIA Corporation": "10de", "Intel Corporation": "8086", "Broadcom / LSI": "1000", "LSI Logic / Symbios Logic": "1000",
    "PLX Technology": "10b5", "Advanced Micro Devices, Inc. [AMD/ATI]": "1002", "Advanced Micro Devices, Inc. [AMD]": "1022",
    "Microsemi / PMC / IDT": "11f8", "PMC-Sierra Inc.": "11f8", "Mellanox Technologies": "15b3", "Liqid Inc.": "1dcd",
    "Dell": "1028", "Red Hat, Inc.": "1af4", "Matrox Electronics Systems Ltd.": "102b", "ASPEED Technology, Inc.": "1a03",
    "Cirrus Logic": "1013", "VMware": "15ad", "Device 1234": "1234", "Huawei Technologies": "19e5",
}  # fmt: skip
_PORTS = {
    "Endpoint": PortType.ENDPOINT, "Legacy Endpoint": PortType.LEGACY_ENDPOINT, "Root Port": PortType.ROOT_PORT,
    "Upstream Port": PortType.UPSTREAM, "Downstream Port": PortType.DOWNSTREAM,
    "PCI-Express to PCI/PCI-X Bridge": PortType.TO_PCI, "PCI/PCI-X to PCI-Express Bridge": PortType.FROM_PCI,
    "Root Complex Integrated Endpoint": PortType.INTEGRATED, "Root Complex Event Collector": PortType.EVENT_COLLECTOR,
}  # fmt: skip
_PREFETCH, _MEMORY, _IO, _MEM_64, _UNSET, _DISABLED = 0x2000, 0x200, 0x100, 0x100000, 0x20000000, 0x10000000


def parse_lspci(text: str, source: str) -> Harvest:
    """Read every record in a text. Never raises; what is no record is passed over."""
    functions, names = [], {}
    unnamed_regions, denied = False, []
    for record in _records(text):
        function = record.freeze()
        functions.append(function)
        names[function.bdf] = record.name
        unnamed_regions |= record.unnamed_regions
        if record.denied:
            denied.append(function.bdf)
    has_hex = any(function.config is not None and function.config.raw for function in functions)
    unread = []
    if denied:
        unread.append(Unread("capabilities", "lspci ran without root", "run lspci -vvv as root", tuple(denied)))
    if functions and not any(function.bars for function in functions) and not has_hex:
        unread.append(Unread("BARs, links and bus numbers", "lspci ran without -vvv", "mail lspci -Dnnvvvxxxx, run as root"))
    elif unnamed_regions:
        unread.append(Unread("which BAR each region is", "lspci -v does not number them", "mail lspci -vvv"))
    gpus = sum(function.is_gpu for function in functions)
    summary = f"{len(functions)} functions, {gpus} of them display or 3D controllers"
    return Harvest(
        Format.LSPCI_HEX if has_hex else Format.LSPCI, source, summary, tuple(functions), names=names, unread=tuple(unread)
    )


@dataclass
class _Record:
    """One function while its lines come in."""

    bdf: str
    name: str = ""
    class_code: str = ""
    vendor: str = ""
    device: str = ""
    revision: str = ""
    subsystem: tuple[str, str] = ("", "")
    bars: list[Bar] = field(default_factory=list)
    unnamed_regions: bool = False
    secondary: int | None = None
    subordinate: int | None = None
    numa: int | None = None
    group: str = ""
    driver: str = ""
    denied: bool = False
    has_capabilities: bool = False
    memory_on: bool | None = None
    gone: bool = False
    told: ToldRegisters = field(default_factory=ToldRegisters)
    is_virtual_rebar: bool = False
    rows: dict[int, bytes] = field(default_factory=dict)

    def freeze(self) -> Function:
        """What became of the record."""
        raw = _joined(self.rows)
        config = decode_config(raw) if raw else self._config()
        function = Function(
            bdf=self.bdf,
            path="",
            vendor=self.vendor,
            device=self.device,
            subsystem_vendor=self.subsystem[0],
            subsystem_device=self.subsystem[1],
            class_code=self.class_code,
            revision=self.revision,
            bars=tuple(sorted(self.bars, key=lambda bar: bar.index)),
            numa_node=self.numa,
            iommu_group=IommuGroup(self.group, "") if self.group else None,
            driver=self.driver,
            enabled=self.memory_on,
            secondary_bus=self.secondary,
            subordinate_bus=self.subordinate,
            config=config,
        )
        return _from_bytes(function) if raw and config is not None else _with_link(function)

    def _config(self) -> ConfigSpace | None:
        """The registers that the text tells; None where it tells of no capability at all."""
        if self.gone:
            return ConfigSpace(b"", gone=True, problems=("lspci shows all ones: the device is gone",))
        if not self.has_capabilities or self.denied:
            return None
        return self.told.config(is_bridge=self.class_code.startswith("0604"), memory_on=bool(self.memory_on))


def _records(text: str) -> Iterator[_Record]:
    record: _Record | None = None
    pending = ""
    lines = text.splitlines()
    taken = 0
    for number, line in enumerate(lines):
        if number < taken:
            continue
        if record is not None and line[2:4] in (": ", "0:"):
            if line.startswith("00: ") and (taken := _take_block(record, lines, number)) > number:
                continue
            if _take_row(record, line):
                continue
        if not line.strip():
            continue
        if line[0] not in " \t":
            begun = _begin(line)
            if begun is not None or (record is not None and not line[0].isspace() and not line.startswith("!!!")):
                if record is not None:
                    yield record
                record, pending = begun, ""
                continue
        if record is not None:
            pending = _read(record, line, pending)
    if record is not None:
        yield record


def _take_block(record: _Record, lines: list[str], begin: int) -> int:
    """Take all rows of a dump without gaps at once, which is most of the work of a large one; the number of the line after it.

    0 where a row is not as long as it must be, or out of order: then each row is taken by itself.
    """
    end = begin
    while end < len(lines) and lines[end][2:4] in (": ", "0:"):
        end += 1
    rows = lines[begin:end]
    try:
        content = bytes.fromhex("".join([row[row.index(":") + 1 :] for row in rows]))
        last = int(rows[-1].partition(":")[0], 16)
    except ValueError:
        return 0
    if len(content) != 16 * len(rows) or last != 16 * (len(rows) - 1):
        return 0
    record.rows = {0: content}
    return end


def _take_row(record: _Record, line: str) -> bool:
    """Take a row of sixteen bytes (or fewer at a cut), ``f0: 00 11 ...`` or ``ff0: 00 11 ...``; False where the line is none."""
    at, _, row = line.partition(": ")
    try:
        record.rows[int(at, 16)] = content = bytes.fromhex(row)
    except ValueError:
        return False
    return 0 < len(content) <= 16


def _begin(line: str) -> _Record | None:
    """A record of a line at the margin; None where the line is something else."""
    found = HEADER.match(line)
    if found is None:
        bare = _BARE.match(line)
        return _Record(full_address(bare["bdf"])) if bare and (not bare["rest"] or bare["rest"] == "Bus") else None
    name, rest = found["class"], found["rest"]
    plain = name.removeprefix("Class ")
    code = found["code"] or (plain if re.fullmatch(r"[0-9a-f]{4}", plain) else "")
    record = _Record(full_address(found["bdf"]), class_code=f"{code}00" if code else _CLASSES.get(name, ""))
    record.name = _REVISION.split(rest)[0].strip()
    ids = list(_IDS.finditer(rest))
    if ids:
        record.vendor, record.device = ids[-1]["vendor"] or ids[-1]["vendor2"], ids[-1]["device"] or ids[-1]["device2"]
    else:
        record.vendor = next((number for vendor, number in _VENDORS.items() if rest.startswith(vendor)), "")
        if number := re.search(r"\bDevice ([0-9a-f]{4})\b", rest):
            record.device = number[1]
    if revision := _REVISION.search(rest):
        record.revision = revision["rev"]
        record.gone = revision["rev"] == "ff" and "prog-if ff" in rest
    return record


def _read(record: _Record, line: str, pending: str) -> str:
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


def _read_shallow(record: _Record, bare: str) -> None:
    if region := _REGION.match(bare):
        _read_region(record, region)
    elif rom := _ROM.match(bare):
        record.bars.append(_bar(6, rom["at"], _MEMORY, rom["rest"]))
    elif window := _WINDOW.match(bare):
        _read_window(record, window)
    elif buses := _BUS.match(bare):
        record.secondary, record.subordinate = int(buses["secondary"], 16), int(buses["subordinate"], 16)
    elif bare.startswith("Subsystem:"):
        record.subsystem = _subsystem(bare)
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


def _read_capability(record: _Record, bare: str) -> None:
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


def _read_region(record: _Record, region: re.Match[str]) -> None:
    flags = region["flags"] or ""
    bits = _IO if region["what"] == "I/O ports" else _MEMORY
    bits |= (_MEM_64 if "64-bit" in flags else 0) | (_PREFETCH if re.search(r"(?<!non-)prefetchable", flags) else 0)
    if region["index"] is None:
        record.unnamed_regions = True
        last = max((bar for bar in record.bars if bar.index < 6), key=lambda bar: bar.index, default=None)
        index = 0 if last is None else last.index + (2 if last.is_64bit else 1)
    else:
        index = int(region["index"])
    if "[virtual]" in region["rest"] and record.memory_on:
        bits |= _DISABLED
    if index < 6:
        record.bars.append(_bar(index, region["at"], bits, region["rest"]))


def _bar(index: int, at: str, flags: int, rest: str) -> Bar:
    """A BAR of its text. A virtual one has an address that the kernel knows and that the device's own register does not hold."""
    size = _size(rest)
    if at.startswith("<") or (int(at, 16) == 0 and not flags & _IO):
        return Bar(index, 0, max(size - 1, 0), flags | _UNSET)
    start = int(at, 16)
    return Bar(index, start, start + max(size, 2) - 1, flags)


def _read_window(record: _Record, window: re.Match[str]) -> None:
    index = {"I/O": 13, "Memory": 14, "Prefetchable memory": 15}[window["what"]]
    flags = _IO if index == 13 else _MEMORY | (_PREFETCH | _MEM_64 if index == 15 else 0)
    if window["start"] is None:
        return
    start, end = int(window["start"], 16), int(window["end"], 16)
    if start < end:
        record.bars.append(Bar(index, start, end, flags))


def _subsystem(bare: str) -> tuple[str, str]:
    ids = list(_IDS.finditer(bare))
    if ids:
        return ids[-1]["vendor"] or ids[-1]["vendor2"], ids[-1]["device"] or ids[-1]["device2"]
    rest = bare.partition(":")[2].strip()
    vendor = next((number for name, number in _VENDORS.items() if rest.startswith(name)), "")
    device = re.search(r"\bDevice ([0-9a-f]{4})\b", rest)
    return (vendor, device[1]) if vendor and device else ("", "")


def _joined(rows: dict[int, bytes]) -> bytes:
    """The bytes from 0 on as far as they go without a gap."""
    raw = b""
    while piece := rows.get(len(raw)):
        raw += piece
    return raw


def _from_bytes(function: Function) -> Function:
    """Fill from the bytes what the text left out; a dump of bytes alone has no sizes of BARs."""
    config = function.config
    if config is None or config.gone or len(config.raw) < 64:
        return function
    class_code = f"{config.class_code:06x}"
    is_bridge = config.header_type & 0x7F == 1
    raw = config.raw
    subsystem = (f"{raw[0x2D]:02x}{raw[0x2C]:02x}", f"{raw[0x2F]:02x}{raw[0x2E]:02x}")
    if is_bridge or subsystem[0] == "0000":
        subsystem = ("", "")
    filled = replace(
        function,
        vendor=f"{config.vendor:04x}",
        device=f"{config.device:04x}",
        class_code=class_code,
        revision=f"{config.revision:02x}",
        subsystem_vendor=function.subsystem_vendor or subsystem[0],
        subsystem_device=function.subsystem_device or subsystem[1],
        secondary_bus=raw[0x19] if is_bridge else function.secondary_bus,
        subordinate_bus=raw[0x1A] if is_bridge else function.subordinate_bus,
        bars=function.bars or tuple(_windows(raw) if is_bridge else ()),
        enabled=config.memory_enabled,
    )
    return _with_link(filled)


def _windows(raw: bytes) -> Iterator[Bar]:
    """The memory windows that a bridge's registers hold: base and limit in MiB, the prefetchable one with upper halves."""
    base, limit = int.from_bytes(raw[0x20:0x22], "little"), int.from_bytes(raw[0x22:0x24], "little")
    start, end = (base & 0xFFF0) << 16, (limit & 0xFFF0) << 16 | 0xFFFFF
    if start < end:
        yield Bar(14, start, end, _MEMORY)
    base, limit = int.from_bytes(raw[0x24:0x26], "little"), int.from_bytes(raw[0x26:0x28], "little")
    start = (base & 0xFFF0) << 16 | int.from_bytes(raw[0x28:0x2C], "little") << 32
    end = (limit & 0xFFF0) << 16 | 0xFFFFF | int.from_bytes(raw[0x2C:0x30], "little") << 32
    if start < end:
        yield Bar(15, start, end, _MEMORY | _PREFETCH | (_MEM_64 if base & 1 else 0))


def _with_link(function: Function) -> Function:
    express = None if function.config is None else function.config.express
    if express is None or express.link is None:
        return function
    link = express.link
    told = Link(speed_of(link.generation), link.width, speed_of(link.generation_most), link.width_most)
    return replace(function, link=told)


def _size(text: str) -> int:
    found = _SIZE.search(text)
    return int(found["size"]) * _UNITS[found["unit"]] if found else 0


def _rebar_size(word: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]B)", word)
    return int(found[1]) * _REBAR_UNITS[found[2]] if found else 0
