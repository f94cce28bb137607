"""The trees that hwloc and NCCL write as XML.

hwloc   Bridge (0-1: host bridge, 1-1: PCI bridge) > PCIDev, with bus ranges, ids and the link's bandwidth in GB/s
NCCL    system > cpu > pci > pci, with class, speed and width; switches that it folded together are not in it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from harness.devices.dumps.harvest import DriverGpu, Format, Harvest, full_address
from harness.devices.pcie import Function, Link

_TYPE = re.compile(
    r"(?P<class>[0-9a-f]{4}) \[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\](?: "
    r"\[(?P<sv>[0-9a-f]{4}):(?P<sd>[0-9a-f]{4})\])?(?: (?P<rev>[0-9a-f]{2}))?"
)
_BUSES = re.compile(r"[0-9a-f]{4,8}:\[(?P<first>[0-9a-f]{2})-(?P<last>[0-9a-f]{2})\]")
_SPEED = re.compile(r"(?P<speed>[\d.]+) GT/s")


def parse_hwloc(root: Element, source: str) -> Harvest:
    """Read an hwloc topology, version 1, 2 or 3. Link widths are not in it, only bandwidths, so links stay untold."""
    functions = tuple(_hwloc(root, None))
    gpus = tuple(_hwloc_gpus(root, source))
    system = {
        key: value for info in root.iter("info") if (key := _DMI.get(info.get("name", ""))) and (value := info.get("value", ""))
    }
    return Harvest(Format.HWLOC, source, f"{len(functions)} functions", functions, gpus=gpus, system=system)


def parse_nccl(root: Element, source: str) -> Harvest:
    """Read an NCCL topology."""
    functions = tuple(function for cpu in root.iter("cpu") for function in _nccl(cpu, None, _integer(cpu.get("numaid", ""))))
    return Harvest(Format.NCCL, source, f"{len(functions)} functions", functions)


_DMI = {"DMIProductName": "product", "DMIBIOSVersion": "bios"}


def _hwloc(element: Element, above: str | None) -> Iterator[Function]:
    for child in element:
        parent = above
        if (
            child.tag == "object"
            and (bdf := full_address(child.get("pci_busid", "")))
            and (ids := _TYPE.match(child.get("pci_type", "")))
        ):
            buses = _BUSES.fullmatch(child.get("bridge_pci", ""))
            yield Function(
                bdf=bdf,
                path="",
                parent=above,
                vendor=ids["vendor"],
                device=ids["device"],
                subsystem_vendor=ids["sv"] or "" if ids["sv"] != "0000" else "",
                subsystem_device=ids["sd"] or "" if ids["sv"] != "0000" else "",
                class_code=f"{ids['class']}00",
                revision=ids["rev"] or "",
                secondary_bus=int(buses["first"], 16) if buses else None,
                subordinate_bus=int(buses["last"], 16) if buses else None,
            )
            parent = bdf
        yield from _hwloc(child, parent)


def _hwloc_gpus(root: Element, source: str) -> Iterator[DriverGpu]:
    for device in root.iter("object"):
        for inner in device.findall("object"):
            told = {info.get("name", ""): info.get("value", "") for info in inner.findall("info")}
            if told.get("Backend") == "NVML" and (address := full_address(device.get("pci_busid", ""))):
                yield DriverGpu(
                    address, told.get("GPUModel", ""), told.get("NVIDIASerial", ""), told.get("NVIDIAUUID", ""), source=source
                )


def _nccl(element: Element, above: str | None, numa: int | None) -> Iterator[Function]:
    for child in element.findall("pci"):
        bdf = full_address(child.get("busid", ""))
        if not bdf:
            continue
        speed = _SPEED.match(child.get("link_speed", ""))
        ids = {
            name: child.get(name, "").removeprefix("0x") for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")
        }
        yield Function(
            bdf=bdf,
            path="",
            parent=above,
            class_code=child.get("class", "").removeprefix("0x"),
            link=Link(float(speed["speed"]) if speed else None, _integer(child.get("link_width", ""))),
            numa_node=numa,
            vendor=ids["vendor"],
            device=ids["device"],
            subsystem_vendor=ids["subsystem_vendor"],
            subsystem_device=ids["subsystem_device"],
        )
        yield from _nccl(child, bdf, numa)


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() else None
