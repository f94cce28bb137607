"""What the worker ``p2p`` prints on the modelled machine.

    hello ─ gpu... ─ [holder...] ─┬─ refused                                      a translating IOMMU
                                  └─ loopback... ─ (progress | pair | xid | wedged)... ─ telemetry, link... ─ contention, shift...

No peer-to-peer matrix of RTX 8000 is public, so the figures are:

* through the host: 9.9 GB/s below one switch, 11.4 GB/s else, 12.8 to 14.4 us. Measured on eight TITAN RTX, the same chip, Gen3
  (wohlbier/gpu-micro).
* peer to peer below one switch: 12 to 13 GB/s. Expected: 80 to 90 % of 15.75 GB/s, which is what Gen5 boxes reach
  (voipmonitor/rtx6kpro).
* peer to peer between the sockets: 9 to 11 GB/s. Expected, less than through the host: NVIDIA/nccl#814 shows that order.
* latencies of peer writes and reads: assumptions between 0.5 us (Blackwell) and 2.8 us (DGX-2), reads slower.
* both ways at once: twice the slower way, less 2 to 4 %: an assumption; public Gen5 boxes reach 103 to 111 of twice 54 to 57.
* copies within a GPU: 300 GB/s, an assumption (its memory moves 672 GB/s, NVIDIA's data sheet, and each byte is read and written).
* an NVLink bridge of two RTX 8000: 50 GB/s one way (NVIDIA's data sheet), 94 % of it reached: an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.agent.p2p_contexts import choose, estimate
from harness.lab.model.cards import Card, cards, line, vary
from harness.lab.model.driver import DRIVER_VERSION, FALLEN
from harness.lab.model.nvml import option
from harness.lab.model.p2p_crowds import crowded
from harness.lab.model.parts import View
from harness.lab.model.pcie_setup import Setup

_SIZE = 256 << 20
_PEERS = 8
_TOO_MANY_PEERS = 711
_PATIENCE = 30.0
_CONTEXT, _COPIES = 0.31, 1.2
"""Seconds that a context takes to make, and a step's copies (assumptions)."""

DROPPED = ("jbogA/slot04", "jbogB/slot06")
MISROUTED = ("jbogB/slot02", "jbogB/slot05", "jbogB/slot08")
STAGED = "jbogA/slot03"
IMPOSSIBLE = ("jbogB/slot04", "jbogB/slot10")
SLOW_LINK = "jbogA/slot08"
HOT = "jbogB/slot02"
LOOPED = "jbogA/slot06"
ONE_LINE = ("jbogA/slot05", "jbogA/slot09")
WEDGED = ("jbogA/slot02", FALLEN)
BRIDGED = frozenset({"jbogA/slot01", "jbogA/slot02"})


@dataclass(frozen=True)
class _Path:
    """How one ordered pair performs: GB/s with and without peer access, microseconds."""

    enabled: float
    disabled: float
    write_us: float
    read_us: float
    link: str = "pcie"


def p2p(view: View, arguments: Sequence[str]) -> Iterable[tuple[float, str]]:
    """The lines of ``p2p [--loops N] [--force]``."""
    loops = int(option(arguments, "--loops", 25))
    listed = cards(view)
    yield 0.4, line("hello", worker="p2p", schema=1, seed=20, size=_SIZE, loops=loops, driver=DRIVER_VERSION, cuda="12.2")
    if not listed:
        yield 0.5, line("error", what="CUDA driver", why="cuInit: CUDA_ERROR_NO_DEVICE (100)", do="see what the gpu stage says")
        return
    translating = "pcie.iommu" in view.faults
    for card in listed:
        yield 1.0 + 0.1 * card.index, line("gpu", **_gpu(view, card, translating))
    if "p2p.preflight" in view.faults:
        yield 3.1, line("holder", index=0, pid=2117, name="Xorg")
    if translating and "--force" not in arguments:
        why = f"the IOMMU translates for {len(listed)} of {len(listed)} GPUs (DMA-FQ): peer writes would be lost or land elsewhere"
        yield 3.2, line("refused", why=why, gpus=[card.index for card in listed])
        return
    for card in listed:
        yield 3.3, line("loopback", **_loopback(view, card))
    yield from _measured(view, listed, loops)


def _gpu(view: View, card: Card, translating: bool) -> dict[str, Any]:
    held = 5 if "p2p.preflight" in view.faults and card.index == 0 else 0
    asked_nine = held or "benign.ninth-peer" in view.faults
    return {
        "index": card.index,
        "address": card.address,
        "uuid": card.gpu.uuid,
        "group": card.group,
        "iommu": "DMA-FQ" if translating else "identity" if "benign.iommu-identity" in view.faults else "none",
        "peers": _PEERS - held,
        "stopped": _TOO_MANY_PEERS if asked_nine else 0,
    }


