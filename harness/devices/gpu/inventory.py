"""Reading the inventory of the worker ``nvml`` and finding each GPU's slot.

The worker ``nvml [--watch SECONDS]`` prints, one JSON object a line (schema 1):

    {"kind":"hello","worker":"nvml","schema":1,"python":"3.6.8"}
    {"kind":"system","driver":"535.183.01","nvml":"12.535.183.01","cuda":"12.2","count":20}
    {"kind":"gpu","index":0,"address":"0000:3f:00.0","device":"10de:1e78","subsystem":"10de:13d8","uuid":"GPU-...","serial":"...",
     "name":"Quadro RTX 8000","vbios":"...","memory":B,"bar1":B,"ecc":true,"ecc_pending":true,"corrected":0,"uncorrected":0,
     "retired_single":0,"retired_double":0,"retirement_pending":false,
     "remapped_corrected":0,"remapped_uncorrected":0,"remapping_pending":false,"remapping_failed":false,"generation":1,"width":16,"max_generation":3,
     "max_width":16,"replays":0,"replays_later":0,"replay_seconds":30.0,"reasons":1,"power":28.1,"power_cap":250.0,
     "temperature":31,"persistence":true,"unread":{"FIELD":"Not Supported"}}
    {"kind":"gpu","index":3,"error":"Unknown Error"}            a GPU that NVML counts and cannot open; "address" where known
    {"kind":"peers","index":0,"read":[null,0,...],"write":[null,0,...],"atomics":[null,5,...],
     "level":[null,10,...]}                                         a row; codes of nvml.h
    {"kind":"process","index":0,"pid":2117,"name":"Xorg","type":"graphics","memory":B}
    {"kind":"error","what":"NVML","why":"Driver Not Loaded","do":"..."}         instead of all after the first line
    {"kind":"end","lines":N}

A field that the driver does not give is left out and named in ``unread``. The replay counters are read twice, ``--watch``
seconds apart, and the GPU lines come after the second reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from harness.devices.fields import Fields, Lines, normal_address
from harness.devices.gpu.facts import Ecc, Gpu, Inventory, Level, Link, Peering, PeerStatus, Process, Reason, Replays
from harness.devices.host import Host
from harness.devices.pcie import Snapshot
from harness.errors import CommandFailed
from harness.platform import Slot

SCHEMA = 1
_DRIVER_LINES = re.compile(r"NVRM|nvidia|nouveau|vfio-pci|Lockdown: .*module|[Ll]oading of .*module", re.ASCII)

Code = TypeVar("Code", PeerStatus, Level)


def read_inventory(host: Host, *, watch: float = 30.0) -> Inventory:
    """The GPUs as the driver sees them, the replay counters watched for ``watch`` seconds.

    A driver or library that does not work is no exception but the inventory's ``error``. Raises CommandFailed where the
    agent could not run at all, BringupError where what it printed cannot be read.
    """
    lines = Lines.of("nvml", host.agent("nvml", "--watch", f"{watch:g}", timeout=watch + 120.0), SCHEMA)
    try:
        kernel, kernel_error = host.kernel_log(), ""
    except CommandFailed as error:
        kernel, kernel_error = (), str(error)
    said = tuple(line for line in kernel if _DRIVER_LINES.search(line))
    system = next(iter(lines.every("system")), Fields("agent nvml, system", {}))
    return Inventory(
        error=lines.trouble,
        driver=system.text("driver", ""),
        nvml=system.text("nvml", ""),
        cuda=system.text("cuda", ""),
        count=system.integer("count", 0),
        gpus=tuple(_gpu(fields) for fields in lines.every("gpu")),
        processes=tuple(_process(fields) for fields in lines.every("process")),
        peers=_peers(lines.every("peers")),
        kernel=said,
        kernel_error=kernel_error,
    )


def join(inventory: Inventory, snapshot: Snapshot, slots: Iterable[Slot]) -> dict[str, Gpu]:
    """The GPU in each slot, by slot name: the PCI function at the slot's path is the GPU that NVML has at that address.

    A slot without a function, or whose function NVML does not list, is left out.
    """
    found: dict[str, Gpu] = {}
    for slot in slots:
        function = snapshot.at(slot.path)
        gpu = None if function is None else inventory.at(function.bdf)
        if gpu is not None:
            found[slot.name] = gpu
    return found


def _gpu(fields: Fields) -> Gpu:
    reasons = fields.maybe_integer("reasons")
    return Gpu(
        index=fields.integer("index"),
        address=normal_address(fields.text("address")) if "address" in fields else "",
        error=fields.text("error", ""),
        uuid=fields.text("uuid", ""),
        serial=fields.text("serial", ""),
        device=fields.text("device", ""),
        subsystem=fields.text("subsystem", ""),
        name=fields.text("name", ""),
        vbios=fields.text("vbios", ""),
        memory=fields.maybe_integer("memory"),
        bar1=fields.maybe_integer("bar1"),
        ecc=Ecc(
            fields.maybe_flag("ecc"),
            fields.maybe_flag("ecc_pending"),
            fields.maybe_integer("corrected"),
            fields.maybe_integer("uncorrected"),
            fields.maybe_integer("retired_single"),
            fields.maybe_integer("retired_double"),
            fields.maybe_flag("retirement_pending"),
            fields.maybe_integer("remapped_uncorrected"),
            fields.maybe_flag("remapping_pending"),
            fields.maybe_flag("remapping_failed"),
        ),
        link=Link(
            fields.maybe_integer("generation"),
            fields.maybe_integer("width"),
            fields.maybe_integer("max_generation"),
            fields.maybe_integer("max_width"),
        ),
        replays=Replays(
            fields.maybe_integer("replays"), fields.maybe_integer("replays_later"), fields.number("replay_seconds", 0.0)
        ),
        reasons=None if reasons is None else Reason(reasons),
        power=fields.maybe_number("power"),
        power_cap=fields.maybe_number("power_cap"),
        temperature=fields.maybe_integer("temperature"),
        persistence=fields.maybe_flag("persistence"),
        unread={str(name): str(why) for name, why in fields.mapping("unread").items()},
    )


def _process(fields: Fields) -> Process:
    memory = fields.maybe_integer("memory")
    return Process(fields.integer("index"), fields.integer("pid"), fields.text("name", ""), fields.text("type", ""), memory)


def _peers(rows: Iterable[Fields]) -> Mapping[tuple[int, int], Peering]:
    peers: dict[tuple[int, int], Peering] = {}
    for row in rows:
        index = row.integer("index")
        read, write, level = row.sequence("read"), row.sequence("write"), row.sequence("level")
        atomics = row.sequence("atomics")
        for other in range(max(len(read), len(write), len(level))):
            if other != index:
                peers[index, other] = Peering(
                    _code(PeerStatus, read, other, PeerStatus.UNKNOWN),
                    _code(PeerStatus, write, other, PeerStatus.UNKNOWN),
                    _code(Level, level, other, None),
                    _code(PeerStatus, atomics, other, PeerStatus.UNKNOWN),
                )
    return peers


def _code(kind: type[Code], row: Sequence[Any], place: int, unknown: Code | None) -> Code | None:
    """One entry of a row; a code that nvml.h did not have when this was written is ``unknown``."""
    value = row[place] if place < len(row) else None
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        return unknown
