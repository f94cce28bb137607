"""First-failure evidence: what was seen when something failed, kept in the run's folder before anybody restarts the machine.

reports/RUN/evidence/bios-screen.png, boot-screen.png, boot-console.txt, boot-lc-log.txt
                    STAGE-kernel-log.txt, STAGE-pcie-errors.txt, STAGE-nvml.jsonl, STAGE-lc-log.txt, STAGE-console.txt
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.devices.console import Console
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.errors import BenchError, Blame
from harness.plugin.case import Case
from harness.procedures.bios import BiosStory
from harness.procedures.boot import BootStory
from harness.procedures.first_failure import take_from_bmc, take_from_console, take_from_host

FOLDER = "evidence"

_RUNNING = ("pcie", "gpu", "p2p", "resnet50")

MOST = 4 * 1024 * 1024
"""Bytes of one piece. A screenshot has some hundred kilobytes; of a text that is longer the end is kept."""


@dataclass
class Evidence:
    """The pieces by check. ``mask`` takes secrets out of a text."""

    mask: Callable[[str], str]
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def keep(self, run: Path, check: str, files: Mapping[str, bytes | str]) -> None:
        """Write each piece below the run's folder. Raises BenchError where the disk takes none."""
        for name, content in files.items():
            data = self.mask(content).encode()[-MOST:] if isinstance(content, str) else content
            if not data or len(data) > MOST:
                continue
            try:
                (run / FOLDER).mkdir(exist_ok=True)
                (run / FOLDER / name).write_bytes(data)
            except OSError as error:
                raise BenchError(f"cannot keep evidence in {run / FOLDER}: {error.strerror}; make room there") from None
            self._paths[check] = (*self._paths.get(check, ()), f"{FOLDER}/{name}")

    def of(self, check: str) -> tuple[str, ...]:
        """The paths of what was kept for a check, relative to the run's folder."""
        return self._paths.get(check, ())


@dataclass
class FirstFailures:
    """The first failure of each stage that looks at a running machine, and what to tell it apart from: what was there before.

    ``kernel_log`` are the lines that the stage pcie read, ``lc_baseline`` is the newest entry of the Lifecycle log as the run
    began, None where nobody looked.
    """

    kernel_log: Sequence[str] = ()
    lc_baseline: int | None = None
    _had: set[str] = field(default_factory=set)

    def is_one(self, case: Case) -> bool:
        """True for the product's first failure in such a stage; the others keep what they saw of a start. Asked once a case."""
        is_first = case.failed and case.blame == Blame.PRODUCT and case.stage in _RUNNING and case.stage not in self._had
        if is_first:
            self._had.add(case.stage)
        return is_first

    def take(self, stage: str, host: Host | None, idrac: Idrac | None, console: Console | None) -> dict[str, bytes | str]:
        """What host, iDRAC and console show now, by file name."""
        found: dict[str, str] = {}
        if host is not None:
            found |= take_from_host(host, self.kernel_log)
        if idrac is not None and self.lc_baseline is not None:
            found |= take_from_bmc(idrac, self.lc_baseline)
        if console is not None:
            found |= take_from_console(console)
        return {f"{stage}-{name}": content for name, content in found.items()}


def of_bios(story: BiosStory) -> dict[str, bytes | str]:
    """What a stage that stopped in POST has seen."""
    return {"bios-screen.png": story.screen.image, "bios-screen.txt": "\n".join(story.screen.told)}


def of_boot(story: BootStory) -> dict[str, bytes | str]:
    """What was seen of a boot that failed: screen, console, and the log since the reset."""
    log = "\n".join(f"{event} {event.severity} {event.text}" for event in story.events)
    console = "" if story.console is None else story.console.text
    return {"boot-screen.png": story.screen.image, "boot-console.txt": console, "boot-lc-log.txt": log}
