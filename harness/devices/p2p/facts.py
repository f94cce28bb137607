"""What every GPU could read and write of every other one, as frozen facts.

    Report
    ├─ gpus: PeerGpu            who took part, its switch, its IOMMU domain, how many peers it may have
    ├─ holders: Process         who else holds peers
    ├─ refused                  why nothing was copied
    ├─ pairs: Pair              one for each ordered pair
    │  ├─ wrong: Wrong          which bytes were wrong, and how
    │  └─ alone: Alone          the same pair again while nothing else ran
    ├─ links: LoadedLink        each GPU's link while it was busy
    ├─ contention: Contention   several GPUs of one switch at once, over its uplink
    └─ wedged: Wedged, xids: Xid

Bandwidths are GB/s with GB = 1e9 bytes, latencies microseconds, offsets and sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


class Damage(StrEnum):
    """What wrong bytes look like, and so what became of the right ones."""

    ZERO = "zero"
    DROPPED = "dropped"
    MISROUTED = "misrouted"
    SHIFTED = "shifted"
    SINGLE_BIT = "single bit"
    ALL_ONES = "all ones"
    OTHER = "other"


class LinkKind(StrEnum):
    """What connects a pair, and so what its ceiling is."""

    PCIE = "pcie"
    NVLINK = "nvlink"


TOO_MANY_PEERS = 711
"""CUDA_ERROR_TOO_MANY_PEERS: a limit (eight a device, system-wide, without NVSwitch: CUDA programming guide), not a broken GPU."""


@dataclass(frozen=True)
class PeerGpu:
    """One GPU that took part; ``index`` is CUDA's in PCI bus order.

    ``group`` is the address of the bridge that all GPUs below one switch share. ``iommu`` is the type of its IOMMU group's
    domain, "none" where it has no group. ``peers`` is how many peers it could enable at once (None: not probed), ``stopped``
    the CUDA error that ended the probe, 0 where it ended because enough was asked for. ``error`` is why CUDA could make no
    context on it, else "".
    """

    index: int
    address: str
    uuid: str
    group: str = ""
    iommu: str = ""
    peers: int | None = None
    stopped: int = 0
    error: str = ""


@dataclass(frozen=True)
class Redirect:
    """A port that sends peer traffic up to the root complex: the controls that do (RR, CR, EC) and the GPUs below it."""

    address: str
    controls: tuple[str, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Holder:
    """A process that holds peers of a GPU."""

    index: int
    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


@dataclass(frozen=True)
class Wrong:
    """The wrong bytes of one pair.

    ``way`` is write (the source pushed) or read (the target pulled). ``first`` and ``last`` are the offsets of the first and
    last wrong word. ``of`` is the index of the GPU whose pattern was found instead, where the data was misrouted.
    ``disabled_bad`` counts the wrong bytes of the same copy without peer access: 0 acquits the memories at both ends.
    """

    damage: Damage
    way: str
    first: int
    last: int
    size: int
    disabled_bad: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class Alone:
    """A pair measured again while nothing else ran; None where it was not."""

    enabled: float | None = None
    disabled: float | None = None
    bad: int | None = None


@dataclass(frozen=True)
class Pair:
    """One ordered pair: data from ``source`` to ``target``.

    ``can`` is what the driver answers before any copy. ``enabled`` and ``disabled`` are GB/s with and without peer access, pushed
    by the source; ``pulled`` is with peer access, by the target. ``checked`` and ``bad`` count bytes. ``error`` is the CUDA
    error that ended the copy, ``untried`` why there was none.
    """

    source: int
    target: int
    can: bool | None = None
    link: LinkKind = LinkKind.PCIE
    enabled: float | None = None
    disabled: float | None = None
    write_us: float | None = None
    read_us: float | None = None
    checked: int = 0
    bad: int | None = None
    wrong: Wrong | None = None
    alone: Alone | None = None
    error: str = ""
    error_code: int = 0
    untried: str = ""
    pulled: float | None = None

    @property
    def best_enabled(self) -> float | None:
        """GB/s with peer access, alone where it was measured alone."""
        return self.enabled if self.alone is None or self.alone.enabled is None else self.alone.enabled

    @property
    def best_disabled(self) -> float | None:
        """GB/s through the host, alone where it was measured alone."""
        return self.disabled if self.alone is None or self.alone.disabled is None else self.alone.disabled

    @property
    def worst_bad(self) -> int | None:
        """Wrong bytes, the larger of both runs; None where nothing was compared."""
        found = [count for count in (self.bad, None if self.alone is None else self.alone.bad) if count is not None]
        return max(found) if found else None

    @property
    def why_missing(self) -> str:
        """Why there is no figure."""
        return self.untried or self.error or "the worker gives no figure"


@dataclass(frozen=True)
class LoadedLink:
    """One GPU's link while its pairs were copied: the lowest generation and width of all samples, and replays in ``seconds``."""

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

    ``reasons`` counts the samples in which each clocks event reason was active, by its bit in nvml.h; None where the driver does
    not tell them.
    """

    index: int
    samples: int = 0
    power: float | None = None
    temperature: int | None = None
    reasons: Mapping[int, int] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Contention:
    """GPUs below one switch at once, to and from ``partners`` below another: the rate of the uplink, and of one pair alone."""

    group: str
    gpus: tuple[int, ...]
    partners: tuple[int, ...] = ()
    write_alone: float | None = None
    write_together: float | None = None
    read_alone: float | None = None
    read_together: float | None = None
    untried: str = ""

    @property
    def write_ratio(self) -> float | None:
        """The uplink's write rate under contention over that of one pair alone."""
        return _ratio(self.write_together, self.write_alone)

    @property
    def read_ratio(self) -> float | None:
        """The same for reads."""
        return _ratio(self.read_together, self.read_alone)