def _measured(view: View, listed: Sequence[Card], loops: int) -> Iterator[tuple[float, str]]:
    total = len(listed) * (len(listed) - 1)
    now, done = 4.0, 0
    wedged = False
    batches = list(_batches(listed))
    yield now, line("schedule", steps=len(batches), of=total)
    for batch in batches:
        slowest = 0.0
        for source, target in batch:
            pair = (source.slot, target.slot)
            if wedged and FALLEN in pair:
                where = source.index if source.slot == FALLEN else target.index
                yield now, _untried(source, target, f"GPU {where} fell off the bus")
                continue
            if "p2p.watchdog" in view.faults and pair == WEDGED:
                yield from _wedge(now, source, target)
                now, wedged = now + _PATIENCE, True
                continue
            path = _path(view, source, target)
            yield now, line("pair", **_pair(view, source, target, path))
            slowest = max(slowest, loops * _SIZE / 1e9 * (1 / path.enabled + 1 / path.disabled))
        now += slowest
        done += len(batch)
        yield now, line("progress", stage="pairs", done=done, of=total)
    left = [card for card in listed if not (wedged and card.slot == FALLEN)]
    for card in left:
        yield now, line("telemetry", **_telemetry(view, card, now))
    for card in left:
        yield now, line("link", **_link(view, card, now))
    yield now, line("contexts", **_contexts(batches, len(listed)))
    yield from crowded(view, left, now, loops)


def _contexts(batches: Sequence[Sequence[tuple[Card, Card]]], count: int) -> dict[str, Any]:
    """How many contexts were made and how long that took, with what each way of making them would have cost."""
    steps = [tuple((source.index, target.index) for source, target in batch) for batch in batches]
    costs = estimate(steps, _CONTEXT, _COPIES)
    estimates = {life: round(seconds, 3) for life, seconds in costs.items()}
    return {"count": count, "seconds": round(_CONTEXT * count, 2), "life": choose(costs), "estimates": estimates}


def _batches(listed: Sequence[Card]) -> Iterator[list[tuple[Card, Card]]]:
    """Pairs that may run at once: one a GPU below each switch, then one pair at a time over the uplinks."""
    groups = [[card for card in listed if card.group == group] for group in dict.fromkeys(card.group for card in listed)]
    for shift in range(1, max(map(len, groups))):
        yield [
            (card, group[(place + shift) % len(group)])
            for group in groups
            if shift < len(group)
            for place, card in enumerate(group)
        ]
    for source in listed:
        for target in listed:
            if source.group != target.group:
                yield [(source, target)]


def _path(view: View, source: Card, target: Card) -> _Path:
    faults, pair = view.faults, (source.slot, target.slot)
    wobble = vary(*pair)
    if source.group == target.group:
        path = _Path(12.5 + 0.4 * wobble, 9.9 + 0.1 * wobble, 1.7 + 0.2 * wobble, 2.4 + 0.2 * wobble)
    else:
        path = _Path(10.0 + 0.6 * wobble, 11.4 + 0.1 * wobble, 2.5 + 0.2 * wobble, 3.6 + 0.3 * wobble)
    if "benign.nvlink-pair" in faults and set(pair) == BRIDGED:
        return _Path(47.0 + 0.3 * wobble, path.disabled, 1.6, 2.2, "nvlink")
    if "p2p.path.staged" in faults and source.slot == STAGED:
        # 11 GB/s would pass any floor of 9 to 11: only the comparison and the latency give it away
        return _Path(11.0 + 0.2 * wobble, 11.0 + 0.1 * wobble, 13.6 + 0.8 * wobble, 14.4)
    if "p2p.path.impossible" in faults and pair == IMPOSSIBLE:
        return _Path(103.88, path.disabled, path.write_us, path.read_us)
    if "p2p.link-under-load" in faults and SLOW_LINK in pair:
        # 2.5 GT/s x 16 lanes x 8/10 is 4 GB/s raw, whichever way the copy takes
        return _Path(3.2 + 0.05 * wobble, 3.1 + 0.05 * wobble, path.write_us + 0.6, path.read_us + 0.8)
    return path


def _pair(view: View, source: Card, target: Card, path: _Path) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "from": source.index,
        "to": target.index,
        "can": True,
        "link": path.link,
        "enabled": round(path.enabled, 2),
        "pulled": round(path.enabled * 0.99, 2),
        "both": round(_both(view, source, target), 2),
        "disabled": round(path.disabled, 2),
        "write_us": round(path.write_us, 2),
        "read_us": round(path.read_us, 2),
        "checked": 2 * _SIZE,
        "bad": 0,
    }
    wrong = _wrong(view, source, target)
    if wrong is not None:
        fields |= {"bad": wrong["size"], "wrong": wrong}
    if wrong is not None or ("p2p.path.impossible" in view.faults and (source.slot, target.slot) == IMPOSSIBLE):
        fields["alone"] = {name: fields[name] for name in ("enabled", "disabled", "bad")}
    return fields


