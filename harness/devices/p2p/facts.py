"""What every GPU could read and write of every other one, as frozen facts.

    Report
    ├─ gpus: PeerGpu            who took part, its switch, its IOMMU domain, how many peers it may have
    ├─ holders: Process         who else holds peers
    ├─ refused                  why nothing was copied
    ├─ pairs: Pair              one for each ordered pair
    │  ├─ wrong: Wrong          which bytes were wrong, and how
    │  └─ alone: Alone          the same pair again while nothing else ran
    ├─ loopbacks: Loopback      each GPU within its own memory
    ├─ links: LoadedLink        each GPU's link while it was busy; telemetry: its power, heat and clocks
    ├─ contention: Contention   several GPUs of one switch at once, over its uplink
    ├─ shifts: Shift            all GPUs at once, each to the k-th next
    ├─ contexts: Contexts       what contexts cost, and how long each lived
    └─ wedged: Wedged, xids: Xid

Bandwidths are GB/s with GB = 1e9 bytes, latencies microseconds, offsets and sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from harness.devices.gpu import LoadedLink, Telemetry, Xid


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
    by the source; ``pulled`` is with peer access, by the target; ``both`` is this way and the other at once, added up. ``checked``
    and ``bad`` count bytes. ``error`` is the CUDA error that ended the copy, ``untried`` why there was none.
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
    both: float | None = None

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
class Loopback:
    """Copies of one GPU within its own memory: no link and no peer takes part, so this is no peer-to-peer copy.

    ``rate`` is GB/s; ``checked`` and ``bad`` count bytes; ``untried`` is why there was none.
    """

    index: int
    rate: float | None = None
    checked: int = 0
    bad: int | None = None
    wrong: Wrong | None = None
    untried: str = ""


@dataclass(frozen=True)
class Shift:
    """Every GPU copies to the ``by``-th next at once: GB/s of the ``copies`` that leave one switch, driven by its GPUs."""

    by: int
    group: str
    copies: int
    write: float | None = None
    read: float | None = None

    @property
    def ratio(self) -> float | None:
        """Writes over reads: far below 1 where only writes collapse."""
        return _ratio(self.write, self.read)


@dataclass(frozen=True)
class Contexts:
    """How many contexts were opened and their cost in seconds. ``life`` of one: a pair, a round, or the whole run (gpu)."""

    count: int = 0
    seconds: float = 0.0
    life: str = ""


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
class Report:
    """All that one run of the worker found. ``refused`` is why it copied nothing at all, else "".

    ``steps`` is in how many steps all pairs were copied: more than one pair a step only where they share no line.
    """

    gpus: tuple[PeerGpu, ...] = ()
    pairs: tuple[Pair, ...] = ()
    links: tuple[LoadedLink, ...] = ()
    telemetry: tuple[Telemetry, ...] = ()
    loopbacks: tuple[Loopback, ...] = ()
    contention: tuple[Contention, ...] = ()
    shifts: tuple[Shift, ...] = ()
    contexts: Contexts | None = None
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

    def pair(self, source: int, target: int) -> Pair | None:
        """The pair, or None."""
        return self._by_ends.get((source, target))

    @cached_property
    def _by_ends(self) -> dict[tuple[int, int], Pair]:
        return {(pair.source, pair.target): pair for pair in self.pairs}

    def link(self, index: int) -> LoadedLink | None:
        """The loaded link of the GPU of that index, or None."""
        return next((link for link in self.links if link.index == index), None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
