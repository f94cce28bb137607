"""What the ResNet-50 smoke test did, as frozen facts.

    Report
    ├─ identity: Identity       the software: floors are known for one identity only
    ├─ gpus: RankGpu            who took part
    ├─ solos: Solo              every GPU on its own, the same seeded steps
    ├─ windows: Window          all GPUs together, a few steps each
    ├─ ranks: Rank              what each rank held at the end
    ├─ allreduce, transport     how the ranks exchanged their gradients, and whether the sums were right
    ├─ telemetry: Telemetry     each GPU's power, temperature and clocks while it trained
    └─ links, xids              its link meanwhile, and what the driver reported

Rates are images/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from harness.devices.gpu import LoadedLink, Xid

FULL_SIZE = 224
"""Side in pixels of the images that every published rate is for."""

_PERCENT = 100.0


@dataclass(frozen=True)
class Identity:
    """The software that trained. The first four decide which floor there is; ``versions`` by library name.

    ``size`` is the side of the images in pixels and ``device`` is cuda or cpu: floors are known for 224 pixels on GPUs only.
    """

    framework: str = ""
    precision: str = ""
    compiler: str = ""
    batch: int = 0
    data: str = ""
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    size: int = FULL_SIZE
    device: str = "cuda"

    def __str__(self) -> str:
        words = [self.framework, self.precision, self.compiler, "batch", str(self.batch)]
        words += [] if self.size == FULL_SIZE else ["at", f"{self.size}x{self.size}"]
        words += [] if self.device == "cuda" else ["on", self.device]
        return " ".join(words)

    @property
    def details(self) -> str:
        """Identity, data, driver and versions in one line."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self}, {self.data or 'unknown'} data, driver {self.driver or 'unknown'}{f' ({versions})' if versions else ''}"


@dataclass(frozen=True)
class RankGpu:
    """One GPU that took part, by the framework's index, and its rank."""

    index: int
    rank: int
    address: str
    uuid: str


@dataclass(frozen=True)
class Solo:
    """One GPU on its own: images/s, hash of loss and weights, loss of one fixed batch at the end and at the first step.

    ``bad_step`` is the first whose loss was not finite; ``first_loss`` is None where the worker did not say it.
    """

    index: int
    rate: float | None = None
    hash: str = ""
    loss: float | None = None
    bad_step: int | None = None
    first_loss: float | None = None


@dataclass(frozen=True)
class Window:
    """All GPUs together for a few steps; ``loss`` is None where it was not finite."""

    number: int
    rate: float
    loss: float | None


@dataclass(frozen=True)
class Rank:
    """One rank at the end: the hash of its parameters, and the first step whose own loss or gradient was not finite."""

    rank: int
    index: int
    hash: str
    bad_step: int | None = None


@dataclass(frozen=True)
class AllReduce:
    """Sums of integers that differ by rank and place, which floating point holds exactly: how many were wrong, and where."""

    ranks: int
    elements: int
    wrong: int
    wrong_ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Transport:
    """How many of the collective's channels went peer to peer, through shared host memory, or over a network.

    Only the ``backend`` nccl tells; gloo, which sums on the processor, has none of them.
    """

    p2p: int = 0
    shm: int = 0
    net: int = 0
    backend: str = "nccl"

    def __str__(self) -> str:
        if self.backend != "nccl":
            return f"{self.backend}, over loopback"
        return f"{self.p2p} P2P, {self.shm} SHM, {self.net} NET"


@dataclass(frozen=True)
class Telemetry:
    """One GPU while it trained: mean watts, highest temperature, and the share of time of each clocks reason (0 to 1).

    ``slowdown`` is the temperature from which the card slows itself down, as the card says. ``is_told`` is False where the card
    tells no reasons.
    """

    index: int
    power: float | None = None
    temperature: int | None = None
    reasons: Mapping[str, float] = field(default_factory=dict, hash=False)
    slowdown: int | None = None
    samples: int = 0
    is_told: bool = True

    def __str__(self) -> str:
        reasons = ", ".join(f"{name} {share:.0%}" for name, share in self.reasons.items())
        power = "? W" if self.power is None else f"{self.power:g} W"
        return f"{power}, {'?' if self.temperature is None else self.temperature} C{f', {reasons}' if reasons else ''}"


@dataclass(frozen=True)
class Report:
    """All that one run of the worker did."""

    identity: Identity = Identity()
    gpus: tuple[RankGpu, ...] = ()
    solos: tuple[Solo, ...] = ()
    windows: tuple[Window, ...] = ()
    ranks: tuple[Rank, ...] = ()
    allreduce: AllReduce | None = None
    transport: Transport | None = None
    telemetry: tuple[Telemetry, ...] = ()
    links: tuple[LoadedLink, ...] = ()
    xids: tuple[Xid, ...] = ()
    untried: str = ""

    @property
    def total(self) -> float | None:
        """Images/s of all GPUs over all windows: images over time, windows having as many images each."""
        rates = [window.rate for window in self.windows]
        return len(rates) / sum(1.0 / rate for rate in rates) if rates and min(rates) > 0 else None

    @property
    def median_per_gpu(self) -> float | None:
        """The median window, by GPU."""
        return median(window.rate for window in self.windows) / len(self.gpus) if self.windows and self.gpus else None

    @property
    def spread(self) -> float | None:
        """(largest - smallest) / mean of the windows, in percent; it takes two."""
        rates = [window.rate for window in self.windows]
        return _PERCENT * (max(rates) - min(rates)) * len(rates) / sum(rates) if len(rates) > 1 and sum(rates) > 0 else None

    @property
    def median_solo(self) -> float | None:
        """The median of the GPUs on their own."""
        rates = [solo.rate for solo in self.solos if solo.rate is not None]
        return median(rates) if rates else None

    @property
    def efficiency(self) -> float | None:
        """The total over as many times the median of one: 1 is perfect scaling."""
        total, solo = self.total, self.median_solo
        return None if total is None or not solo or not self.gpus else total / (len(self.gpus) * solo)

    def solo(self, index: int) -> Solo | None:
        """The solo run of the GPU of that index, or None."""
        return next((solo for solo in self.solos if solo.index == index), None)

    def told(self, index: int) -> Telemetry | None:
        """The telemetry of the GPU of that index, or None."""
        return next((telemetry for telemetry in self.telemetry if telemetry.index == index), None)

    def link(self, index: int) -> LoadedLink | None:
        """The link of the GPU of that index while it trained, or None."""
        return next((link for link in self.links if link.index == index), None)
