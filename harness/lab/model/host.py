"""The operating system of the modelled host, as ssh reaches it.

"agent pci ..." ─▶ pcie_host          "agent nvml|telemetry|p2p|resnet50 ..." ─▶ workers, or real_workers but for resnet50
cat, uname, dmesg, who ─▶ here
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from harness.clock import Clock
from harness.errors import BenchError, Timeout, Unreachable
from harness.lab.model import pcie_host, post, workers
from harness.lab.model.machine import Machine
from harness.lab.model.real_workers import WORKERS, RealWorkers
from harness.ports import CommandAnswer, CommandQuestion, OnLine

LATENCY = 0.3
"""Seconds that ssh takes to run a small command over an open connection: an assumption."""

LOGGED_IN = "carol    pts/0        2026-01-05 07:12 (192.0.2.9)"
"""Somebody at work on the machine, as ``who`` shows it."""

Lines: TypeAlias = Iterable[tuple[float, str]]
"""Output lines with the seconds since the command started."""


class ModelHost:
    """Commands on the modelled host. ``real`` runs the GPU workers as processes; without it they are modelled."""

    def __init__(self, clock: Clock, machine: Machine, real: RealWorkers | None = None) -> None:
        self._clock = clock
        self._machine = machine
        self._real = real

    def ask(self, question: CommandQuestion, on_line: OnLine | None = None) -> CommandAnswer:
        """Run a command.

        Raises Unreachable while no operating system answers, Timeout where its output takes too long, and BenchError for a command
        that is not modelled: a real host may well have it, so an answer would say something about a machine that nobody has.
        """
        started = self._clock.now()
        self._clock.sleep(LATENCY)
        if not self._machine.os_is_up or not self._machine.is_reachable:
            raise Unreachable(f"{post.HOST_NAME}: connection refused")
        output = self._output(question, shlex.split(question.key))
        if output is None:
            raise BenchError(
                f"the modelled host does not know the command `{question.key}`: it is not modelled, so a check that needs it runs "
                "on real machines only"
            )
        lines: list[str] = []
        for offset, line in output:
            if LATENCY + offset > question.timeout:
                self._clock.sleep(started + question.timeout - self._clock.now())
                raise Timeout(question.key, question.timeout, lines[-1] if lines else None)
            self._clock.sleep(started + LATENCY + offset - self._clock.now())
            lines.append(line)
            if on_line is not None:
                on_line(line, self._clock.now())
        now = self._clock.now()
        return CommandAnswer(0, "".join(f"{line}\n" for line in lines), "", now, now - started)

    def close(self) -> None:
        """Nothing is held open."""

    def _output(self, question: CommandQuestion, words: Sequence[str]) -> Lines | None:
        """What a command prints, or None where it is not modelled."""
        machine = self._machine
        match words:
            case ["agent", "pci", *arguments]:
                return pcie_host.answer(machine.view(), arguments)
            case ["agent", worker, *_] if self._real is not None and worker in WORKERS:
                return self._real.answer(question, worker, machine.view())
            case ["agent", worker, *arguments]:
                return workers.answer(worker, arguments, machine.view())
            case ["watch-links", count, every]:
                return pcie_host.watched(machine.view(), int(count), float(every))
            case ["dmesg", *_]:
                return _at_once(*pcie_host.kernel_log(machine.view()))
            case _:
                plain = {
                    ("cat", "/proc/sys/kernel/random/boot_id"): machine.boot_id,
                    ("cat", "/proc/cmdline"): pcie_host.command_line(machine.faults),
                    ("cat", "/proc/uptime"): f"{machine.now - (machine.os_started or 0.0):.2f} 0.00",
                    ("uname", "-r"): post.KERNEL_RELEASE,
                    ("hostname",): post.HOST_NAME,
                    ("id", "-u"): "0",
                    ("who",): LOGGED_IN if "bios.preflight-lc.occupied" in machine.faults else "",
                    ("true",): "",
                }
                answer = plain.get(tuple(words))
                return None if answer is None else _at_once(*answer.splitlines())


def _at_once(*lines: str) -> Lines:
    return [(0.0, line) for line in lines]