def _both(view: View, source: Card, target: Card) -> float:
    """GB/s of both directions at once, the same for the pair and its reverse."""
    slower = min(_path(view, source, target).enabled, _path(view, target, source).enabled)
    if "p2p.path.one-line" in view.faults and {source.slot, target.slot} == set(ONE_LINE):
        return slower * 1.01
    return slower * (1.94 + 0.02 * vary(*sorted((source.slot, target.slot))))


def _loopback(view: View, card: Card) -> dict[str, Any]:
    fields: dict[str, Any] = {"index": card.index, "checked": _SIZE, "bad": 0, "rate": round(300 + 3 * vary("loop", card.slot), 2)}
    if "p2p.loopback" in view.faults and card.slot == LOOPED:
        place = _SIZE // 2
        fields |= {"bad": 4, "wrong": {"class": "single bit", "way": "write", "first": place, "last": place, "size": 4}}
    return fields


def _telemetry(view: View, card: Card, seconds: float) -> dict[str, Any]:
    """Copying takes little power. That the card slows down from 88 C on is an assumption."""
    samples = max(1, int(seconds * 5))
    hot = "p2p.link-under-load.hot" in view.faults and card.slot == HOT
    fields: dict[str, Any] = {"index": card.index, "samples": samples, "power": round(81 + 3 * vary("copying", card.slot), 1)}
    fields |= {"temperature": 95 if hot else round(44 + 3 * vary("warm", card.slot)), "slowdown": 88}
    fields["reasons"] = [[0x1, samples // 3], *([[0x40, samples // 2]] if hot else [])]
    unsupported = {"power", "reasons"} if "benign.nvml-not-supported" in view.faults else set()
    return {name: value for name, value in fields.items() if name not in unsupported}


def _wrong(view: View, source: Card, target: Card) -> dict[str, Any] | None:
    """The bytes that arrive wrong, as the kernel on the target GPU finds them. None: all right."""
    if "pcie.iommu" in view.faults:
        return {"class": "zero", "way": "write", "first": 0, "last": _SIZE - 4, "size": _SIZE, "disabled_bad": 0}
    if "p2p.integrity.dropped" in view.faults and (source.slot, target.slot) == DROPPED:
        return {"class": "dropped", "way": "write", "first": 0, "last": _SIZE - 4, "size": _SIZE, "disabled_bad": 0}
    if "p2p.integrity.misrouted" in view.faults and (source.slot, target.slot) == MISROUTED[:2]:
        lost = 2 << 20
        third = next((card.index for card in cards(view) if card.slot == MISROUTED[2]), None)
        places = {"first": 4 * lost, "last": 5 * lost - 4, "size": lost}
        return {"class": "misrouted", "way": "write", **places, "disabled_bad": 0} | ({} if third is None else {"of": third})
    return None


def _untried(source: Card, target: Card, why: str) -> str:
    return line("pair", **{"from": source.index, "to": target.index, "untried": why})


def _wedge(now: float, source: Card, target: Card) -> Iterator[tuple[float, str]]:
    text = f"NVRM: Xid (PCI:{target.address[:-2]}): 79, GPU has fallen off the bus."
    yield now + 1.2, line("xid", index=target.index, address=target.address, xid=79, text=text)
    wedged = {"from": source.index, "to": target.index, "seconds": _PATIENCE, "culprit": target.index, "reaped": True}
    yield now + _PATIENCE, line("wedged", **wedged)
    yield now + _PATIENCE, _untried(source, target, f"the copy did not end in {_PATIENCE:g} s and was killed")


def _link(view: View, card: Card, seconds: float) -> dict[str, Any]:
    setup = Setup(view.faults, populated=view.populated)
    slow = ("p2p.link-under-load" in view.faults and card.slot == SLOW_LINK) or setup.hits("pcie.target-speed", card.slot)
    # the same eighty a minute that the nvml worker sees, see nvml.py
    replays = round(seconds * 80 / 60) if "gpu.replay-rate" in view.faults and card.slot == "jbogB/slot01" else 0
    return {
        "index": card.index,
        "generation": 1 if slow else 3,
        "width": 8 if setup.hits("pcie.width", card.slot) else 16,
        "samples": int(seconds * 5),
        "replays": replays,
        "seconds": round(seconds, 1),
    }
