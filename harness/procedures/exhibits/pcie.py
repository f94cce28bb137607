"""The PCIe tree as far as expected parts hang on it, with the links as they are, and what each host bridge has to give.

pci0000:3a ── root port ══ switch up ─ switch down ══ GPU       one entry a function; ``path`` says what hangs on what
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.devices.pcie import Function, PortType, Snapshot
from harness.platform import Platform, Slot
from harness.procedures.chain import Chain
from harness.procedures.exhibits.bounds import shortened
from harness.procedures.exhibits.space import show_space
from harness.procedures.links import generation, hops, width

_MOST_FUNCTIONS = 400
_NVIDIA = "10de"
_PORTS = (PortType.ROOT_PORT, PortType.UPSTREAM, PortType.DOWNSTREAM)


def show_pcie(snapshot: Snapshot, platform: Platform, slots: Sequence[Slot], chain: Chain) -> dict[str, Any]:
    """``tree`` has what stands on the way to each slot and GPU, ``slots`` where each part is or was lost, ``space`` the budget.

    ``boot`` is the kernel's id of the boot in which all this was seen.
    """
    gpus = [gpu for gpu in snapshot.gpus if gpu.vendor == _NVIDIA]
    ends = [*(slot.path for slot in slots), *(gpu.path for gpu in gpus)]
    roots = list(dict.fromkeys(end.partition("/")[0] for end in ends))
    shown = {function.path: function for end in ends for function in hops(snapshot, end)}
    return {
        "boot": snapshot.host.boot_id,
        "counts": [[name, count] for name, count in chain.counts()],
        "tree": [_function(function) for function in list(shown.values())[:_MOST_FUNCTIONS]],
        "cut": max(0, len(shown) - _MOST_FUNCTIONS),
        "slots": [_slot(slot, chain) for slot in slots],
        "uplinks": [[uplink.name, uplink.path, _lost(chain, uplink.name)] for uplink in platform.uplinks],
        "space": [show_space(snapshot, root) for root in roots],
    }


def _function(function: Function) -> dict[str, Any]:
    return {
        "path": function.path,
        "bdf": function.bdf,
        "id": function.id,
        "what": _what(function),
        "gen": generation(function),
        "width": width(function),
        "most": [function.link.max_generation, function.link.max_width],
        "gone": function.is_gone,
    }


def _what(function: Function) -> str:
    express = None if function.config is None else function.config.express
    if express is not None and express.type in _PORTS:
        return str(express.type)
    return "bridge" if function.is_bridge else "GPU" if function.is_gpu else f"class {function.kind}"


def _slot(slot: Slot, chain: Chain) -> dict[str, Any]:
    return {"slot": slot.name, "path": slot.path, "uplink": slot.uplink, "hba": slot.hba, "lost": _lost(chain, slot.name)}


def _lost(chain: Chain, place: str) -> dict[str, str] | None:
    loss = chain.lost_at(place) or chain.uplink_lost(place)
    if loss is None:
        return None
    return {
        "at": loss.at,
        "path": loss.path,
        "serial": loss.serial,
        "seen": shortened(loss.evidence),
        "likely": shortened(loss.cause),
    }
