"""The firmware baseline: what runs in each part against the platform's minimums and deny list. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.devices.firmware import Firmware
from harness.platform import FirmwareBaseline
from harness.versions import is_older, is_same


@dataclass(frozen=True)
class Reading:
    """One part under one entry of the baseline. ``version`` is empty where it is not told, ``complaint`` where nothing is wrong."""

    name: str
    place: str
    version: str
    complaint: str = ""

    @property
    def label(self) -> str:
        """What to call it: the entry's name, with the place where it is told."""
        return f"{self.name} {self.place}".rstrip()


def judge(found: Sequence[Firmware], baseline: Sequence[FirmwareBaseline]) -> tuple[Reading, ...]:
    """Every running firmware that the baseline is about. An entry that nothing matches gives a reading without a version."""
    return tuple(reading for entry in baseline for reading in _readings(found, entry))


def _readings(found: Sequence[Firmware], entry: FirmwareBaseline) -> Iterator[Reading]:
    mine = [each for each in found if each.is_running and _is_about(entry, each)]
    if not mine:
        yield Reading(entry.name, "", "")
    for each in {(each.place, each.version): each for each in mine}.values():
        yield Reading(entry.name, each.place, each.version, _complaint(each.version, entry))


def _is_about(entry: FirmwareBaseline, firmware: Firmware) -> bool:
    if entry.component and firmware.component != entry.component:
        return False
    return not entry.place or re.fullmatch(entry.place, firmware.place) is not None


def _complaint(version: str, entry: FirmwareBaseline) -> str:
    if not version:
        return ""
    if any(is_same(version, denied) for denied in entry.deny):
        return f"{version} is on the platform's deny list ({', '.join(entry.deny)}); update it"
    if entry.minimum and is_older(version, entry.minimum):
        return f"{version} is older than {entry.minimum}, the oldest that will do; update it"
    return ""
