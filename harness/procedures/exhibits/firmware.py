"""Firmware against the baseline: what runs, what the platform asks for, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.devices.firmware import Firmware
from harness.platform import Bios, FirmwareBaseline, Platform
from harness.procedures.bios.version import objection
from harness.procedures.firmware import judge

_MOST = 60


def show_firmware(found: Sequence[Firmware], bios_version: str, platform: Platform) -> dict[str, Any]:
    """``rows`` of (name, version, baseline, complaint), BIOS first; ``others`` are running versions without a baseline."""
    rows = [["BIOS", bios_version, _asked(platform.bios), objection(bios_version, platform.bios)]] if bios_version else []
    baseline = {entry.name: entry for entry in platform.firmware}
    readings = judge(found, platform.firmware)
    rows += [[reading.label, reading.version, _asked(baseline[reading.name]), reading.complaint] for reading in readings]
    judged = {(reading.place, reading.version) for reading in readings}
    others = [
        [each.name or each.place, each.version]
        for each in found
        if each.is_running and each.version and (each.place, each.version) not in judged
    ]
    return {"rows": rows[:_MOST], "others": others[:_MOST]}


def _asked(entry: Bios | FirmwareBaseline) -> str:
    asked = [f"at least {entry.minimum}"] if entry.minimum else []
    asked += [f"not {denied}" for denied in entry.deny]
    return ", ".join(asked)
