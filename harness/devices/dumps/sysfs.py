"""A tar of /sys: the attributes of every PCI function as files, and the tree as folders or as links.

.../sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/vendor     the path is the tree
.../sys/bus/pci/devices/0000:3b:00.0 -> ../../../devices/...    so is the link's target
.../sys/kernel/iommu_groups/27/type             what the IOMMU does for a group: identity, DMA, DMA-FQ
.../sys/bus/pci/devices/0000:3b:00.0/vendor                     hwloc-gather-topology copies the files: no tree
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.devices.dumps.harvest import Format, Harvest, full_address
from harness.devices.pcie import Function, IommuGroup, Link, Unread, decode_config
from harness.devices.pcie.snapshot import bars_of

_BDF = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_MEMBER = re.compile(rf"(?:^|/)sys/(?:bus/pci/devices|devices/pci[0-9a-f:]+)(?P<hops>(?:/{_BDF})+)(?:/(?P<file>[a-z_0-9]+))?/?$")
_TARGET = re.compile(rf"devices/pci[0-9a-f:]+(?P<hops>(?:/{_BDF})+)$")
_DOMAIN = re.compile(r"(?:^|/)sys/kernel/iommu_groups/(?P<id>\d{1,6})/type$")
_WANTED = {
    "vendor", "device", "subsystem_vendor", "subsystem_device", "class", "revision", "resource", "numa_node", "local_cpulist",
    "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "secondary_bus_number",
    "subordinate_bus_number", "power_state", "enable", "sriov_totalvfs", "sriov_numvfs", "config",
}  # fmt: skip
_SPEED = re.compile(r"([\d.]+) GT/s")


@dataclass
class SysfsFiles:
    """The files of a tar that concern PCI, while its members come by."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """True for a member whose content is to be given to ``add``."""
        found = _MEMBER.search(name)
        return (found is not None and found["file"] in _WANTED) or _DOMAIN.search(name) is not None

    def add(self, name: str, content: bytes) -> None:
        """A file."""
        if group := _DOMAIN.search(name):
            self.domains[group["id"]] = content.decode("ascii", "replace").strip()
        elif found := _MEMBER.search(name):
            bdf = self._placed(found["hops"])
            if found["file"]:
                self.files.setdefault(bdf, {})[found["file"]] = content

    def add_link(self, name: str, target: str) -> None:
        """A symbolic link: a device's place in the tree, or its driver or IOMMU group."""
        found = _MEMBER.search(name)
        if found is None:
            return
        if found["file"] in ("driver", "iommu_group"):
            self.links.setdefault(self._placed(found["hops"]), {})[found["file"]] = target.rsplit("/", 1)[-1]
        elif place := _TARGET.search(target):
            self._placed(place["hops"])

    def _placed(self, hops: str) -> str:
        walk = hops.strip("/").split("/")
        bdf = full_address(walk[-1])
        if len(walk) > 1:
            self.parents[bdf] = full_address(walk[-2])
        return bdf

    def harvest(self, source: str) -> Harvest:
        """What the files give; functions without a readable vendor and class are left out."""
        functions = tuple(
            function
            for bdf, files in self.files.items()
            if (function := _function(bdf, files, self.links.get(bdf, {}), self.parents.get(bdf), self.domains))
        )
        unread = []
        if functions and not any(function.bars for function in functions):
            unread.append(Unread("BARs", "the tar holds no resource files", "put /sys/bus/pci/devices/*/resource into it"))
        return Harvest(Format.SYSFS, source, f"{len(functions)} functions", functions, unread=tuple(unread))


def _function(
    bdf: str, files: Mapping[str, bytes], links: Mapping[str, str], parent: str | None, domains: Mapping[str, str]
) -> Function | None:
    text = {name: content.decode("ascii", "replace").strip() for name, content in files.items() if name != "config"}
    class_code = text.get("class", "").removeprefix("0x").zfill(6)
    if not re.fullmatch(r"[0-9a-f]{6}", class_code) or not bdf or "class" not in text:
        return None
    raw = files.get("config", b"")
    config = decode_config(raw) if raw else None
    is_bridge = class_code.startswith("0604")
    resources = [list(row) for line in text.get("resource", "").splitlines() if (row := _row(line))]
    group = links.get("iommu_group", "")
    return Function(
        bdf=bdf,
        path="",
        parent=parent,
        vendor=_hex(text, "vendor"),
        device=_hex(text, "device"),
        subsystem_vendor="" if is_bridge else _hex(text, "subsystem_vendor"),
        subsystem_device="" if is_bridge else _hex(text, "subsystem_device"),
        class_code=class_code,
        revision=_hex(text, "revision"),
        bars=bars_of(resources, is_bridge=is_bridge),
        link=Link(
            _speed(text.get("current_link_speed", "")),
            _integer(text.get("current_link_width", "")),
            _speed(text.get("max_link_speed", "")),
            _integer(text.get("max_link_width", "")),
        ),
        numa_node=-1 if text.get("numa_node") == "-1" else _integer(text.get("numa_node", "")),
        local_cpulist=text.get("local_cpulist", ""),
        iommu_group=IommuGroup(group, domains.get(group, "")) if group else None,
        driver=links.get("driver", ""),
        power_state=text.get("power_state", ""),
        secondary_bus=_secondary(text, raw, "secondary_bus_number", 0x19, is_bridge=is_bridge),
        subordinate_bus=_secondary(text, raw, "subordinate_bus_number", 0x1A, is_bridge=is_bridge),
        sriov_total=_integer(text.get("sriov_totalvfs", "")),
        sriov_enabled=_integer(text.get("sriov_numvfs", "")),
        config=config,
    )


def _row(line: str) -> tuple[int, int, int] | None:
    words = line.split()
    try:
        start, end, flags = (int(word, 16) for word in words)
    except ValueError:
        return None
    return start, end, flags


def _secondary(text: Mapping[str, str], raw: bytes, name: str, offset: int, *, is_bridge: bool) -> int | None:
    told = _integer(text.get(name, ""))
    return raw[offset] if told is None and is_bridge and len(raw) > offset else told


def _hex(text: Mapping[str, str], name: str) -> str:
    value = text.get(name, "").removeprefix("0x").lower()
    return value if re.fullmatch(r"[0-9a-f]{2,4}", value) else ""


def _speed(text: str) -> float | None:
    found = _SPEED.match(text)
    return float(found[1]) if found else None


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() and text.isascii() else None
