"""Training with PyTorch: one process a GPU, and their lines made into one account.

hello ─ gpu... ─ progress | solo ... ─ progress | window ... ─ rank... ─ allreduce ─ transport ─ (telemetry ─ link)...
                        └─ some loss not finite: untried                                   xid: as it comes
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Dict, Iterator, List

from ..trouble import Trouble
from .crew import Crew
from .observer import Name, Observer
from .options import CPU_RANKS, Options, choose_batch, choose_precision

Line = Dict[str, Any]

_DRIVER = "/sys/module/nvidia/version"


def train(options: Options) -> Iterator[Line]:
    """All lines of a run. Raises Trouble where PyTorch or a GPU is missing, or a rank ends early."""
    with orderly_ends(), Observer(wanted=is_watched(options)) as observer:
        ranks = count_ranks(options)
        with Crew(ranks, rank_environment(options)) as crew:
            account = Account(options, crew, observer)
            try:
                for rank, said in crew.listen():
                    yield from account.take(rank, said)
                    yield from observer.news()
                    if account.is_over:
                        break
            except Trouble:
                # an Xid says why a rank ended
                yield from observer.news(is_last=True)
                raise
            if not account.is_over:
                yield from account.close()
            yield from observer.close()


def is_watched(options: Options) -> bool:
    """Are there GPUs to watch?"""
    return options.device == "cuda"


class Account:
    """What all ranks said, made into the lines of the worker."""

    def __init__(self, options: Options, crew: Crew, observer: Observer) -> None:
        self.is_over = False
        self._observer = observer
        self._options = options
        self._crew = crew
        self._said: Dict[str, Dict[int, Line]] = {}

    def take(self, rank: int, said: Line) -> Iterator[Line]:
        """The lines that one line of a rank leads to."""
        kind = said["kind"]
        if kind == "progress":
            yield {"kind": kind, "stage": said["stage"], "done": said["done"], "of": said["of"]}
        elif kind == "window":
            yield {"kind": kind, "number": said["number"], "rate": round(said["rate"], 2), "loss": said["loss"]}
        else:
            told = self._said.setdefault(kind, {})
            told[rank] = said
            if kind == "ready":
                yield from self._ready(len(told) == self._crew.ranks)
            elif kind == "solo":
                yield from self._solo(rank, said)

    def close(self) -> Iterator[Line]:
        """The lines about all ranks, after the last one is done."""
        for rank, said in self._all("rank"):
            yield {"kind": "rank", "rank": rank, "index": rank, "hash": said["hash"], "bad_step": said["bad_step"]}
        if self._crew.ranks < 2:
            yield {"kind": "untried", "why": "one device alone: there is nobody to exchange gradients with"}
            return
        sums = self._all("sums")
        wrong_ranks = [rank for rank, said in sums if said["wrong"]]
        wrong = sum(said["wrong"] for _, said in sums)
        elements = sums[0][1]["elements"]
        yield {"kind": "allreduce", "ranks": len(sums), "elements": elements, "wrong": wrong, "wrong_ranks": wrong_ranks}
        told = [said for _, said in self._all("transport")]
        ways = {way: sum(said[way] for said in told) for way in ("p2p", "shm", "net")}
        yield dict({"kind": "transport"}, backend=told[0]["backend"], **ways)

    def _ready(self, complete: bool) -> Iterator[Line]:
        yield {"kind": "progress", "stage": "start", "done": len(self._said["ready"]), "of": self._crew.ranks}
        if not complete:
            return
        plan = make_plan(self._options, [said for _, said in self._all("ready")])
        first = self._said["ready"][0]
        yield dict(
            {"kind": "hello", "worker": "resnet50", "schema": 1, "framework": "pytorch", "precision": plan["precision"]},
            compiler=plan["compiler"], batch=plan["batch"], size=plan["size"], steps=plan["steps"], data="synthetic",
            device=self._options.device, driver=driver_version(), versions=first["versions"],
        )  # fmt: skip
        for rank, said in self._all("ready"):
            yield {
                "kind": "gpu",
                "index": rank,
                "rank": rank,
                "address": said["address"],
                "uuid": said["uuid"],
                "name": said["name"],
            }
        self._observer.meet({rank: Name(said["address"], said["uuid"]) for rank, said in self._all("ready")})
        self._crew.tell(plan)

    def _solo(self, rank: int, said: Line) -> Iterator[Line]:
        solos = self._said["solo"]
        rate = None if said["rate"] is None else round(said["rate"], 2)
        yield dict(
            {"kind": "solo", "index": rank, "rate": rate, "hash": said["hash"], "first_loss": said["first_loss"]},
            loss=said["loss"], bad_step=said["bad_step"],
        )  # fmt: skip
        yield {"kind": "progress", "stage": "solo", "done": len(solos), "of": self._crew.ranks}
        if len(solos) < self._crew.ranks:
            return
        bad = ", ".join("rank {} at step {}".format(*found) for found in self._bad_solos())
        if bad:
            self.is_over = True
            yield {"kind": "untried", "why": "alone, {} got a loss or gradient that is not finite".format(bad)}
        else:
            self._crew.tell({"go": True})

    def _bad_solos(self) -> List[Any]:
        return [(rank, said["bad_step"]) for rank, said in self._all("solo") if said["bad_step"] is not None]

    def _all(self, kind: str) -> List[Any]:
        return sorted(self._said[kind].items())


def count_ranks(options: Options) -> int:
    """One rank a GPU. Raises Trouble where PyTorch or a GPU is missing, or fewer are there than asked for."""
    if find_spec("torch") is None:
        do = "install torch for it, or name a Python or a container that has it (host.python, host.wrapper in the bench file)"
        raise Trouble("PyTorch", "there is no module torch in {}".format(sys.executable), do)
    if options.device == "cpu":
        return options.ranks or CPU_RANKS
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        do = "see what the gpu stage says; --device cpu trains on the processor"
        raise Trouble("GPU", "PyTorch {} finds none that it can use".format(torch.__version__), do)
    if options.ranks > found:
        raise Trouble("GPU", "{} ranks were asked for, PyTorch finds {} GPUs".format(options.ranks, found), "")
    return options.ranks or found


def make_plan(options: Options, ready: List[Line]) -> Line:
    """What all ranks do, chosen so that the weakest of them can."""
    compiler = options.compiler
    if compiler == "auto":
        compiler = "inductor" if all(said["can_compile"] for said in ready) else "none"
    precision = choose_precision(options.precision, [tuple(said["capability"]) for said in ready])
    batch = choose_batch(options, [said["memory"] for said in ready])
    return {
        "precision": precision, "compiler": compiler, "batch": batch, "size": options.pixels,
        "windows": options.windows, "steps": options.steps,
    }  # fmt: skip


def rank_environment(options: Options) -> Dict[str, str]:
    """What the ranks find in their environment: GPUs in the order of their addresses, determinism, talk over loopback only."""
    environment = dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUBLAS_WORKSPACE_CONFIG=":4096:8", NCCL_DEBUG="INFO")
    environment["RESNET50_DEVICE"] = options.device
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    environment.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if options.device == "cpu":
        environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


@contextlib.contextmanager
def orderly_ends() -> Iterator[None]:
    """While it lasts, a signal that ends this process ends it by way of every ``finally``: no rank and no folder is left."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def driver_version() -> str:
    """The kernel module's version, or nothing where none is loaded."""
    try:
        return Path(_DRIVER).read_text(encoding="ascii").strip()
    except OSError:
        return ""
