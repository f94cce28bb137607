"""The forms of ``lspci`` made for programs: one line for each function (-mm) or a block of named values (-vmm).

    3b:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "TU102GL [1e78]" -ra1 "NVIDIA Corporation [10de]" "Device [13d8]"
    class, vendor, device, then -r revision and -p interface where they are not 0, then the subsystem's vendor and device

    Slot:<tab>0000:3b:00.0
    Class:<tab>3D controller [0302]

Values are names (-mm), ids (-nmm) or both (-nnmm). They tell who is there and nothing of links, BARs or windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.devices.dumps.harvest import Format, Harvest, full_address
from harness.devices.dumps.pci_names import class_of, device_of, vendor_of
from harness.devices.pcie import Function, IommuGroup

LINE = re.compile(
    r'^(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<fields>"[^"\n]*" "[^"\n]*" "[^"\n]*"[^\n]*)$', re.MULTILINE
)
BLOCK = re.compile(r"^(?:Slot|Device):[ \t]+(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$", re.MULTILINE)
_FIELD = re.compile(r'"(?P<text>[^"]*)"|-(?P<option>[rp])(?P<value>[0-9a-f]{2})')
_TOLD = re.compile(r"^(?P<key>[A-Za-z]+):[ \t]+(?P<value>.*)$", re.MULTILINE)


def parse_lspci_machine(text: str, source: str) -> Harvest:
    """Read every line and block of a text. Never raises; what is neither is passed over."""
    told = [*_of_lines(text), *_of_blocks(text)]
    functions = tuple(_function(fields) for fields in told)
    names = {full_address(fields["Slot"]): f"{fields['Vendor']} {fields['Device']}".strip() for fields in told}
    gpus = sum(function.is_gpu for function in functions)
    summary = f"{len(functions)} functions, {gpus} of them display or 3D controllers"
    return Harvest(Format.LSPCI_MACHINE, source, summary, functions, names=names)


def _of_lines(text: str) -> Iterator[Mapping[str, str]]:
    for line in LINE.finditer(text):
        fields = {"Slot": line["bdf"]}
        words = []
        for field in _FIELD.finditer(line["fields"]):
            if field["option"] == "r":
                fields["Rev"] = field["value"]
            elif field["option"] is None:
                words.append(field["text"])
        yield fields | dict(zip(("Class", "Vendor", "Device", "SVendor", "SDevice"), words, strict=False))


def _of_blocks(text: str) -> Iterator[Mapping[str, str]]:
    """A block ends at the next one or at an empty line. Older lspci calls the address Device, and the device Device too."""
    begun = list(BLOCK.finditer(text))
    for block, following in zip(begun, [*begun[1:], None], strict=False):
        end = len(text) if following is None else following.start()
        body = text[block.end() : end].split("\n\n", 1)[0]
        fields = {told["key"]: told["value"].strip() for told in _TOLD.finditer(body)}
        if "Class" in fields and "Vendor" in fields:
            yield {"Device": "", **fields, "Slot": block["bdf"]}


def _function(fields: Mapping[str, str]) -> Function:
    vendor, sub_vendor = vendor_of(fields["Vendor"]), vendor_of(fields.get("SVendor", ""))
    sub_device = device_of(fields.get("SDevice", ""))
    numa, group, revision = fields.get("NUMANode", ""), fields.get("IOMMUGroup", ""), fields.get("Rev", "")
    return Function(
        bdf=full_address(fields["Slot"]),
        path="",
        vendor=vendor,
        device=device_of(fields["Device"]),
        subsystem_vendor=sub_vendor if sub_device else "",
        subsystem_device=sub_device if sub_vendor else "",
        class_code=class_of(fields["Class"]),
        revision=revision if re.fullmatch(r"[0-9a-f]{2}", revision) else "",
        numa_node=int(numa) if re.fullmatch(r"\d{1,4}", numa, re.ASCII) else None,
        iommu_group=IommuGroup(group, "") if group else None,
        driver=fields.get("Driver", ""),
    )
