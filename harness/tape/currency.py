"""Is a recording still worth replaying: how old it is, who recorded it, and whether its firmware is what is wanted today.

A recording does not go bad, but what it says of a machine does: firmware moves on, and so does what is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import harness
from harness.platform import Platform
from harness.tape.header import TapeInfo
from harness.versions import is_older, is_same

OLD = timedelta(days=365)
"""After this a recording says little of the machine's firmware (ours): Dell releases iDRAC and BIOS several times a year."""

IDRAC = "25227"
"""Dell's component id of the iDRAC's own firmware."""


def doubts(info: TapeInfo, platform: Platform | None, now: datetime) -> list[str]:
    """Why a replay may mislead, one sentence each; ``platform`` is what the machine should be, where that is known."""
    return [*_age(info, now), *_recorder(info), *(_firmware(info, platform) if platform is not None else ())]


def _age(info: TapeInfo, now: datetime) -> Iterator[str]:
    age = now - datetime.fromisoformat(info.recorded_at)
    if age > OLD:
        yield f"the tape is {age.days} days old (recorded {info.recorded_at[:10]}); record it anew where the machine is at hand"
    elif age < -timedelta(days=1):
        yield f"the tape was recorded on {info.recorded_at[:10]}, which is still to come: a clock was or is wrong"


def _recorder(info: TapeInfo) -> Iterator[str]:
    if is_older(harness.__version__, info.harness):
        yield f"the tape was recorded by version {info.harness}, which is newer than this one ({harness.__version__})"


def _firmware(info: TapeInfo, platform: Platform) -> Iterator[str]:
    for name, version, minimum, deny in _wanted(info, platform):
        if any(is_same(version, denied) for denied in deny):
            yield f"the tape's {name} {version} is on the deny list of platform {platform.name}"
        elif minimum and is_older(version, minimum):
            yield f"the tape's {name} {version} is older than {minimum}, the oldest that platform {platform.name} takes"


def _wanted(info: TapeInfo, platform: Platform) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """What the header tells the version of, with minimum and deny list."""
    if version := info.identity.get("bios"):
        yield "BIOS", version, platform.bios.minimum, platform.bios.deny
    if version := info.identity.get("idrac"):
        for entry in platform.firmware:
            if entry.component == IDRAC:
                yield "iDRAC", version, entry.minimum, entry.deny
