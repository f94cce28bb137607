"""What firmware says: SMBIOS through ``dmidecode``, and the logs of management controllers and of POST.

Lines of a firmware log are found by shape. Sources: message ids UEFI0134 and UEFI0256 of Dell's message registry; HPE's POST
message 276; the Sun and Oracle system event log ("PCI resource exhaustion : Bus N").
"""

from __future__ import annotations

import re

from harness.devices.dumps.harvest import FirmwareLine, FirmwareSlot, Format, Harvest, full_address

_HANDLE = re.compile(r"^Handle 0x[0-9A-Fa-f]{4}, DMI type (?P<type>\d+),.*$", re.MULTILINE)
_KEY = re.compile(r"^\t(?P<key>[A-Z][^:\n]*): (?P<value>.*)$", re.MULTILINE)
RULES = {
    "memory-mapped I/O is short": re.compile(
        r"^.*(?:UEFI0134|requesting more memory mapped I/O than is available).*$", re.MULTILINE | re.IGNORECASE
    ),
    "resources are short": re.compile(r"^.*UEFI0256.*$", re.MULTILINE),
    "buses or windows are used up": re.compile(r"^.*PCI resource exhaustion ?: ?Bus \d+.*$", re.MULTILINE | re.IGNORECASE),
    "an option ROM had no room": re.compile(
        r"^.*(?:option rom space|Expansion ROM not initialized|insufficient (?:space|memory) for (?:the )?option rom).*$",
        re.MULTILINE | re.IGNORECASE,
    ),
}
_MOST_LINES = 20


def parse_dmidecode(text: str, source: str) -> Harvest:
    """Read BIOS (type 0), system (type 1) and slots (type 9). Never raises."""
    slots: list[FirmwareSlot] = []
    system: dict[str, str] = {}
    heads = list(_HANDLE.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        block = text[head.end() : following.start() if following else len(text)]
        keys = {found["key"]: found["value"].strip() for found in _KEY.finditer(block)}
        match head["type"]:
            case "0":
                system["bios"] = keys.get("Version", "")
            case "1":
                system["product"] = keys.get("Product Name", "")
            case "9":
                used = "in use" in keys.get("Current Usage", "").lower()
                slots.append(FirmwareSlot(keys.get("Designation", ""), full_address(keys.get("Bus Address", "")), used))
    what = f"{system.get('product', 'a system')}, BIOS {system.get('bios', 'not told')}, {len(slots)} slots"
    return Harvest(
        Format.DMIDECODE, source, what, slots=tuple(slots), system={key: value for key, value in system.items() if value}
    )


def parse_firmware_log(text: str, source: str) -> Harvest:
    """Find the lines of a firmware's log that concern PCIe."""
    found = [
        FirmwareLine(rule, line[0].strip()[:400])
        for rule, shape in RULES.items()
        for line in list(shape.finditer(text))[:_MOST_LINES]
    ]
    return Harvest(Format.FIRMWARE_LOG, source, f"{len(found)} lines about PCIe", firmware=tuple(found))
