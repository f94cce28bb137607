"""One rank: a process of its own with one device, which says in JSON lines what it does.

    ready ─> (plan arrives) ─> solo ─> (go arrives) ─> progress, window ... ─> rank ─> sums, transport ─> done
       └──────────────────────────── trouble, from anywhere ────────────────────────────┘

What it says goes to the pipe that was its standard output; what libraries print goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import platform
import queue
import shutil
import sys
import threading
import traceback
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Dict, List

import torch
import torch.distributed as dist

from ..trouble import Trouble
from .exchange import ELEMENTS, count_channels, wrong_sums
from .training import Setup, Trainer, hash_of, study

WARM_SECONDS = {"cuda": 60.0, "cpu": 6.0}
"""Seconds of warm-up, by device, after which a run that is not steady is measured as it is: the spread of its windows tells.

A processor's rates are not judged, and a shared one is hardly ever steady.
"""

_STEADY = 0.02
_SOLO_WINDOWS = 3
_GROUP_TIMEOUT = timedelta(minutes=10)


class Rank:
    """This process, its device, and the pipe that it speaks into."""

    def __init__(self, voice: int, orders: int) -> None:
        self.number = int(os.environ["RANK"])
        self.ranks = int(os.environ["WORLD_SIZE"])
        self.folder = Path(os.environ["RESNET50_FOLDER"])
        self._voice = voice
        self._orders = orders
        self._heard: "queue.Queue[bytes]" = queue.Queue()

    def say(self, kind: str, **fields: Any) -> None:
        """One line, whole, at once."""
        line = json.dumps(dict(fields, kind=kind, rank=self.number)).encode() + b"\n"
        while line:
            line = line[os.write(self._voice, line) :]

    def work(self, device: Any) -> None:
        """The whole of it, to ``done``."""
        threading.Thread(target=self._listen, daemon=True).start()
        self.say("ready", **facts_of(device))
        plan = self._hear()
        setup = Setup(device, plan["precision"], plan["compiler"], plan["batch"], plan["size"])
        self._alone(setup, plan["steps"])
        self._hear()
        if self.ranks > 1:
            self._join(setup)
        self._together(setup, plan["windows"], plan["steps"])
        self.say("done")

    def _alone(self, setup: Setup, steps: int) -> None:
        learned = study(setup)
        if learned.bad_step is not None:
            self.say("solo", rate=None, hash=learned.hash, first_loss=learned.first, loss=learned.last, bad_step=learned.bad_step)
            return
        trainer = Trainer(setup, together=False)
        _warm_up(trainer, steps, self.number, together=False)
        rates: List[float] = [trainer.stretch(steps).rate for _ in range(_SOLO_WINDOWS)]
        rate, bad_step = sorted(rates)[len(rates) // 2], trainer.bad_step
        self.say("solo", rate=rate, hash=learned.hash, first_loss=learned.first, loss=learned.last, bad_step=bad_step)

    def _join(self, setup: Setup) -> None:
        """Meet the others over a file: no port that somebody else could take, and none to connect to from outside."""
        dist.init_process_group(
            "nccl" if setup.on_gpu else "gloo",
            init_method="file://{}".format(self.folder / "meeting"),
            rank=self.number,
            world_size=self.ranks,
            timeout=_GROUP_TIMEOUT,
        )

    def _together(self, setup: Setup, windows: int, steps: int) -> None:
        together = self.ranks > 1
        trainer = Trainer(setup, together=together, seed=self.number)
        broken = _warm_up(trainer, steps, self.number, together=together)
        if broken and self.number == 0:
            self.say("window", number=1, rate=broken, loss=None)
        for number in range(1, 1 if broken else windows + 1):
            stretch = trainer.stretch(steps)
            if self.number == 0:
                finite = math.isfinite(stretch.loss) and not stretch.broken
                self.say("progress", stage="windows", done=number, of=windows)
                self.say("window", number=number, rate=stretch.rate, loss=stretch.loss if finite else None)
            if stretch.broken:
                break
        self.say("rank", hash=hash_of(dict(trainer.network.named_parameters())), bad_step=trainer.bad_step)
        if together:
            self.say("sums", wrong=wrong_sums(self.number, self.ranks, setup.device), elements=ELEMENTS)
            self.say("transport", **count_channels(self._log_of_nccl()), backend=dist.get_backend())
            dist.barrier()
            dist.destroy_process_group()

    def _listen(self) -> None:
        """Take what the parent says; where it is gone, so is this rank, whatever it is at."""
        rest = b""
        while True:
            piece = os.read(self._orders, 4096)
            if not piece:
                shutil.rmtree(self.folder, ignore_errors=True)  # the parent would have, had it been let
                os._exit(1)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._heard.put(line)

    def _hear(self) -> Dict[str, Any]:
        """The next thing that the parent says."""
        heard: Dict[str, Any] = json.loads(self._heard.get().decode())
        return heard

    def _log_of_nccl(self) -> str:
        log = self.folder / "nccl.{}.log".format(os.getpid())
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def main() -> None:
    """Be the rank that the environment names."""
    voice = os.dup(1)
    os.dup2(2, 1)
    rank = Rank(voice, 0)
    status = 1
    try:
        rank.work(take_device(rank.number))
        status = 0
    except Trouble as trouble:
        rank.say("trouble", what=trouble.what, why=trouble.why, do=trouble.do)
    except torch.cuda.OutOfMemoryError:
        rank.say(
            "trouble", what=_named(rank), why="its GPU has not enough memory", do="give a smaller --batch; see who else uses it"
        )
    except Exception as error:
        traceback.print_exc()
        why = (str(error).strip().splitlines() or [""])[0]
        rank.say("trouble", what=_named(rank), why="{}: {}".format(type(error).__name__, why), do="")
    sys.stderr.flush()
    os._exit(status)  # without waiting for threads of libraries that wait for ranks that are gone


def take_device(number: int) -> Any:
    """The device of a rank: the GPU of its number in PCI order, or the processor with one thread, which is deterministic."""
    if os.environ["RESNET50_DEVICE"] == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        return torch.device("cpu")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def facts_of(device: Any) -> Dict[str, Any]:
    """What the parent needs for its plan, and the identity of software and device."""
    versions = {"torch": str(torch.__version__)}
    facts: Dict[str, Any] = {"address": "", "uuid": "", "name": platform.machine(), "capability": [0, 0], "memory": 0}
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        facts.update(name=found.name, capability=[found.major, found.minor], memory=found.total_memory)
        facts.update(address=_address(found), uuid=_uuid(found))
        versions["cuda"] = str(torch.version.cuda)
        versions["cudnn"] = str(torch.backends.cudnn.version())
        versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    versions["python"] = platform.python_version()
    can_compile = device.type == "cuda" and find_spec("triton") is not None and _has_c_compiler()
    return dict(facts, versions=versions, can_compile=can_compile)


def _warm_up(trainer: Trainer, steps: int, number: int, *, together: bool) -> float:
    """Train until two windows in a row have nearly one rate; what is compiled or tuned comes before. Rate if it broke, else 0."""
    trainer.stretch(1)
    last, spent, enough = 0.0, 0.0, WARM_SECONDS[trainer.setup.device.type]
    while True:
        stretch = trainer.stretch(steps)
        if stretch.broken:
            return stretch.rate
        spent += steps * trainer.setup.batch * trainer.ranks / stretch.rate
        steady = abs(stretch.rate - last) < _STEADY * stretch.rate
        if _agreed(steady or spent >= enough, trainer, number, together=together):
            return 0.0
        last = stretch.rate


def _agreed(enough: bool, trainer: Trainer, number: int, *, together: bool) -> bool:
    """What rank 0 finds, for all: a rank that stopped warming up alone would leave the others waiting."""
    if not together:
        return enough
    word = torch.tensor([float(enough and number == 0)], device=trainer.setup.device)
    dist.broadcast(word, 0)
    return bool(word.item())


def _named(rank: Rank) -> str:
    return "rank {}".format(rank.number)


def _has_c_compiler() -> bool:
    """Triton builds a small C program before its first kernel."""
    return any(shutil.which(name) for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if name)


def _address(found: Any) -> str:
    """As sysfs writes it; older versions of PyTorch do not tell, and the UUID joins as well."""
    if not hasattr(found, "pci_bus_id"):
        return ""
    return "{:04x}:{:02x}:{:02x}.0".format(found.pci_domain_id, found.pci_bus_id, found.pci_device_id)


def _uuid(found: Any) -> str:
    uuid = str(getattr(found, "uuid", ""))
    return uuid if not uuid or uuid.startswith("GPU-") else "GPU-" + uuid
