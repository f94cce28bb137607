"""``bringup smoke resnet50``: training on the machine one sits at, without a bench: what it is, how far, what came of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.cli.streams import show
from harness.clock import WallClock
from harness.devices.fields import progress_of
from harness.devices.host import Host
from harness.devices.resnet50 import Report, run_resnet50
from harness.errors import UsageMistake
from harness.limits import Outcome
from harness.live.local import LocalCommands
from harness.platform import Resnet50
from harness.procedures.finding import Finding
from harness.procedures.resnet50 import judge_alone, name_devices

CPU_WINDOWS, GPU_WINDOWS = 5, 12
CPU_STEPS, GPU_STEPS = 3, 10

_HOUR = 3600.0


@dataclass(frozen=True)
class Wish:
    """What was asked for on the command line; 0 and empty where the choice is left to the worker."""

    device: str = "cuda"
    framework: str = "pytorch"
    ranks: int = 0
    windows: int = 0
    steps: int = 0
    batch: int = 0
    python: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The worker's arguments beside the windows."""
        steps = self.steps or (CPU_STEPS if self.device == "cpu" else GPU_STEPS)
        said = ["--device", self.device, "--framework", self.framework, "--steps", str(steps)]
        said += ["--ranks", str(self.ranks)] if self.ranks else []
        said += ["--batch", str(self.batch)] if self.batch else []
        return tuple(said)


def train_here(wish: Wish) -> int:
    """Train on this machine, show progress and judge. The exit status: 0 nothing is wrong, 1 a device is.

    Raises UsageMistake for a wish that cannot be meant, BenchError where a framework or device is missing or a rank ended early.
    """
    _refuse_the_meaningless(wish)
    _say(headline(wish))
    clock = WallClock()
    commands = LocalCommands(clock)
    began = clock.now()
    try:
        host = Host(commands, clock, python=wish.python or sys.executable)
        windows = wish.windows or (CPU_WINDOWS if wish.device == "cpu" else GPU_WINDOWS)
        report = run_resnet50(host, *wish.options, windows=windows, timeout=_HOUR, on_line=_show_progress)
    finally:
        commands.close()
    findings = judge_alone(report, Resnet50(floor=()))
    for line in describe(report, findings):
        _say(line)
    failed = sum(_is_failed(finding) for _, finding in findings)
    verdict = f"FAILED: {failed} of {len(findings)} checks" if failed else "PASSED: every check that this machine can be held to"
    _say(f"{verdict}; {clock.now() - began:.0f} s")
    return 1 if failed else 0


def headline(wish: Wish) -> str:
    """What this is and on what, in one line."""
    where = "the processor of this machine; no GPU takes part" if wish.device == "cpu" else "the GPUs of this machine"
    return f"ResNet-50 smoke test, {wish.framework}, LIVE on {where}; a qualification is `bringup run`"


def describe(report: Report, findings: Sequence[tuple[str, Finding]]) -> Iterator[str]:
    """The result and what was judged, a line each."""
    yield f"software  {report.identity.details}"
    if report.total is not None and report.median_per_gpu is not None:
        names = name_devices(report)
        alone = ", ".join(f"{names[solo.index]} {solo.rate:.1f}" for solo in report.solos if solo.rate is not None)
        scaling = "" if report.efficiency is None else f", {report.efficiency:.0%} of {len(report.gpus)} times one alone"
        yield f"rate      {report.total:.1f} images/s in all, {report.median_per_gpu:.1f} by device{scaling}"
        yield f"alone     {alone or 'no rate'} images/s"
        yield f"windows   {', '.join(f'{window.rate:.1f}' for window in report.windows)} images/s"
    if report.transport is not None:
        yield f"exchange  {report.transport}"
    for check, finding in findings:
        yield f"{check:24} {_word(finding)}"
        yield from (f"    {measured}" for measured in finding.measurements if measured.outcome is Outcome.FAIL)
        yield from (f"    {line}" for line in (finding.explanation or finding.unmeasured).splitlines())


def _word(finding: Finding) -> str:
    if _is_failed(finding):
        return "FAIL"
    if any(measured.limit is not None for measured in finding.measurements):
        return "PASS"
    return "not judged"


def _is_failed(finding: Finding) -> bool:
    return bool(finding.explanation) or any(measured.outcome is Outcome.FAIL for measured in finding.measurements)


def _show_progress(line: str, _at: float) -> None:
    if done := progress_of(line):
        _say(f"  {done}")


def _say(line: str) -> None:
    if error := show(f"{line}\n"):
        raise error


def _refuse_the_meaningless(wish: Wish) -> None:
    for name, given, known in (
        ("--device", wish.device, ("cuda", "cpu")),
        ("--framework", wish.framework, ("pytorch", "tensorflow")),
    ):
        if given not in known:
            raise UsageMistake(f"{name} {given}: {' or '.join(known)}")
    for name, number in (("ranks", wish.ranks), ("windows", wish.windows), ("steps", wish.steps), ("batch", wish.batch)):
        if number < 0:
            raise UsageMistake(f"--{name} {number}: it must be at least 1")