@dataclass(frozen=True)
class Wedged:
    """A copy that did not end in ``seconds`` and was killed.

    ``culprit`` is the GPU that a driver error names, where one does. ``reaped`` is False where the killed process stayed: only
    a reboot helps then.
    """

    source: int
    target: int
    seconds: float
    culprit: int | None = None
    reaped: bool = True

    @property
    def suspects(self) -> tuple[int, ...]:
        """Which GPUs are not to be trusted any more: the culprit, or both where nobody knows."""
        return (self.source, self.target) if self.culprit is None else (self.culprit,)


@dataclass(frozen=True)
class Xid:
    """An error that the driver reported while the worker ran."""

    index: int | None
    address: str
    number: int
    text: str = ""


@dataclass(frozen=True)
class Report:
    """All that one run of the worker found. ``refused`` is why it copied nothing at all, else "".

    ``steps`` is in how many steps all pairs were copied: more than one pair a step only where they share no line.
    """

    gpus: tuple[PeerGpu, ...] = ()
    pairs: tuple[Pair, ...] = ()
    links: tuple[LoadedLink, ...] = ()
    telemetry: tuple[Telemetry, ...] = ()
    contention: tuple[Contention, ...] = ()
    holders: tuple[Holder, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    wedged: tuple[Wedged, ...] = ()
    xids: tuple[Xid, ...] = ()
    refused: str = ""
    driver: str = ""
    cuda: str = ""
    size: int = 0
    loops: int = 0
    steps: int = 0

    @cached_property
    def tried(self) -> tuple[Pair, ...]:
        """The pairs that were copied and compared."""
        return tuple(pair for pair in self.pairs if pair.worst_bad is not None)

    def gpu(self, index: int) -> PeerGpu | None:
        """The GPU of that index, or None."""
        return next((gpu for gpu in self.gpus if gpu.index == index), None)

    def link(self, index: int) -> LoadedLink | None:
        """The loaded link of the GPU of that index, or None."""
        return next((link for link in self.links if link.index == index), None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
