"""Ids of the few names that matter here, for output of tools that print names only (PCI id list, pciutils/pciids).

3D controller [0302]    class, vendor or device with its id      NVIDIA Corporation [10de]    Device [1e78]
3D controller           a name alone                             NVIDIA Corporation           Device 1e78
0302                    an id alone                              10de                         1e78
"""

from __future__ import annotations

import re

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
_ID = re.compile(r"[0-9a-f]{4}")
_IN_BRACKETS = re.compile(r"\[([0-9a-f]{4})\]$")
_UNNAMED = re.compile(r"\bDevice ([0-9a-f]{4})\b")


def class_of(text: str) -> str:
    """The class code, six digits; "" for a name that is not known."""
    return f"{code}00" if (code := _id_in(text)) else _CLASSES.get(text, "")


def vendor_of(text: str) -> str:
    """The vendor's id of a text that begins with its name; "" for one that is not known."""
    return _id_in(text) or next((number for name, number in _VENDORS.items() if text.startswith(name)), "")


def device_of(text: str) -> str:
    """The device's id, "" where only a name is told: no table of devices is kept."""
    unnamed = _UNNAMED.search(text)
    return _id_in(text) or ("" if unnamed is None else unnamed[1])


def _id_in(text: str) -> str:
    bare = text.strip()
    found = _IN_BRACKETS.search(bare)
    return found[1] if found else bare if _ID.fullmatch(bare) else ""
