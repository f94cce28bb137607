"""Firmware as an iDRAC lists it: which version of which component sits where. Parsing only.

    Installed-159-1.8.2__BIOS.Setup.1-1      {state}-{component id}-{version}__{FQDD}
    Installed-0-        __NIC.Slot.1-1       a version may be blank (dell/iDRAC-Redfish-Scripting#80)
    Previous-25227-4.40.29.00__iDRAC...      what a rollback would bring back: never what runs
    Installed-159-0.4.1                      iDRAC9 3.15 tells no FQDD (sailfishdell/sailfish)

Ids of an R750 with iDRAC9 6.00 and 7.10 (NVIDIA/libredfish tests/mockups).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from harness.devices.redfish import link, text
from harness.ports import Json

RUNNING = frozenset({"Installed", "Current"})
"""States of firmware that is in the part; Previous and Available are only kept beside it."""

_ID = re.compile(r"(?P<state>[A-Za-z]+)-(?P<component>[^-]*)-(?P<version>.*?)(?:__(?P<place>.+))?")


@dataclass(frozen=True)
class Firmware:
    """One entry. ``component`` is Dell's component id (159 BIOS, 25227 iDRAC), ``place`` the FQDD; empty where it is not told."""

    state: str
    component: str
    version: str
    place: str = ""
    name: str = ""

    @property
    def is_running(self) -> bool:
        """True where it is what the part runs, or will run after its next start."""
        return self.state in RUNNING


def parse_firmware(body: Json) -> Firmware | None:
    """Read a SoftwareInventory or a mere link to one; None for an id of another shape."""
    own = text(body, "Id") or unquote(link(body).rpartition("/")[2])
    found = _ID.fullmatch(own)
    if found is None:
        return None
    version = text(body, "Version") or found["version"]
    return Firmware(found["state"], found["component"], version.strip(), found["place"] or "", text(body, "Name"))
