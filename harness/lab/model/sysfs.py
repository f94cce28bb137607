"""The modelled machine as files: a tree like /sys and /proc that any reader of the real ones can read.

    ROOT/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/...     one folder a function, nested as the buses are
    ROOT/sys/bus/pci/devices/BDF -> ../../../devices/...
    ROOT/sys/bus/pci/drivers/NAME    ROOT/sys/bus/pci/slots/N/address    ROOT/sys/kernel/iommu_groups/N/type
    ROOT/proc/{cmdline,iomem,ioports,sys/kernel/...}

Formats after Linux drivers/pci/pci-sysfs.c and kernel/resource.c; resource flags after include/linux/ioport.h. With firmware in
charge of errors (R640: "PCIe AER handled by firmware") the kernel's own counters stay at zero.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.lab.model.config_space import config_space
from harness.lab.model.pcie_enumeration import Enumerated, Placed
from harness.lab.model.pcie_parts import Bar, Hardware, Kind, Link
from harness.lab.model.pcie_windows import Region

_MEMORY = 0x200
_PREFETCH = 0x2000
_SIZE_ALIGNED = 0x40000
_WIDE = 0x100000
_SPEEDS = {1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe"}
_CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_UNCORRECTABLE = (
    "Undefined",
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "CmpltAbrt",
    "UnxCmplt",
    "RxOF",
    "MalfTLP",
    "ECRC",
    "UnsupReq",
)


@dataclass(frozen=True)
class System:
    """What the machine shows beside its PCIe tree; ``iommu_domain`` is the type of the GPUs' IOMMU domain, "" without an IOMMU."""

    boot_id: str
    kernel: str
    command_line: str
    machine: str
    serial: str
    iommu_domain: str = ""


def write_system(root: Path, stacks: Sequence[Enumerated], system: System) -> None:
    """Write the machine below ``root``, which exists and is empty."""
    _proc(root, stacks, system)
    bus = root / "sys/bus/pci"
    for name in ("devices", "drivers", "slots"):
        (bus / name).mkdir(parents=True)
    (root / "sys/kernel/iommu_groups").mkdir(parents=True)
    _text(root / "sys/class/dmi/id/product_name", system.machine)
    _text(root / "sys/class/dmi/id/product_serial", system.serial)
    if system.iommu_domain:
        for unit in range(len(stacks)):
            (root / f"sys/class/iommu/dmar{unit}").mkdir(parents=True)
    groups = _groups(stacks) if system.iommu_domain else {}
    for stack in stacks:
        (root / "sys/devices" / stack.stack.path).mkdir(parents=True)
        for function in stack.walk():
            folder = root / "sys/devices" / _folder(stack, function)
            _function(folder, function)
            (bus / "devices" / function.address).symlink_to(f"../../../devices/{_folder(stack, function)}")
            _driver(root, folder, function)
            _slot(bus, function)
            if function.address in groups:
                _group(root, folder, groups[function.address], system.iommu_domain, function)


def _function(folder: Path, function: Placed) -> None:
    hardware = function.hardware
    identity = hardware.identity
    texts = {
        "vendor": f"{identity.vendor:#06x}",
        "device": f"{identity.device:#06x}",
        "subsystem_vendor": f"{identity.subsystem_vendor:#06x}",
        "subsystem_device": f"{identity.subsystem:#06x}",
        "class": f"{identity.class_code:#08x}",
        "revision": f"{identity.revision:#04x}",
        "resource": "\n".join(_resources(function)),
        "numa_node": str(function.node),
        "local_cpulist": ",".join(str(cpu) for cpu in range(function.node, 48, 2)),
        "power_state": "D0",
        "d3cold_allowed": "1",
        "enable": "1" if hardware.driver else "0",
        "irq": "30" if hardware.driver else "0",
        "ari_enabled": "0",
        "power/control": "on",
        "aer_dev_correctable": _counters(_CORRECTABLE, "COR"),
        "aer_dev_nonfatal": _counters(_UNCORRECTABLE, "NONFATAL"),
        "aer_dev_fatal": _counters(_UNCORRECTABLE, "FATAL"),
    }
    texts |= link_files(hardware)
    if hardware.is_bridge:
        texts |= {"secondary_bus_number": str(function.secondary), "subordinate_bus_number": str(function.subordinate)}
    (folder / "power").mkdir(parents=True)
    for name, text in texts.items():
        _text(folder / name, text)
    (folder / "config").write_bytes(config_space(function))


def link_files(hardware: Hardware) -> dict[str, str]:
    """The files about a function's link, none for what is integrated."""
    link = hardware.below if hardware.kind in (Kind.ROOT_PORT, Kind.DOWNSTREAM) else hardware.link
    return {} if link is None else _link(link, answers=hardware.answers)


def _link(link: Link, *, answers: bool) -> dict[str, str]:
    """A function that fell off the bus reads all ones, which the kernel shows as 63 lanes of unknown speed."""
    return {
        "current_link_speed": _SPEEDS[link.generation] if answers else "Unknown",
        "current_link_width": str(link.width) if answers else "63",
        "max_link_speed": _SPEEDS[link.generation_most] if answers else "Unknown",
        "max_link_width": str(link.width_most) if answers else "63",
    }


