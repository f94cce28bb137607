"""Who a function is, by the line at the margin and its subsystem: class, vendor, device and revision, as ids or as names.

19:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)      -nn
19:00.0 0302: 10de:2330 (rev a1)                                                  -n
19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)                    names alone, as far as they are known
"""

from __future__ import annotations

import re

from harness.devices.dumps.harvest import full_address
from harness.devices.dumps.lspci_record import Record
from harness.devices.dumps.pci_names import class_of, vendor_of

_HEADER = re.compile(
    r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<class>(?:Class )?[0-9a-f]{4}|[A-Z3][^:\[\n]{2,60}?)(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_BARE = re.compile(r"^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: (?P<rest>.*))?$")
_IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]|\b(?P<vendor2>[0-9a-f]{4}):(?P<device2>[0-9a-f]{4})\b")
_REVISION = re.compile(r"\(rev (?P<rev>[0-9a-f]{2})\)")


def begin_record(line: str) -> Record | None:
    """A record of a line at the margin; None where the line is something else."""
    found = _HEADER.match(line)
    if found is None:
        bare = _BARE.match(line)
        return Record(full_address(bare["bdf"])) if bare and (not bare["rest"] or bare["rest"] == "Bus") else None
    name, rest = found["class"], found["rest"]
    plain = name.removeprefix("Class ")
    code = found["code"] or (plain if re.fullmatch(r"[0-9a-f]{4}", plain) else "")
    record = Record(full_address(found["bdf"]), class_code=f"{code}00" if code else class_of(name))
    record.name = _REVISION.split(rest)[0].strip()
    ids = list(_IDS.finditer(rest))
    if ids:
        record.vendor, record.device = ids[-1]["vendor"] or ids[-1]["vendor2"], ids[-1]["device"] or ids[-1]["device2"]
    else:
        record.vendor = vendor_of(rest)
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
    vendor = vendor_of(rest)
    device = re.search(r"\bDevice ([0-9a-f]{4})\b", rest)
    return (vendor, device[1]) if vendor and device else ("", "")
