"""The composable fabric's controller: which GPU sits where and which machine it is given to, and taking it away and giving it back.

POST fabric/edit ─▶ DELETE or POST relate/gpu, one a part ─▶ POST fabric/reprogram     nothing is connected before the last
       └──────────────────────────────────────────────────▶ POST fabric/edit/cancel

Shapes as public code of Liqid's REST API shows them (base ``/liqid/api/v2``, an envelope with code, errors and data); all
values are invented.
"""

from __future__ import annotations

from harness.clock import Clock
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.ports import HttpAnswer, HttpQuestion, Json, OnLine

LATENCY = 0.1
"""Seconds that one request takes: an assumption."""

BASE = "/liqid/api/v2"
OWNER = "model-lqd8360"
"""The name that the fabric gives the machine."""

FREE = "n/a"
NEIGHBOUR = "model-neighbour"
NOT_OURS = "jbogB/slot07"
"""The slot whose part the fabric has given to the neighbour under the fault ``pcie.four-view``."""

UNKNOWN = "jbogA/slot03"
"""The slot whose part is not in the fabric's list under the fault ``pcie.four-view.fabric``."""


class ModelFabric:
    """Answers from the fabric's controller."""

    def __init__(self, clock: Clock, machine: Machine) -> None:
        self._clock = clock
        self._machine = machine
        self._edit: set[str] | None = None

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask. Besides reads, only the edit of who has which GPU is known; another write is answered with 405."""
        del on_line
        self._clock.sleep(LATENCY)
        self._machine.settle()
        status, body = self._answer(question)
        return HttpAnswer(status, {"content-type": "application/json"}, body, self._clock.now(), LATENCY)

    def close(self) -> None:
        """Nothing is held open."""

    def _answer(self, question: HttpQuestion) -> tuple[int, Json]:
        if question.method != "GET":
            return self._write(question)
        match question.path.removeprefix(BASE).strip("/"):
            case "version":
                return 200, _envelope([{"version": "3.4.0"}])
            case "device/info/gpu":
                return 200, _envelope([_info(gpu, self._owner(gpu)) for gpu in self._listed()])
            case "machine":
                return 200, _envelope([{"mach_id": "0x1", "mach_name": OWNER, "grp_id": "0x1", "comp_name": "pcpu0", "p2p": "on"}])
            case _:
                return 404, _envelope([], code=1, errors=["no such resource"])

    def _write(self, question: HttpQuestion) -> tuple[int, Json]:
        path = question.path.removeprefix(BASE).strip("/")
        match question.method, path, self._edit:
            case "POST", "fabric/edit", None:
                self._edit = set(self._machine.detached)
            case (("POST" | "DELETE"), "relate/gpu", set()):
                return self._relate(question, self._edit)
            case "POST", "fabric/reprogram", set():
                self._machine.detached, self._edit = frozenset(self._edit), None
            case "POST", "fabric/edit/cancel", set():
                self._edit = None
            case _, ("fabric/edit" | "relate/gpu" | "fabric/reprogram" | "fabric/edit/cancel"), _:
                return 409, _envelope([], code=1, errors=["not in this order"])
            case _:
                return 405, _envelope([], code=1, errors=["read only"])
        return 200, _envelope([])

    def _relate(self, question: HttpQuestion, edit: set[str]) -> tuple[int, Json]:
        body = question.body if isinstance(question.body, dict) else {}
        serial = body.get("groupDeviceRelator", {}).get("deviceStatus", {}).get("serial_num")
        known = parts.present(self._machine.faults, self._machine.cabled)
        slot = next((gpu.slot for gpu in known if gpu.serial == serial), None)
        if slot is None or (question.method == "DELETE") is (slot in edit):
            return 409, _envelope([], code=1, errors=["no such part, or there already"])
        edit ^= {slot}
        return 200, _envelope([])

    def _listed(self) -> tuple[parts.ModelGpu, ...]:
        """Every GPU of the fabric, the neighbour's own too where one of them is in this machine."""
        faults = self._machine.faults
        own = parts.present(faults, self._machine.cabled)
        if "pcie.four-view.fabric" in faults:
            own = tuple(gpu for gpu in own if gpu.slot != UNKNOWN)
        return (*own, parts.NEIGHBOURS) if "pcie.four-view.system" in faults else own

    def _owner(self, gpu: parts.ModelGpu) -> str:
        if gpu.slot in self._machine.detached:
            return FREE
        is_given_away = "pcie.four-view" in self._machine.faults and gpu.slot == NOT_OURS
        return NEIGHBOUR if is_given_away or gpu is parts.NEIGHBOURS else OWNER


def _envelope(data: list[Json], *, code: int = 0, errors: list[str] | None = None) -> Json:
    return {"response": {"code": code, "errors": errors, "data": data}}


def _info(gpu: parts.ModelGpu, owner: str) -> dict[str, Json]:
    return {
        "type": "GpuDeviceInfo",
        "index": gpu.number,
        "name": f"gpu{gpu.number - 1}",
        "device_type": "gpu",
        "device_state": "active | online",
        "fabric_type": "gen3",
        "lanes": 16,
        "vendor": "NVIDIA",
        "model": "Quadro RTX 8000",
        "vid": "0x10de",
        "did": "0x1e78",
        "serial_num": gpu.serial,
        "location": {"rack": 1, "shelf": "ABC".index(gpu.chassis.name[-1]) + 1, "node": gpu.port},
        "chassis": gpu.chassis.name,
        "slot": gpu.slot,
        "mach_id": {OWNER: "0x1", FREE: "n/a"}.get(owner, "0x2"),
        "mname": owner,
    }
