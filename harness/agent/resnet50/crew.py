"""The rank processes of one run: started together, listened to, and ended together whatever happens.

    start ─> plan sent ─> lines come ─> every rank said "done" ─> all ended
                              └─ one dies, says trouble, or all are silent ─> the others are killed, and Trouble names it

A rank ends by itself when this process does: its standard input closes then. Nothing of a run is left but the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Tuple

from ..trouble import Trouble

PATIENCE_SECONDS = 900.0
"""A run in which no rank says anything for so long is given up; the longest silence of a healthy one is its compilation."""

_FAREWELL_SECONDS = 5.0
_TAIL = 300

Said = Tuple[int, Dict[str, Any]]


class Crew:
    """The ranks of one run; a context that ends them all. ``heard`` holds the last kind of line of each."""

    def __init__(self, ranks: int, environment: Dict[str, str]) -> None:
        self.ranks = ranks
        self.heard = ["its start"] * ranks
        self._environment = environment
        self._folder: "tempfile.TemporaryDirectory[str] | None" = None
        self._processes: List["subprocess.Popen[bytes]"] = []
        self._finished: List[bool] = [False] * ranks

    def __enter__(self) -> "Crew":
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="resnet50-")
            for rank in range(self.ranks):
                self._processes.append(self._start(rank))
        except OSError as error:
            self.end()
            raise Trouble("rank processes", "they cannot be started: {}".format(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def pids(self) -> List[int]:
        """The process of each rank."""
        return [process.pid for process in self._processes]

    def tell(self, plan: Dict[str, Any]) -> None:
        """Send every rank one object."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # it died, and listening says so
                process.stdin.write(json.dumps(plan).encode() + b"\n")

    def listen(self) -> Iterator[Said]:
        """Every line of every rank as it comes, with its rank, until all are done. Raises Trouble where one ends early."""
        with selectors.DefaultSelector() as selector:
            rests = {}
            for rank, process in enumerate(self._processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, rank)
                rests[rank] = b""
            while selector.get_map():
                ready = selector.select(PATIENCE_SECONDS)
                if not ready:
                    raise self._silence()
                for key, _ in ready:
                    piece = os.read(key.fd, 65536)
                    if not piece:
                        selector.unregister(key.fileobj)
                        if not self._finished[key.data]:
                            raise self._early_end(key.data)
                    *lines, rests[key.data] = (rests[key.data] + piece).split(b"\n")
                    yield from self._said(key.data, lines)

    def end(self) -> None:
        """Kill what still runs and remove the folder. Twice is harmless."""
        for process in self._processes:
            if process.poll() is None and not self._is_leaving(process):
                process.kill()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                _close(pipe)
            with contextlib.suppress(subprocess.TimeoutExpired):  # one may hang in the kernel, as a wedged copy does
                process.wait(_FAREWELL_SECONDS)
        if self._folder is not None:
            self._folder.cleanup()

    def _is_leaving(self, process: "subprocess.Popen[bytes]") -> bool:
        """A rank that is done is given the time to close its device."""
        if not self._finished[self._processes.index(process)]:
            return False
        try:
            process.wait(_FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _start(self, rank: int) -> "subprocess.Popen[bytes]":
        environment = dict(self._environment, RANK=str(rank), WORLD_SIZE=str(self.ranks), RESNET50_FOLDER=str(self._private()))
        environment["NCCL_DEBUG_FILE"] = str(self._private("nccl.%p.log"))
        with self._private("rank{}.err".format(rank)).open("wb") as errors:
            return subprocess.Popen(
                rank_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0, env=environment
            )

    def _said(self, rank: int, lines: List[bytes]) -> Iterator[Said]:
        for line in lines:
            said = json.loads(line.decode("utf-8"))
            if said["kind"] == "trouble":
                raise self._blame(rank, Trouble(said["what"], said["why"], said["do"]))
            self._finished[rank] = self._finished[rank] or said["kind"] == "done"
            self.heard[rank] = said["kind"]
            yield rank, said

    def _early_end(self, rank: int) -> Trouble:
        return self._blame(rank, None)

    def _blame(self, rank: int, trouble: "Trouble | None") -> Trouble:
        """The trouble of the rank that went first: one that a signal killed pulls the others down, which then complain of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[rank].wait(_FAREWELL_SECONDS)
        for other, process in enumerate(self._processes):
            status = process.poll()
            if status is not None and status < 0:
                return self._death(other, status)
        return trouble or self._death(rank, self._processes[rank].poll())

    def _death(self, rank: int, status: "int | None") -> Trouble:
        what, after = "rank {}".format(rank), "after {}".format(self.heard[rank])
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            hint = "see dmesg for the out-of-memory killer and for Xid lines"
            return Trouble(what, "its process was ended by {} {}".format(name, after), hint)
        tail = self._tail(rank)
        said = ": {}".format(tail) if tail else ""
        return Trouble(what, "its process ended early (exit status {}) {}{}".format(status, after, said))

    def _silence(self) -> Trouble:
        last = ", ".join("rank {} after {}".format(rank, kind) for rank, kind in enumerate(self.heard) if not self._finished[rank])
        return Trouble("ranks", "none has said anything for {:g} s: {}".format(PATIENCE_SECONDS, last), "see dmesg for Xid lines")

    def _private(self, name: str = "") -> Path:
        """A file in the folder that goes with the crew."""
        assert self._folder is not None
        return Path(self._folder.name) / name

    def _tail(self, rank: int) -> str:
        text = self._private("rank{}.err".format(rank)).read_text(encoding="utf-8", errors="backslashreplace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_TAIL] if lines else ""


def rank_command() -> List[str]:
    """What starts a rank: the same Python with this package, which may lie in a zip that has no name."""
    package = (__package__ or "").split(".")
    root = Path(__file__).parents[len(package)]
    program = "import sys; sys.path.insert(0, {!r}); from {} import rank; rank.main()".format(str(root), ".".join(package))
    return [sys.executable, "-B", "-c", program]


def _close(pipe: "IO[bytes] | None") -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()
