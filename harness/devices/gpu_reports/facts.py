"""What one file of results gave, as frozen facts.

    Reading                    one tool's output in one file
    ├─ devices: Device         who took part, by the tool's own index
    ├─ grids: Grid             a table by pair: bandwidth one way or both ways, latency
    ├─ crowds: Crowd           many GPUs to or from one at once
    ├─ access                  what the tool says of peer access, by ordered pair
    ├─ host_rates: HostRate    copies between a GPU and the host
    ├─ collective: Collective  rows of nccl-tests
    ├─ training: Training      steps of a ResNet-50 run
    ├─ checks: Check           tests of a diagnostic, with their own status
    ├─ burns: Burn             what gpu-burn says of each GPU
    ├─ nodes: NodeResult       SuperBench's metrics and what it made of them
    ├─ monitor: Monitor        counters sampled over time
    ├─ processes: Process      who uses the GPUs
    └─ signs: Sign             lines that the field knows from bug reports

Bandwidths are GB/s with GB = 1e9 bytes, latencies microseconds, rates of training images/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.devices.gpu import Process
from harness.devices.pcie import Unread

Pair = tuple[int, int]
"""Where the data comes from and where it goes, by the tool's index."""


class Tool(StrEnum):
    """The programs whose results are read."""

    P2P_SAMPLE = "p2pBandwidthLatencyTest"
    NVBANDWIDTH = "nvbandwidth"
    NCCL_TESTS = "nccl-tests"
    TF_CNN_BENCHMARKS = "tf_cnn_benchmarks"
    TEMPERATURES = "temperature trace"
    NOTES = "notes on the machine"
    DCGM_DIAG = "DCGM diag"
    GPU_COPY = "SuperBench gpu-copy-bw"
    SUPERBENCH = "SuperBench results"
    SUPERBENCH_DIAGNOSIS = "SuperBench diagnosis"
    SUPERBENCH_SUMMARY = "SuperBench summary"
    SUPERBENCH_MONITOR = "SuperBench monitor"
    GPU_BURN = "gpu-burn"
    BANDWIDTH_TEST = "bandwidthTest"
    PROCESSES = "processes of nvidia-smi"
    LINES = "lines of a log"


class Quantity(StrEnum):
    """What a grid's cells are."""

    ONE_WAY = "bandwidth one way"
    BOTH_WAYS = "bandwidth both ways, summed"
    LATENCY = "latency"


