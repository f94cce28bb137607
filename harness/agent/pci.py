"""The PCI tree as the operating system shows it, for any Linux with Python 3.6 or later and nothing else.

    host      one: kernel, who reads, boot, machine
    window    one for each address range that a host bridge may hand out (/proc/iomem, /proc/ioports; as root)
    slot      one for each slot the kernel knows
    function  one for each PCI function, by address
    unread    one for each kind of thing that could not be read: what, of which functions, why, what to do

A function's ``config`` is hex without trailing zero bytes; ``config_length`` says how many bytes were read. Ids are lower
hex without 0x. Reading changes nothing, but for a sleeping device that the kernel wakes to read its configuration space;
``power_state`` is read before that.
"""

import argparse
import os
import platform
import re
from typing import Any, Dict, Iterator, List, Optional, Set

from .tree import AS_ROOT, Tree, speed, whole, width

DEVICES = ("sys", "bus", "pci", "devices")
_ROOT_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_RANGE = re.compile(r"( *)([0-9a-f]+)-([0-9a-f]+) : (.*)\Z")
_WHOLE_CONFIG = 4096
_LEGACY_CONFIG = 256
_AER = (("correctable", "aer_dev_correctable"), ("nonfatal", "aer_dev_nonfatal"), ("fatal", "aer_dev_fatal"))


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The worker's entry: ``--root DIR`` reads another tree than the running system's."""
    parser = argparse.ArgumentParser(prog="agent pci")
    parser.add_argument("--root", default="/", help="where /sys and /proc are (default /)")
    return read(parser.parse_args(arguments).root)


def read(root: str = "/", uid: Optional[int] = None) -> Iterator[Dict[str, Any]]:
    """Everything below ``root``, as objects ready for JSON; ``uid`` is who is said to read, by default the caller."""
    tree = Tree(root)
    yield _host(tree, os.getuid() if uid is None else uid)
    for window in _windows(tree):
        yield window
    for name in tree.names("sys", "bus", "pci", "slots"):
        address = tree.text("sys", "bus", "pci", "slots", name, "address")
        yield {"kind": "slot", "name": name, "address": address or ""}
    if not os.path.isdir(tree.path(*DEVICES)):
        tree.note("/" + "/".join(DEVICES), "there is no such folder", "mount sysfs, or check that this machine has PCI at all")
    for bdf in tree.names(*DEVICES):
        try:
            line = _function(tree, bdf)
        except Exception as error:
            tree.note("the whole function", "{}: {}".format(type(error).__name__, error), "", bdf)
            continue
        if line["vendor"]:
            yield line
        else:
            tree.note("the whole function", "it shows no vendor: it went away while it was read", "", bdf)
    for line in tree.unread():
        yield line


def _host(tree: Tree, uid: int) -> Dict[str, Any]:
    return {
        "kind": "host",
        "kernel": tree.text("proc", "sys", "kernel", "osrelease") or "",
        "uid": uid,
        "python": platform.python_version(),
        "command_line": tree.text("proc", "cmdline") or "",
        "boot_id": tree.text("proc", "sys", "kernel", "random", "boot_id") or "",
        "machine": tree.text("sys", "class", "dmi", "id", "product_name") or "",
        "serial": tree.text("sys", "class", "dmi", "id", "product_serial") or "",
        "iommus": tree.names("sys", "class", "iommu"),
    }


def _windows(tree: Tree) -> Iterator[Dict[str, Any]]:
    """The ranges named after a root bus. Without root the kernel prints them all as zeros."""
    roots = _root_buses(tree)
    for name, space in (("iomem", "memory"), ("ioports", "io")):
        text = tree.data("proc", name, most=1 << 22) or b""
        above: List[str] = []
        hidden = False
        for line in text.decode("utf-8", "replace").splitlines():
            match = _RANGE.match(line)
            if match is None:
                continue
            indent, start, end, owner = match.groups()
            above = [*above[: len(indent) // 2], owner]
            bus = owner[len("PCI Bus ") :] if owner.startswith("PCI Bus ") else ""
            if bus not in roots or any(outer.startswith("PCI ") for outer in above[:-1]):
                continue
            first, last = int(start, 16), int(end, 16)
            if first == last == 0:
                hidden = True
            else:
                yield {"kind": "window", "root": "pci" + bus, "space": space, "start": first, "end": last}
        if hidden:
            tree.note("the host bridges' windows in /proc/" + name, "the kernel shows users only zeros", AS_ROOT)


def _root_buses(tree: Tree) -> Set[str]:
    """``0000:3a`` of each host bridge: those without a device too, and those that sysfs keeps deeper down."""
    bridges = [_walk(tree, bdf)[0] for bdf in tree.names(*DEVICES)] + tree.names("sys", "devices")
    return {bridge[len("pci") :] for bridge in bridges if _ROOT_BRIDGE.match(bridge)}


def _walk(tree: Tree, bdf: str) -> List[str]:
    """The host bridge and the addresses from it down to the function, as the symbolic link resolves."""
    parts = os.path.realpath(tree.path(*DEVICES, bdf)).split(os.sep)
    bridges = [index for index, part in enumerate(parts) if _ROOT_BRIDGE.match(part)]
    if not bridges:
        return [""]
    return [parts[bridges[-1]]] + [part for part in parts[bridges[-1] + 1 :] if _ADDRESS.match(part)]


def _function(tree: Tree, bdf: str) -> Dict[str, Any]:
    def text(name: str) -> Optional[str]:
        return tree.text(*DEVICES, bdf, name, of=bdf)

    walk = _walk(tree, bdf)
    line: Dict[str, Any] = {"kind": "function", "bdf": bdf}
    line["path"] = "/".join([walk[0]] + [address.rsplit(":", 1)[1] for address in walk[1:]])
    line["parent"] = walk[-2] if len(walk) > 2 else None
    for name in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class", "revision"):
        line[name] = _hexadecimal(text(name))
    line["power_state"] = text("power_state") or ""
    line["resource"] = _resources(text("resource"))
    line["link"] = {
        "current_speed": speed(text("current_link_speed")),
        "current_width": width(text("current_link_width")),
        "max_speed": speed(text("max_link_speed")),
        "max_width": width(text("max_link_width")),
    }
    line["numa_node"] = whole(text("numa_node"))
    line["local_cpulist"] = text("local_cpulist") or ""
    line["iommu_group"] = _iommu_group(tree, bdf)
    line["driver"] = tree.link(*DEVICES, bdf, "driver")
    line["enable"] = whole(text("enable"))
    line["secondary_bus"] = whole(text("secondary_bus_number"))
    line["subordinate_bus"] = whole(text("subordinate_bus_number"))
    line["aer"] = _aer(text)
    line["sriov_total"] = whole(text("sriov_totalvfs"))
    line["sriov_enabled"] = whole(text("sriov_numvfs"))
    line["physical"] = tree.link(*DEVICES, bdf, "physfn")
    line.update(_config(tree, bdf))
    return line


def _hexadecimal(text: Optional[str]) -> str:
    text = text or ""
    return text[2:].lower() if text.startswith("0x") else text.lower()


def _resources(text: Optional[str]) -> List[List[int]]:
    """[start, end, flags] of each line; all zero is a resource that is not there."""
    return [[int(number, 16) for number in line.split()] for line in (text or "").splitlines()]


def _iommu_group(tree: Tree, bdf: str) -> Optional[Dict[str, str]]:
    group = tree.link(*DEVICES, bdf, "iommu_group")
    if not group:
        return None
    kind = tree.text("sys", "kernel", "iommu_groups", group, "type", of=bdf)
    return {"id": group, "type": kind or ""}


def _aer(text: Any) -> Optional[Dict[str, Dict[str, int]]]:
    """The kernel's error counters that are not zero, totals left out; None before Linux 4.19 and without AER."""
    counters: Dict[str, Dict[str, int]] = {}
    for severity, name in _AER:
        content = text(name)
        if content is None:
            continue
        counted = counters.setdefault(severity, {})
        for line in content.splitlines():
            label, _, count = line.rpartition(" ")
            if label and not label.startswith("TOTAL_ERR") and count.isdigit() and int(count):
                counted[label] = int(count)
    return counters or None


def _config(tree: Tree, bdf: str) -> Dict[str, Any]:
    data = tree.data(*DEVICES, bdf, "config", of=bdf, most=_WHOLE_CONFIG)
    if data is None:
        return {"config": None, "config_length": 0}
    if len(data) < _LEGACY_CONFIG:
        why = "the kernel shows only {} bytes to this user".format(len(data))
        tree.note("configuration space beyond the header", why, AS_ROOT, bdf)
    return {"config": data.rstrip(b"\0").hex(), "config_length": len(data)}
