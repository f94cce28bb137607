"""The drawing of ``lspci -t``: who sits behind whom.

-[0000:00]-+-00.0  Host bridge
           +-01.0-[01-03]--+-00.0-[02]----00.0  GPU        a device belongs to the nearest bus on its left,
           |               \\-01.0-[03]--                   on its own line or on the lines above
"""

from __future__ import annotations

import re

from harness.devices.dumps.harvest import Format, Harvest, full_address
from harness.devices.pcie import Function

ROOT = re.compile(r"^[ |\\+-]*-\[(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-", re.MULTILINE)
_TOKEN = re.compile(
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-(?P<last>[0-9a-f]{2}))?\]"
    r"|(?P<device>[0-9a-f]{2}\.[0-7])(?P<name>  +.*)?"
)
_IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]")


def parse_lspci_tree(text: str, source: str) -> Harvest:
    """Read a drawing, with or without names and ids. Never raises."""
    buses: list[tuple[int, str, str | None]] = []
    functions: dict[str, Function] = {}
    names = {}
    for line in text.splitlines():
        bridge: str | None = None
        if not line.lstrip(" |").startswith(("-", "+", "\\")):
            continue
        for token in _TOKEN.finditer(line):
            column = token.start()
            while buses and buses[-1][0] >= column:
                buses.pop()
            if token["bus"] is not None:
                domain = token["domain"] or (buses[-1][1].split(":")[0] if buses else "0000")
                first, last = int(token["bus"], 16), int(token["last"] or token["bus"], 16)
                if bridge is not None:
                    functions[bridge] = _numbered(functions[bridge], first, last)
                buses.append((column, f"{domain}:{token['bus']}", bridge))
                continue
            if not buses:
                break
            _, bus, above = buses[-1]
            bdf = full_address(f"{bus}:{token['device']}")
            ids = _IDS.search(token["name"] or "")
            vendor, device = (ids["vendor"], ids["device"]) if ids else ("", "")
            functions[bdf] = Function(bdf, "", above, vendor=vendor, device=device)
            bridge = bdf
            if token["name"]:
                names[bdf] = token["name"].strip()
                break
    return Harvest(Format.LSPCI_TREE, source, f"{len(functions)} functions", tuple(functions.values()), names=names)


def _numbered(bridge: Function, first: int, last: int) -> Function:
    return Function(
        bridge.bdf,
        "",
        bridge.parent,
        vendor=bridge.vendor,
        device=bridge.device,
        class_code="060400",
        secondary_bus=first,
        subordinate_bus=last,
    )