class Status(StrEnum):
    """How a diagnostic says that a test ended. A test that was left out is no pass."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    OTHER = "other"


class Signature(StrEnum):
    """Lines that public bug reports tell of, by what they mean."""

    TOO_MANY_PEERS = "too many peers"
    PATTERN = "wrong bytes in nvbandwidth"
    VERIFICATION = "wrong bytes in simpleP2P"
    IOMMU = "the IOMMU refused an access"
    FABRIC_MANAGER = "the fabric manager is not ready"
    NCCL_CRASH = "a crash inside NCCL"
    PEERMEM = "peer memory given back too late"


@dataclass(frozen=True)
class Device:
    """One GPU as a tool names it; ``address`` is as in sysfs, "" where it is not told."""

    index: int
    name: str = ""
    address: str = ""


@dataclass(frozen=True)
class Grid:
    """One table. ``peers`` says whether peer access was on (None: not told), ``way`` who moved the data: write or read.

    ``cells`` leave out a GPU with itself and what the tool did not measure.
    """

    quantity: Quantity
    cells: Mapping[Pair, float] = field(hash=False)
    peers: bool | None = None
    way: str = "write"
    title: str = ""


@dataclass(frozen=True)
class Crowd:
    """The rate of one GPU while all others wrote into it, or were read by it, at once."""

    index: int
    way: str
    rate: float


@dataclass(frozen=True)
class HostRate:
    """The best rate between the host and one GPU; ``index`` is None where the tool does not tell which."""

    index: int | None
    to_gpu: bool
    rate: float


@dataclass(frozen=True)
class Rank:
    """One rank of a collective: its process, host and GPU."""

    rank: int
    pid: int
    host: str
    device: Device


@dataclass(frozen=True)
class Row:
    """One size of a collective: bytes, bus bandwidth out of place and in place, and wrong elements (None: not compared)."""

    size: int
    out_of_place: float
    in_place: float
    wrong: int | None

    @property
    def best(self) -> float:
        """The better of both."""
        return max(self.out_of_place, self.in_place)


@dataclass(frozen=True)
class Collective:
    """One run of nccl-tests.

    ``validated`` is whether values were compared, ``wrong`` what the tool counts at its end, ``refused`` its own verdict on the
    bandwidth where it gives a bad one, ``ended`` whether it came to its last line, ``errors`` the lines that tell of one.
    """

    name: str
    ranks: tuple[Rank, ...] = ()
    rows: tuple[Row, ...] = ()
    validated: bool | None = None
    wrong: int | None = None
    average: float | None = None
    refused: str = ""
    errors: tuple[str, ...] = ()
    ended: bool = False

    @property
    def devices(self) -> tuple[int, ...]:
        """The GPUs that took part on the first host, by index."""
        first = self.ranks[0].host if self.ranks else ""
        return tuple(sorted(rank.device.index for rank in self.ranks if rank.host == first))


@dataclass(frozen=True)
class Step:
    """One line of tf_cnn_benchmarks: ``rate`` is the mean over all steps so far, ``loss`` None where it is no finite number."""

    number: int
    rate: float
    loss: float | None


@dataclass(frozen=True)
class Training:
    """One run of tf_cnn_benchmarks. ``precision`` is "" where neither the text nor the file's name tells it.

    ``total`` is the tool's own figure of images/s over all steps; None where the log ends before it. ``access`` is the matrix
    that TensorFlow prints of which GPUs it could connect.
    """

    model: str = ""
    version: str = ""
    precision: str = ""
    compiler: str = ""
    batch: int = 0
    data: str = ""
    reduce: str = ""
    count: int = 0
    steps: tuple[Step, ...] = ()
    total: float | None = None
    access: Mapping[Pair, bool] = field(default_factory=dict, hash=False)

    @property
    def rate(self) -> float | None:
        """Images/s of all GPUs: the tool's total, else the mean at the last step that was printed."""
        return self.total if self.total is not None or not self.steps else self.steps[-1].rate

    @property
    def per_gpu(self) -> float | None:
        """Images/s of one GPU among all."""
        return None if self.rate is None or not self.count else self.rate / self.count


@dataclass(frozen=True)
class Check:
    """One test of a diagnostic on one part; ``words`` are the diagnostic's own about it."""

    suite: str
    name: str
    part: str
    status: Status
    words: str = ""


@dataclass(frozen=True)
class Burn:
    """What gpu-burn says of one GPU at its end, and what it had done by its last progress line (None: not told)."""

    index: int
    verdict: str
    work: int | None = None
    errors: str = ""
    died: bool = False


@dataclass(frozen=True)
class NodeResult:
    """SuperBench's metrics of one node; ``issues`` and ``category`` where it judged them itself."""

    node: str
    metrics: Mapping[str, float] = field(hash=False)
    category: str = ""
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Monitor:
    """Counters over some samples, by GPU: errors of memory at the first and the last sample, highest temperature."""

    samples: int
    uncorrected: Mapping[int, tuple[int, int]] = field(default_factory=dict, hash=False)
    corrected: Mapping[int, tuple[int, int]] = field(default_factory=dict, hash=False)
    temperatures: Mapping[int, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Sign:
    """A line that the field knows; ``count`` is how often such lines came."""

    signature: Signature
    line: str
    count: int = 1


@dataclass(frozen=True)
class Reading:
    """What one tool's output in one file gave."""

    tool: Tool
    source: str
    summary: str = ""
    devices: tuple[Device, ...] = ()
    grids: tuple[Grid, ...] = ()
    crowds: tuple[Crowd, ...] = ()
    access: Mapping[Pair, bool] = field(default_factory=dict, hash=False)
    host_rates: tuple[HostRate, ...] = ()
    collective: Collective | None = None
    training: Training | None = None
    checks: tuple[Check, ...] = ()
    burns: tuple[Burn, ...] = ()
    nodes: tuple[NodeResult, ...] = ()
    monitor: Monitor | None = None
    processes: tuple[Process, ...] = ()
    signs: tuple[Sign, ...] = ()
    system: Mapping[str, str] = field(default_factory=dict, hash=False)
    unread: tuple[Unread, ...] = ()

    def grid(self, quantity: Quantity, *, peers: bool | None, way: str = "write") -> Grid | None:
        """The table of that kind, or None."""
        wanted = (quantity, peers, way)
        return next((grid for grid in self.grids if (grid.quantity, grid.peers, grid.way) == wanted), None)


def plural(number: int, noun: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
