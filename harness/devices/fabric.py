"""The composable fabric's controller: which part sits in which slot, which machine it is given to, and taking parts away from it.

    GET /liqid/api/v2/device/info/gpu  ─  {"response": {"code": 0, "errors": null, "data": [...]}}  ─┬─ FabricPart ...
    GET /liqid/api/v2/predevice        ─  which machine has what, where the first list does not say ─┘  (joined by name)

Paths, envelope and field names as public clients of Liqid's REST API use them (Liqid's SDKs, UIC Composastructure).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import DeviceError
from harness.ports import HttpAsks, HttpQuestion, Json

GPU_INFO = "/liqid/api/v2/device/info/gpu"
PREDEVICE = "/liqid/api/v2/predevice"
FABRIC_EDIT = "/liqid/api/v2/fabric/edit"
RELATE_GPU = "/liqid/api/v2/relate/gpu"
FABRIC_REPROGRAM = "/liqid/api/v2/fabric/reprogram"
_FREE = ("", "n/a", "-1")
"""What the controller writes for a part that no machine has."""


@dataclass(frozen=True)
class FabricPart:
    """One part that the fabric knows.

    ``slot`` is its place by chassis and slot (``jbogB/slot07``), "" where the controller does not tell; ``owner`` the machine it
    is given to, "" where it is free. ``location`` is the controller's own ``rack1-shelf2/node07``, "" where it has none,
    ``id`` the part's PCI ids as ``10de:1e78``, "" where the controller does not tell them.
    """

    slot: str
    serial: str
    owner: str = ""
    model: str = ""
    location: str = ""
    id: str = ""

    @property
    def vendor(self) -> str:
        """The part's PCI vendor id, four hex digits, or ""."""
        return self.id.partition(":")[0]

    @property
    def place(self) -> str:
        """Where it sits, by the best name that there is."""
        return self.slot or self.location


class Fabric:
    """Asks the fabric's controller. Nothing is remembered between calls; only ``detach`` and ``attach`` write."""

    def __init__(self, asks: HttpAsks) -> None:
        self._asks = asks

    def parts(self) -> tuple[FabricPart, ...]:
        """Every GPU of the fabric, whoever has it, sorted by slot.

        Raises DeviceError where the controller refuses or answers nonsense.
        """
        entries = self._read(GPU_INFO)
        if any("mname" not in entry for entry in entries):
            owners = {_word(entry, "name"): _word(entry, "mname") for entry in self._read(PREDEVICE)}
            entries = [{"mname": owners.get(_word(entry, "name"), ""), **entry} for entry in entries]
        return tuple(sorted((_part(entry) for entry in entries), key=lambda part: (part.slot, part.serial)))

    def _read(self, path: str) -> list[Mapping[str, Any]]:
        answer = self._asks.ask(HttpQuestion.observe("GET", path))
        if answer.status != 200:
            raise DeviceError(f"fabric: GET {path}: HTTP {answer.status}{_errors(answer.body)}")
        return _data(answer.body, path)

    def detach(self, parts: Sequence[FabricPart]) -> None:
        """Take parts away from the machine that has them, all or none. For a machine that is off.

        Raises DeviceError where the controller refuses, after the edit was cancelled.
        """
        self._edit("DELETE", parts)

    def attach(self, parts: Sequence[FabricPart]) -> None:
        """Give parts to the machine that they name as owner, all or none. Raises as ``detach``."""
        self._edit("POST", parts)

    def _edit(self, method: str, parts: Sequence[FabricPart]) -> None:
        """Nothing is connected or cut before the last request; an edit that fails is cancelled, since it locks others out."""
        self._act("POST", FABRIC_EDIT)
        try:
            for part in parts:
                relator = {"deviceStatus": {"serial_num": part.serial}}
                self._act(method, RELATE_GPU, {"groupDeviceRelator": relator, "machine": {"mach_name": part.owner}})
            self._act("POST", FABRIC_REPROGRAM)
        except BaseException:
            self._asks.ask(HttpQuestion.act("POST", f"{FABRIC_EDIT}/cancel"))
            raise

    def _act(self, method: str, path: str, body: Json = None) -> None:
        answer = self._asks.ask(HttpQuestion.act(method, path, body))
        if answer.status >= 400:
            raise DeviceError(f"fabric: {method} {path}: HTTP {answer.status}{_errors(answer.body)}")


def _data(body: object, path: str) -> list[Mapping[str, Any]]:
    """The entries of the envelope; code 0 is good."""
    response = body.get("response") if isinstance(body, Mapping) else None
    if not isinstance(response, Mapping) or "code" not in response:
        raise DeviceError(f"fabric: GET {path}: the answer has no response envelope; is this the fabric's controller?")
    if response["code"] != 0:
        raise DeviceError(f"fabric: GET {path}: code {response['code']}{_errors(body)}")
    data = response.get("data")
    if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
        raise DeviceError(f"fabric: GET {path}: its data is no list of parts")
    return data


def _errors(body: object) -> str:
    response = body.get("response") if isinstance(body, Mapping) else None
    errors = response.get("errors") if isinstance(response, Mapping) else None
    return f": {'; '.join(map(str, errors))}" if isinstance(errors, list) and errors else ""


def _part(entry: Mapping[str, Any]) -> FabricPart:
    owner = _word(entry, "mname")
    return FabricPart(
        slot=_word(entry, "slot"),
        serial=_word(entry, "serial_num"),
        owner="" if owner.lower() in _FREE else owner,
        model=_word(entry, "model"),
        location=_location(entry.get("location")),
        id=_id(_word(entry, "vid"), _word(entry, "did")),
    )


def _id(vendor: str, device: str) -> str:
    """Ids as the controller writes them (``0x10de``) in the form of a platform file; "" for anything else."""
    words = [word.lower().removeprefix("0x").rjust(4, "0") for word in (vendor, device) if word]
    return ":".join(words) if len(words) == 2 and all(re.fullmatch(r"[0-9a-f]{4}", word) for word in words) else ""


def _location(value: object) -> str:
    """A place by rack, shelf and node: numbers as recorded from a Director (moophat/nvidia_cnc_exporter, gpu.json)."""
    steps = [value.get(step) for step in ("rack", "shelf", "node")] if isinstance(value, Mapping) else []
    if not steps or not all(isinstance(step, int) and not isinstance(step, bool) for step in steps):
        return ""
    rack, shelf, node = steps
    return f"rack{rack}-shelf{shelf}/node{node:02d}"


def _word(entry: Mapping[str, Any], key: str) -> str:
    """Some controllers number what others name; a missing field is an empty word."""
    value = entry.get(key)
    return "" if value is None else str(value).strip()
