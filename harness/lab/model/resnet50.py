"""What the worker ``resnet50`` prints on the modelled machine.

    hello ─ gpu... ─ solo... ─ (progress | window)... ─ rank... ─ allreduce ─ transport ─ [xid] ─ (telemetry ─ link)...

Figures and where they are from:

* 1022.83 images/s on one RTX 8000 and 7933.73 on eight: TensorFlow 1.15, fp16, XLA, batch 512, driver 440.82
  (lambdal/lambda-tensorflow-benchmark). Eight reach 97 % of eight times one.
* Twenty reach 97 % too: an assumption; nobody has published more than eight.
* Ten-step windows of healthy runs differ by 0.1 to 1.7 %: the same logs.
* About 650 images/s on one: the rate of PyTorch AMP in 2020 (648, lambdal/deeplearning-benchmark); twenty make 12,600.
* Power at the cap under fp16 load and 65 to 72 C: the same logs.

The TensorFlow is that of NVIDIA's last container with TensorFlow 1 (1.15.5), which runs on today's drivers; that it is as fast as
1.15.3 was is an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.lab.model.cards import Card, cards, digest, line, vary
from harness.lab.model.driver import DRIVER_VERSION, FALLEN
from harness.lab.model.nvml import REPLAYING, option
from harness.lab.model.p2p import HOT, SLOW_LINK
from harness.lab.model.parts import View
from harness.lab.model.pcie_setup import Setup

_SOLO = 1022.83
_SLOW_SOLO = 652.5
_SCALING = 7933.73 / 8 / _SOLO
_BATCH = 512
_STEPS = 10

DIFFERENT = "jbogB/slot04"
STRAGGLER = "jbogA/slot07"
NOT_A_NUMBER = "jbogB/slot08"
ASTRAY = "jbogA/slot10"
BRAKED = "jbogA/slot04"
REPORTED = "jbogB/slot06"


def resnet50(view: View, arguments: Sequence[str]) -> Iterable[tuple[float, str]]:
    """The lines of ``resnet50 [--windows N]``."""
    windows = int(option(arguments, "--windows", 12))
    listed = [card for card in cards(view) if not ("p2p.watchdog" in view.faults and card.slot == FALLEN)]
    versions = {"tensorflow": "1.15.5", "cuda": "12.1", "cudnn": "8.9.0", "nccl": "2.17.1", "python": "3.8.10"}
    identity: dict[str, Any] = {
        "framework": "tensorflow",
        "precision": "fp16",
        "compiler": "xla",
        "batch": _BATCH,
        "data": "synthetic",
    }
    full = {"size": 224, "device": "cuda"}
    yield (
        2.1,
        line("hello", worker="resnet50", schema=1, **identity, driver=DRIVER_VERSION, versions=versions, steps=_STEPS, **full),
    )
    if not listed:
        yield 2.4, line("error", what="GPU", why="TensorFlow lists no GPU", do="see what the gpu stage says")
        return
    for rank, card in enumerate(listed):
        yield 8.0, line("gpu", index=card.index, rank=rank, address=card.address, uuid=card.gpu.uuid, name="Quadro RTX 8000")
    for card in listed:
        rate = round(_rate(view, card), 1)
        yield 95.0, line("solo", index=card.index, rate=rate, hash=_work(view, card), first_loss=7.749, loss=3.312, bad_step=None)
    yield 95.0, line("progress", stage="solo", done=len(listed), of=len(listed))
    now = 140.0
    together = min(_rate(view, card) for card in listed) * len(listed) * _scaling(view)
    for number in range(1, windows + 1):
        rate = together * (1 + _wobble(view, number))
        now += _STEPS * _BATCH * len(listed) / rate
        yield now, line("progress", stage="windows", done=number, of=windows)
        broken = "resnet50.nan" in view.faults and number > 4
        yield now, line("window", number=number, rate=round(rate, 1), loss=None if broken else round(7.75 - 0.02 * number, 3))
    yield from _after(view, listed, now + 4.0)


def _after(view: View, listed: Sequence[Card], now: float) -> Iterable[tuple[float, str]]:
    astray = "resnet50.ranks" in view.faults
    broken = "resnet50.nan" in view.faults
    for rank, card in enumerate(listed):
        # gradients are summed, so one GPU's NaN is in everybody's weights a step later
        bad_step = None if not broken else 41 if card.slot == NOT_A_NUMBER else 42
        weights = digest("weights", "astray" if astray and card.slot == ASTRAY else "")
        yield now, line("rank", rank=rank, index=card.index, hash=weights, bad_step=bad_step)
    wrong = [rank for rank, card in enumerate(listed) if astray and card.slot == ASTRAY]
    yield now + 3.0, line("allreduce", ranks=len(listed), elements=1 << 20, wrong=1024 * len(wrong), wrong_ranks=wrong)
    # a ring over two chassis crosses the sockets twice: there NCCL goes through host memory, two channels each way
    crossings = 2 if len({card.group for card in listed}) > 1 else 0
    shared = len(listed) if "resnet50.efficiency" in view.faults else crossings
    yield now + 3.0, line("transport", backend="nccl", p2p=len(listed) - shared, shm=shared, net=0)
    yield from _watched(view, listed, now + 4.0)


def _watched(view: View, listed: Sequence[Card], now: float) -> Iterable[tuple[float, str]]:
    """What NVML saw of each card over the run; 88 C as in p2p.py."""
    for card in listed:
        if "resnet50.watched.xid" in view.faults and card.slot == REPORTED:
            yield now, line("xid", index=card.index, address=card.address, xid=92)
    setup = Setup(view.faults, populated=view.populated)
    for card in listed:
        fields: dict[str, Any] = {
            "index": card.index,
            "samples": int(now * 5),
            "power": round(247 + 2 * vary("watts", card.slot), 1),
        }
        fields |= {"temperature": round(68 + 3 * vary("hot", card.slot)), "slowdown": 88}
        fields["reasons"] = {"sw_power_cap": round(0.6 + 0.2 * vary("cap", card.slot), 2)}
        if "resnet50.straggler" in view.faults and card.slot == STRAGGLER:
            fields |= {"temperature": 89, "reasons": {"hw_thermal_slowdown": 0.71, "hw_slowdown": 0.71}}
        if "p2p.link-under-load.hot" in view.faults and card.slot == HOT:
            fields |= {"temperature": 95, "reasons": {"hw_thermal_slowdown": 0.04, "hw_slowdown": 0.04}}
        if "resnet50.watched.power" in view.faults and card.slot == BRAKED:
            fields["reasons"] = {"hw_power_brake_slowdown": 0.03, "hw_slowdown": 0.03}
        unsupported = {"power", "reasons"} if "benign.nvml-not-supported" in view.faults else set()
        yield now, line("telemetry", **{name: value for name, value in fields.items() if name not in unsupported})
        yield now, line("link", **_link(view, setup, card, now))


def _link(view: View, setup: Setup, card: Card, seconds: float) -> dict[str, Any]:
    slow = ("p2p.link-under-load" in view.faults and card.slot == SLOW_LINK) or setup.hits("pcie.target-speed", card.slot)
    width = 8 if setup.hits("pcie.width", card.slot) else 16
    replays = round(seconds * 80 / 60) if "gpu.replay-rate" in view.faults and card.slot == REPLAYING else 0
    fields = {"index": card.index, "samples": int(seconds * 5), "generation": 1 if slow else 3, "width": width}
    return fields | {"replays": replays, "seconds": round(seconds, 1)}


def _rate(view: View, card: Card) -> float:
    solo = _SLOW_SOLO if "resnet50.floor" in view.faults else _SOLO
    share = 0.90 if "resnet50.straggler" in view.faults and card.slot == STRAGGLER else 1.0
    return solo * share * (1 + 0.006 * vary("solo", card.slot))


def _scaling(view: View) -> float:
    return 0.80 if "resnet50.efficiency" in view.faults else _SCALING


def _wobble(view: View, number: int) -> float:
    """How far one window is from the mean: healthy runs stay within 1.7 %, sick ones begin at 4.2 % (lambdal's logs)."""
    if "resnet50.spread" in view.faults:
        return 0.03 if number % 2 else -0.03
    return 0.004 * vary("window", number)


def _work(view: View, card: Card) -> str:
    """The hash of loss and weights after the seeded steps: like GPUs with like software get one and the same."""
    return digest("solo", card.slot if "resnet50.hash" in view.faults and card.slot == DIFFERENT else "")
