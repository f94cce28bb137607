"""Watching power, temperature and clocks of all GPUs with the worker ``telemetry``.

The worker ``telemetry [--seconds S] [--every S]`` prints, one JSON object a line (schema 1):

    {"kind":"hello","worker":"telemetry","schema":1,"python":"3.6.8"}
    {"kind":"sample","at":0.2,"index":0,"reasons":1,"power":28.1,"temperature":31}      "at": seconds since its start
    {"kind":"error", ...} and {"kind":"end","lines":N} as everywhere
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.devices.fields import Lines
from harness.devices.gpu.facts import Reason
from harness.devices.host import Host
from harness.errors import BenchError
from harness.ports import OnLine

SCHEMA = 1


@dataclass(frozen=True)
class Sample:
    """One GPU at one moment: seconds since the start, watts, degrees Celsius; None where the driver gives nothing."""

    at: float
    index: int
    reasons: Reason | None = None
    power: float | None = None
    temperature: int | None = None


def watch_gpus(host: Host, *, seconds: float = 10.0, every: float = 0.2, on_line: OnLine | None = None) -> tuple[Sample, ...]:
    """Samples of every GPU for ``seconds``. Raises BenchError where NVML does not work."""
    options = ("--seconds", f"{seconds:g}", "--every", f"{every:g}")
    lines = Lines.of("telemetry", host.agent("telemetry", *options, timeout=seconds + 60.0, on_line=on_line), SCHEMA)
    if lines.trouble:
        raise BenchError(lines.trouble)
    samples = []
    for fields in lines.every("sample"):
        reasons = fields.maybe_integer("reasons")
        samples.append(
            Sample(
                fields.number("at"),
                fields.integer("index"),
                None if reasons is None else Reason(reasons),
                fields.maybe_number("power"),
                fields.maybe_integer("temperature"),
            )
        )
    return tuple(samples)


def share_of_reasons(samples: Sequence[Sample]) -> Mapping[int, Mapping[str, float]]:
    """By GPU index, the share of its samples (0 to 1) in which each reason was active; reasons never seen are left out."""
    told: dict[int, list[Reason]] = {}
    for sample in samples:
        if sample.reasons is not None:
            told.setdefault(sample.index, []).append(sample.reasons)
    shares: dict[int, dict[str, float]] = {}
    for index, seen in told.items():
        names = [name for reasons in seen for name in reasons.names]
        shares[index] = {name: names.count(name) / len(seen) for name in sorted(set(names))}
    return shares
