"""What was seen of GPUs at work, as frozen facts: links, power and heat, and the errors that the driver reported meanwhile.

A worker that loads GPUs (p2p, resnet50) watches them from a process of its own and prints:

    {"kind":"link","index":0,"generation":3,"width":16,"samples":1300,"replays":0,"seconds":260.0}
    {"kind":"xid","index":12,"address":"0000:e1:00.0","xid":79,"text":"NVRM: Xid ..."}                  as they come
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.devices.fields import Fields, Lines, normal_address


@dataclass(frozen=True)
class LoadedLink:
    """One GPU's link while it was busy: generation and width, from how many samples, and replays in ``seconds``."""

    index: int
    generation: int | None = None
    width: int | None = None
    samples: int = 0
    replays: int | None = None
    seconds: float = 0.0

    @property
    def replays_per_minute(self) -> float | None:
        """Replays a minute under load; None where they were not counted."""
        return None if self.replays is None or self.seconds <= 0 else self.replays * 60.0 / self.seconds


@dataclass(frozen=True)
class Telemetry:
    """One GPU over the whole run: peak watts and degrees Celsius, None where the driver gives none.

    ``slowdown`` is the temperature from which the card slows itself down, as the card says.
    ``reasons`` counts the samples in which each clocks event reason was active, by its bit in nvml.h; None where the driver does
    not tell them.
    """

    index: int
    samples: int = 0
    power: float | None = None
    temperature: int | None = None
    slowdown: int | None = None
    reasons: Mapping[int, int] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Xid:
    """An error that the driver reported while the worker ran."""

    index: int | None
    address: str
    number: int
    text: str = ""


def links_in(lines: Lines) -> tuple[LoadedLink, ...]:
    """The ``link`` lines. Raises BringupError for one that cannot be meant."""
    return tuple(_link(fields) for fields in lines.every("link"))


def xids_in(lines: Lines) -> tuple[Xid, ...]:
    """The ``xid`` lines. Raises BringupError for one that cannot be meant."""
    return tuple(_xid(fields) for fields in lines.every("xid"))


def _link(fields: Fields) -> LoadedLink:
    return LoadedLink(
        index=fields.integer("index"),
        generation=fields.maybe_integer("generation"),
        width=fields.maybe_integer("width"),
        samples=fields.integer("samples", 0),
        replays=fields.maybe_integer("replays"),
        seconds=fields.number("seconds", 0.0),
    )


def _xid(fields: Fields) -> Xid:
    address = normal_address(fields.text("address")) if "address" in fields else ""
    return Xid(fields.maybe_integer("index"), address, fields.integer("xid"), fields.text("text", ""))