def _resources(function: Placed) -> Iterator[str]:
    """Thirteen lines for a function, seventeen for a bridge: 0-5 BARs, 6 ROM, 7-12 VF BARs, 13 I/O, 14 memory, 15 prefetchable."""
    lines = {bar.index: (region, _flags(bar)) for bar in function.hardware.bars if (region := function.regions.get(bar.index))}
    if (low := function.windows.get("low")) is not None:
        lines[14] = (low, _MEMORY)
    if (wide := function.windows.get("wide")) is not None:
        lines[15] = (wide, _MEMORY | _PREFETCH | _WIDE | 1)
    for index in range(17 if function.hardware.is_bridge else 13):
        region, flags = lines.get(index, (None, 0))
        yield f"{0:#018x} {0:#018x} {0:#018x}" if region is None else f"{region.start:#018x} {region.last:#018x} {flags:#018x}"


def _flags(bar: Bar) -> int:
    """The low bits repeat the register's own type bits, as the kernel keeps them."""
    flags = _MEMORY | _SIZE_ALIGNED
    if bar.prefetchable:
        flags |= _PREFETCH | 0x8
    return flags | (_WIDE | 0x4 if bar.wide else 0)


def _counters(names: Sequence[str], total: str) -> str:
    return "\n".join((*(f"{name} 0" for name in names), f"TOTAL_ERR_{total} 0"))


def _driver(root: Path, folder: Path, function: Placed) -> None:
    name = function.hardware.driver
    if not name:
        return
    (root / "sys/bus/pci/drivers" / name).mkdir(exist_ok=True)
    _link_to(folder / "driver", root / "sys/bus/pci/drivers" / name)


def _slot(bus: Path, bridge: Placed) -> None:
    """Hot-plug ports register the slot below them; the kernel names it by its physical number."""
    if bridge.hardware.hotplug and bridge.secondary:
        _text(bus / "slots" / str(bridge.hardware.slot) / "address", f"0000:{bridge.secondary:02x}:00")


def _group(root: Path, folder: Path, number: int, domain: str, function: Placed) -> None:
    group = root / "sys/kernel/iommu_groups" / str(number)
    if not group.exists():
        _text(group / "type", domain)
        (group / "devices").mkdir()
    _link_to(group / "devices" / function.address, folder)
    _link_to(folder / "iommu_group", group)


def _groups(stacks: Sequence[Enumerated]) -> Mapping[str, int]:
    """One group a root port: without ACS redirection the kernel can not tell apart what is below a port."""
    groups: dict[str, int] = {}
    number = 0
    for stack in stacks:
        for top in stack.functions:
            groups |= {function.address: number for function in top.walk()}
            number += 1
    return groups


def _proc(root: Path, stacks: Sequence[Enumerated], system: System) -> None:
    _text(root / "proc/cmdline", system.command_line)
    _text(root / "proc/sys/kernel/osrelease", system.kernel)
    _text(root / "proc/sys/kernel/random/boot_id", system.boot_id)
    ranges = [(Region(0x1000, 0x9F000), "System RAM")]
    for stack in stacks:
        for window in (stack.stack.low, stack.stack.wide):
            if window is not None:
                ranges.append((window, f"PCI Bus 0000:{stack.stack.first_bus:02x}"))
    iomem = []
    for region, owner in sorted(ranges, key=lambda entry: entry[0].start):
        iomem.append(_range(region, owner, 0))
        iomem += _inside(region, [function for stack in stacks for function in stack.functions], 1)
    _text(root / "proc/iomem", "\n".join(iomem))
    ports = [_range(stack.stack.io, f"PCI Bus 0000:{stack.stack.first_bus:02x}", 0) for stack in stacks if stack.stack.io.size]
    _text(root / "proc/ioports", "\n".join(ports))


def _inside(region: Region, functions: Sequence[Placed], depth: int) -> Iterator[str]:
    """The bridge windows and BARs in ``region``, nested; a memory BAR in use names its driver below it."""
    found: list[tuple[Region, Placed, bool]] = []
    for function in functions:
        found += [(window, function, True) for window in function.windows.values()]
        found += [(bar, function, False) for bar in function.regions.values()]
    for held, function, is_window in sorted(found, key=lambda entry: entry[0].start):
        if not region.start <= held.start <= region.last:
            continue
        if is_window:
            yield _range(held, f"PCI Bus 0000:{function.secondary:02x}", depth)
            yield from _inside(held, function.children, depth + 1)
        else:
            yield _range(held, function.address, depth)
            if function.hardware.driver and function.hardware.driver != "pcieport":
                yield _range(held, function.hardware.driver, depth + 1)


def _range(region: Region, owner: str, depth: int) -> str:
    return f"{'  ' * depth}{region.start:08x}-{region.last:08x} : {owner}"


def _folder(stack: Enumerated, function: Placed) -> str:
    steps = [function.address]
    above = function.parent
    while above is not None:
        steps.append(above.address)
        above = above.parent
    return "/".join((stack.stack.path, *reversed(steps)))


def _link_to(path: Path, target: Path) -> None:
    path.symlink_to(os.path.relpath(target, path.parent))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
