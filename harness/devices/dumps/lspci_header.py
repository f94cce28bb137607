"""Who a function is, by the line at the margin and its subsystem: class, vendor, device and revision, as ids or as names.

19:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)      -nn
19:00.0 0302: 10de:2330 (rev a1)                                                  -n
19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)                    names alone: those of the tables below
"""

from __future__ import annotations

import re

from harness.devices.dumps.harvest import full_address
from harness.devices.dumps.lspci_record import Record

_HEADER = re.compile(
    r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<class>(?:Class )?[0-9a-f]{4}|[A-Z3][^:\[\n]{2,60}?)(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_BARE = re.compile(r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: (?P<rest>.*))?$")
_IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]|\b(?P<vendor2>[0-9a-f]{4}):(?P<device2>[0-9a-f]{4})\b")
_REVISION = re.compile(r"\(rev (?P<rev>[0-9a-f]{2})\)")
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


def begin_record(line: str) -> Record | None:
    """A record of a line at the margin; None where the line is something else."""
    found = _HEADER.match(line)
    if found is None:
        bare = _BARE.match(line)
        return Record(full_address(bare["bdf"])) if bare and (not bare["rest"] or bare["rest"] == "Bus") else None
    name, rest = found["class"], found["rest"]
    plain = name.removeprefix("Class ")
    code = found["code"] or (plain if re.fullmatch(r"[0-9a-f]{4}", plain) else "")
    record = Record(full_address(found["bdf"]), class_code=f"{code}00" if code else _CLASSES.get(name, ""))
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


def subsystem(bare: str) -> tuple[str, str]:
    """Vendor and device of a subsystem line, each "" where only names are told that nobody here knows."""
    ids = list(_IDS.finditer(bare))
    if ids:
        return ids[-1]["vendor"] or ids[-1]["vendor2"], ids[-1]["device"] or ids[-1]["device2"]
    rest = bare.partition(":")[2].strip()
    vendor = next((number for name, number in _VENDORS.items() if rest.startswith(name)), "")
    device = re.search(r"\bDevice ([0-9a-f]{4})\b", rest)
    return (vendor, device[1]) if vendor and device else ("", "")
