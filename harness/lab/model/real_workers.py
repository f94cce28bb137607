"""The agent's own GPU workers as processes on this computer, on driver libraries that stand for the modelled machine's.

    ask ─▶ world file (driver, switch, bus, UUID, serial of each GPU) + /sys as files ─▶ python -c ... worker ─▶ lines as they come

What runs is the payload that would travel to hardware, with the real nvidia-ml-py and cuda-bindings. Only the libraries below them
are not NVIDIA's: ``libcuda.so.1`` and ``libnvidia-ml.so.1`` of a folder that is given, which read the file that FAKE_WORLD names.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer

from harness.clock import Clock, WallClock
from harness.errors import BenchError, UsageMistake
from harness.lab.model.cards import cards
from harness.lab.model.driver import DRIVER_VERSION
from harness.lab.model.parts import View
from harness.lab.model.pcie_host import write_tree
from harness.ports import CommandQuestion

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
WORKERS = ("nvml", "telemetry", "p2p")
"""What such libraries can answer; training needs a GPU, or torch on the processor."""

P2P_SIZE = 4 << 20
"""Bytes of the largest copy instead of 256 MiB: all memories of the machine are this computer's, and so is the time to copy."""

_SYSTEM = 50
_CUDA = 12020


class RealWorkers:
    """Runs workers. ``libraries`` is the folder with both driver libraries."""

    def __init__(self, libraries: Path, clock: Clock | None = None) -> None:
        self._libraries = libraries
        self._clock = clock or WallClock()

    def check(self) -> None:
        """Raises UsageMistake where the folder lacks a library."""
        for name in LIBRARIES:
            if not (self._libraries / name).is_file():
                raise UsageMistake(
                    f"{self._libraries} has no {name}: build both with `python tests/fakes/build.py FOLDER` in a clone"
                )

    def answer(self, question: CommandQuestion, worker: str, view: View) -> Iterator[tuple[float, str]]:
        """The worker's lines as they come, with the seconds since its start. Raises BenchError where it does not end well."""
        started = self._clock.now()
        with TemporaryDirectory(prefix="bringup-workers-") as folder, TemporaryFile() as errors:
            root = Path(folder)
            write_tree(view, root)
            (root / "world").write_text(world_of(view), encoding="ascii")
            more = ("--root", folder, "--size", str(P2P_SIZE)) if worker == "p2p" else ()
            with subprocess.Popen(  # noqa: S603 - this Python, with the payload that the harness made
                (sys.executable, *question.argv[1:], *more),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=self._environment(root), start_new_session=True,
            ) as process:  # fmt: skip
                killer = Timer(question.timeout, process.kill)
                killer.start()
                try:
                    for line in _talk(process, question.stdin):
                        yield self._clock.now() - started, line
                    process.wait()
                finally:
                    killer.cancel()
                    process.kill()
            if process.returncode:
                errors.seek(0)
                tail = "".join(errors.read().decode("utf-8", "backslashreplace").strip().splitlines()[-1:])
                late = f"did not end in {question.timeout:g} s"
                why = late if process.returncode < 0 else f"ended with {process.returncode}: {tail}"
                raise BenchError(f"{question.key}: the worker {why}")

    def _environment(self, root: Path) -> Mapping[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "LD_LIBRARY_PATH": str(self._libraries),
            "FAKE_WORLD": str(root / "world"),
            "FAKE_STATE": str(root / "state"),
        }


def _talk(process: subprocess.Popen[bytes], given: bytes) -> Iterator[str]:
    """Give the process its input, and take its lines as they come."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(given)
        process.stdin.close()
    for line in process.stdout:
        yield line.decode("utf-8", "backslashreplace").rstrip("\n")


def world_of(view: View) -> str:
    """The file for the libraries: versions and the level of GPUs without a common switch, then a line for each GPU."""
    listed = cards(view)
    switches = list(dict.fromkeys(card.group for card in listed))
    lines = [f"{DRIVER_VERSION} {_CUDA} {_SYSTEM}"]
    lines += [f"{switches.index(card.group)} {card.address[5:7]} {card.gpu.uuid} {card.gpu.serial}" for card in listed]
    return "\n".join(lines) + "\n"


def origins(workers: Sequence[str], *, real: bool) -> dict[str, str]:
    """Where the answers of each worker come from, in words, for whoever reads the recording."""
    known = {"pci": "the real worker, on the modelled machine's /sys"}
    if real:
        bindings = f"nvidia-ml-py {_version('nvidia-ml-py')}, cuda-bindings {_version('cuda-bindings')}"
        known |= dict.fromkeys(WORKERS, f"the real worker with {bindings}, on driver libraries without hardware")
    return {f"agent {worker}": known.get(worker, "modelled: no worker ran") for worker in ("pci", *workers)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
