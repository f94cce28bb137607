"""One function of ``lspci`` while its lines come in, and what becomes of it: bytes outrank what the text tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness.devices.dumps.lspci_registers import ToldRegisters
from harness.devices.pcie import Bar, ConfigSpace, Function, IommuGroup, Link, decode_config, speed_of

PREFETCH, MEMORY, IO, MEM_64, UNSET, DISABLED = 0x2000, 0x200, 0x100, 0x100000, 0x20000000, 0x10000000


@dataclass
class Record:
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
        yield Bar(14, start, end, MEMORY)
    base, limit = int.from_bytes(raw[0x24:0x26], "little"), int.from_bytes(raw[0x26:0x28], "little")
    start = (base & 0xFFF0) << 16 | int.from_bytes(raw[0x28:0x2C], "little") << 32
    end = (limit & 0xFFF0) << 16 | 0xFFFFF | int.from_bytes(raw[0x2C:0x30], "little") << 32
    if start < end:
        yield Bar(15, start, end, MEMORY | PREFETCH | (MEM_64 if base & 1 else 0))


def _with_link(function: Function) -> Function:
    express = None if function.config is None else function.config.express
    if express is None or express.link is None:
        return function
    link = express.link
    told = Link(speed_of(link.generation), link.width, speed_of(link.generation_most), link.width_most)
    return replace(function, link=told)
