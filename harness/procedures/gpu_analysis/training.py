"""ResNet-50 logs as the facts of the resnet50 stage, judged by its judges: floor, scaling, steadiness, finite numbers.

    logs of one software (framework, version, precision, compiler, batch) on one kind of GPU
    ├─ one GPU ────── how fast one is alone: the solo runs of all others
    └─ several GPUs ─ total, per GPU, efficiency against the solo run, spread of ten-step windows

Lines of the log are means over all steps so far; the rate of a window between two of them follows from both. A loss that rises from
one window to the next is nothing: 119 of 420 windows of healthy runs do (lambdal/lambda-tensorflow-benchmark).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.devices.gpu_reports.facts import Reading, Training
from harness.devices.pcie import Unread
from harness.devices.resnet50 import Identity, RankGpu, Report, Solo, Window
from harness.limits import Outcome
from harness.platform import Resnet50
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.finding import Finding
from harness.procedures.gpu_analysis.known_lines import TOO_MANY
from harness.procedures.resnet50 import (
    judge_efficiency,
    judge_finite,
    judge_floor,
    judge_spread,
    name_devices,
)

_ADVICE = {
    "spread": (
        "a rate that swings: throttling, a loader, somebody else on the host, or ranks that wait for each other",
        "look at clocks and temperatures while it trains, and at the way gradients are summed",
    ),
    "efficiency": (
        "the all-reduce does not overlap with the rest: its transport (P2P or SHM), a straggler, or the software",
        "train every GPU alone and compare; read NCCL_DEBUG=INFO for the transport",
    ),
    "floor": ("see above", "compare the software's identity first, then every GPU alone"),
    "nan": (
        "overflow of half precision, or wrong bytes between GPUs: a loss scale cannot mend those",
        "compare bytes of every pair (the p2p stage); look for Xids and at power cables; swap two cards and see what follows",
    ),
}
_NO_XLA = (
    "fp16 without XLA: eight RTX 8000 scaled to 53 % so, and to 97 % with XLA (lambdal/lambda-tensorflow-benchmark): "
    "the software path, not a part"
)


@dataclass(frozen=True)
class Run:
    """One log as the stage's facts, with what the tool itself says."""

    reading: Reading
    training: Training
    report: Report


def runs_of(readings: Iterable[Reading], driver: str = "") -> tuple[Run, ...]:
    """All logs, each with the solo runs of its own software and GPU."""
    logs = [(reading, reading.training) for reading in readings if reading.training is not None]
    solos: dict[tuple[str, ...], list[Solo]] = {}
    for reading, training in logs:
        if training.count == 1 and training.steps:
            alike = solos.setdefault(_software(reading, training), [])
            alike.append(Solo(len(alike), training.rate, loss=training.steps[-1].loss))
    return tuple(Run(reading, training, _report(reading, training, solos, driver)) for reading, training in logs)


def judge_run(run: Run, limits: Resnet50) -> Iterator[Diagnosis]:
    """What is wrong with one run."""
    report, places = run.report, name_devices(run.report)
    checks = {
        "nan": judge_finite(report, places),
        "spread": judge_spread(report, limits.spread),
        "floor": judge_floor(report, places, limits.floors, run.training.count),
    }
    if run.training.count > 1 and report.solos:
        checks["efficiency"] = judge_efficiency(report, limits.efficiency)
    for name, finding in checks.items():
        if finding.explanation or any(taken.outcome is Outcome.FAIL for taken in finding.measurements):
            yield _diagnosis(name, finding, run)
    if run.training.total is None:
        yield _cut_off(run)


def gaps_of(run: Run, limits: Resnet50) -> Iterator[Unread]:
    """What the log cannot tell, and so what was not judged."""
    training, source = run.training, run.reading.source
    if not training.precision:
        yield Unread(
            f"{source}: the precision",
            "the log does not say it",
            "keep the command line in the log, or fp16 or fp32 in the file's name",
        )
    floor = judge_floor(run.report, {}, limits.floors, training.count)
    if floor.unmeasured:
        known = "" if limits.floors else "; name a platform with --platform"
        yield Unread(f"{source}: a floor", f"{floor.unmeasured}{known}")
    if training.count > 1 and not run.report.solos:
        yield Unread(f"{source}: scaling", "no log of one GPU with the same software", "add that log")
    spread = judge_spread(run.report, limits.spread)
    if spread.unmeasured:
        yield Unread(f"{source}: steadiness", spread.unmeasured)


def _software(reading: Reading, training: Training) -> tuple[str, ...]:
    names = sorted({device.name for device in reading.devices if device.name})
    words = (training.model, training.version, training.precision, training.compiler, str(training.batch), training.data)
    return (*words, *names)


def _report(reading: Reading, training: Training, solos: Mapping[tuple[str, ...], Sequence[Solo]], driver: str) -> Report:
    alone = solos.get(_software(reading, training), ())
    addresses = {device.index: device.address for device in reading.devices}
    return Report(
        identity=Identity(
            "tensorflow",
            training.precision,
            training.compiler,
            training.batch,
            training.data,
            driver,
            {"tensorflow": training.version} if training.version else {},
        ),
        gpus=tuple(RankGpu(index, index, addresses.get(index, ""), "") for index in range(training.count)),
        solos=tuple(alone) if training.count > 1 else (),
        windows=windows_of(training),
    )


def windows_of(training: Training) -> tuple[Window, ...]:
    """The windows between the lines of the log, without the first: it holds the first steps."""
    found: list[Window] = []
    for before, after in pairwise(training.steps[1:]):
        seconds = after.number / after.rate - before.number / before.rate
        if seconds > 0:
            found.append(Window(len(found) + 1, (after.number - before.number) / seconds, after.loss))
    return tuple(found)


def _diagnosis(name: str, finding: Finding, run: Run) -> Diagnosis:
    first, *rest = (finding.explanation or _violated(finding)).splitlines()
    cause, do = _ADVICE[name]
    identity = run.report.identity
    if name in ("spread", "efficiency") and (identity.precision, identity.compiler) == ("fp16", "none") and run.training.count > 1:
        cause, do = _NO_XLA, "train again with XLA (--xla) before looking at parts"
    total = run.training.total
    return Diagnosis(
        Severity.FAIL,
        f"resnet50.{name}",
        _where(run),
        first,
        "" if total is None else f"total images/sec: {total:g}",
        run.reading.source,
        cause,
        do,
        then=tuple(line for line in rest if line),
    )


def _violated(finding: Finding) -> str:
    return "\n".join(
        f"{taken.name} {taken.value} violates {taken.limit}" for taken in finding.measurements if taken.outcome is Outcome.FAIL
    )


def _cut_off(run: Run) -> Diagnosis:
    last = run.training.steps[-1].number if run.training.steps else 0
    hint = f"; {TOO_MANY}" if run.training.count > 9 else ""
    return Diagnosis(
        Severity.WARN,
        "cut-off",
        _where(run),
        f"the log ends {f'after step {last}' if last else 'before the first step'}, without a total",
        "",
        run.reading.source,
        f"the run hung, crashed or was killed; or the file was cut{hint}",
        "read what stands at its end, and the kernel log of that time",
    )


def _where(run: Run) -> str:
    return f"{run.training.model or 'training'} on {run.training.count} GPU{'s' * (run.training.count != 1)}, {run.report.identity}"
