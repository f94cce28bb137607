"""``udevadm info --export-db``: the path through the tree, ids and driver of every PCI device."""

from __future__ import annotations

import re

from harness.devices.dumps.harvest import Format, Harvest, full_address
from harness.devices.pcie import Function

_PATH = re.compile(r"^P: /devices/pci[0-9a-f:]+(?P<hops>(?:/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])+)$")
_ENTRY = re.compile(r"^E: (?P<key>[A-Z_]+)=(?P<value>.*)$")


def parse_udev(text: str, source: str) -> Harvest:
    """Read a database; records that are no PCI device itself are passed over. Never raises."""
    functions: list[Function] = []
    names: dict[str, str] = {}
    system: dict[str, str] = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if not lines or not lines[0].startswith("P: /devices/"):
            continue
        entries = {found["key"]: found["value"] for line in lines if (found := _ENTRY.match(line))}
        if "/dmi/" in lines[0]:
            system |= _system(entries)
        path = _PATH.match(lines[0])
        if path is None or "PCI_SLOT_NAME" not in entries:
            continue
        function = _function(path["hops"].strip("/").split("/"), entries)
        functions.append(function)
        names[function.bdf] = " ".join(
            word for key in ("ID_VENDOR_FROM_DATABASE", "ID_MODEL_FROM_DATABASE") if (word := entries.get(key, ""))
        )
    return Harvest(Format.UDEV, source, f"{len(functions)} functions", tuple(functions), names=names, system=system)


def _function(hops: list[str], entries: dict[str, str]) -> Function:
    vendor, _, device = entries.get("PCI_ID", "").lower().partition(":")
    subsystem_vendor, _, subsystem_device = entries.get("PCI_SUBSYS_ID", "").lower().partition(":")
    has_subsystem = subsystem_vendor not in ("", "0000")
    return Function(
        bdf=full_address(hops[-1]),
        path="",
        parent=full_address(hops[-2]) if len(hops) > 1 else None,
        vendor=vendor,
        device=device,
        subsystem_vendor=subsystem_vendor if has_subsystem else "",
        subsystem_device=subsystem_device if has_subsystem else "",
        class_code=entries.get("PCI_CLASS", "").lower().zfill(6),
        driver=entries.get("DRIVER", ""),
    )


def _system(entries: dict[str, str]) -> dict[str, str]:
    alias = re.search(r":bvr([^:]*):.*?:pn([^:]*):", entries.get("MODALIAS", ""))
    return {"bios": alias[1], "product": alias[2]} if alias else {}
