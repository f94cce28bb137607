"""Links and corrected errors watched for some seconds: one snapshot of a link that flaps looks perfectly healthy.

    at 4711.05                                                  seconds since the boot, once a sample
    0000:3b:00.0/current_link_width:16                          every function with a link
    0000:3b:00.0/current_link_speed:8.0 GT/s PCIe
    0000:3b:00.0/aer_dev_correctable:TOTAL_ERR_COR 0            where the kernel counts (4.19 and later)

Why watched: a machine with 17 GPUs whose links changed 1415 times in two minutes (local-inference-lab/rtx6kpro#88).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from harness.devices.host import Host
from harness.errors import DeviceError

COUNT, EVERY = 10, 3.0
"""Samples, and the seconds between two of them."""

_MINUTE = 60.0
_GONE = 63
"""Lanes that the kernel shows for a function that reads all ones."""
SCRIPT = (
    'cd /sys/bus/pci/devices || exit 1; n={count}; while [ "$n" -gt 0 ]; do read up rest < /proc/uptime; echo "at $up"; '
    "grep -sH . */current_link_width */current_link_speed; grep -sH TOTAL_ERR_COR */aer_dev_correctable; "
    'n=$((n - 1)); if [ "$n" -gt 0 ]; then sleep {every}; fi; done; true'
)
_LINE = re.compile(
    r"(?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/"
    r"(?:current_link_width:(?P<width>\d{1,4})|current_link_speed:(?P<speed>\d{1,4}(?:\.\d{1,4})?) GT/s.*"
    r"|aer_dev_correctable:TOTAL_ERR_COR (?P<errors>\d{1,20}))"
)


@dataclass(frozen=True)
class Sample:
    """One look, ``at`` seconds since the boot: lanes, GT/s and corrected errors so far, by address, as far as they are told."""

    at: float
    widths: Mapping[str, int] = field(default_factory=dict, hash=False)
    speeds: Mapping[str, float] = field(default_factory=dict, hash=False)
    errors: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Watch:
    """The samples in their order."""

    samples: tuple[Sample, ...] = ()

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return self.samples[-1].at - self.samples[0].at if self.samples else 0.0

    def widths(self, bdf: str) -> tuple[int, ...]:
        """The lanes of a function's link in every sample that told them."""
        return tuple(sample.widths[bdf] for sample in self.samples if bdf in sample.widths)

    def speeds(self, bdf: str) -> tuple[float, ...]:
        """The speed of a function's link in every sample that told it, in GT/s."""
        return tuple(sample.speeds[bdf] for sample in self.samples if bdf in sample.speeds)

    def errors_per_minute(self, bdf: str) -> float | None:
        """How fast the kernel's counter of corrected errors grew; None where it was not read twice."""
        counted = [(sample.at, sample.errors[bdf]) for sample in self.samples if bdf in sample.errors]
        if len(counted) < 2 or counted[-1][0] <= counted[0][0]:
            return None
        return (counted[-1][1] - counted[0][1]) / (counted[-1][0] - counted[0][0]) * _MINUTE


def changes(values: tuple[float, ...]) -> int:
    """How often a value differs from the one before."""
    return sum(one != other for one, other in pairwise(values))


def watch_links(host: Host, *, count: int = COUNT, every: float = EVERY) -> Watch:
    """Look ``count`` times, ``every`` seconds apart. Raises CommandFailed without sysfs, DeviceError where nothing was sampled."""
    script = SCRIPT.format(count=count, every=f"{every:g}")
    text = host.observe("sh", "-c", script, name=f"watch-links {count} {every:g}", timeout=count * every + 120.0)
    return parse_watch(text)


def parse_watch(text: str) -> Watch:
    """Read what the script printed; lines of other kinds are passed over. Raises DeviceError where there is no sample."""
    samples: list[Sample] = []
    for block in re.split(r"^at ", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        if not re.fullmatch(r"\d+(?:\.\d+)?", head.strip(), re.ASCII):
            continue
        widths: dict[str, int] = {}
        speeds: dict[str, float] = {}
        errors: dict[str, int] = {}
        for line in _LINE.finditer(body):
            if line["width"] is not None and int(line["width"]) != _GONE:
                widths[line["bdf"]] = int(line["width"])
            elif line["speed"] is not None:
                speeds[line["bdf"]] = float(line["speed"])
            elif line["errors"] is not None:
                errors[line["bdf"]] = int(line["errors"])
        samples.append(Sample(float(head), widths, speeds, errors))
    if not samples:
        raise DeviceError("watch-links: the host printed no sample of its links")
    return Watch(tuple(samples))
