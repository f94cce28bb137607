"""The composable fabric's controller, read only: which GPU sits where and which machine it is given to.

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

NEIGHBOUR = "model-neighbour"
NOT_OURS = "jbogB/slot07"
"""The slot whose part the fabric has given to the neighbour under the fault ``pcie.four-view``."""


class ModelFabric:
    """Answers from the fabric's controller."""

    def __init__(self, clock: Clock, machine: Machine) -> None:
        self._clock = clock
        self._machine = machine

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask. Only reads are known; a write is answered with 405."""
        del on_line
        self._clock.sleep(LATENCY)
        self._machine.settle()
        status, body = self._answer(question)
        return HttpAnswer(status, {"content-type": "application/json"}, body, self._clock.now(), LATENCY)

    def close(self) -> None:
        """Nothing is held open."""

    def _answer(self, question: HttpQuestion) -> tuple[int, Json]:
        if question.method != "GET":
            return 405, _envelope([], code=1, errors=["read only"])
        match question.path.removeprefix(BASE).strip("/"):
            case "version":
                return 200, _envelope([{"version": "3.4.0"}])
            case "device/info/gpu":
                return 200, _envelope([_info(gpu, self._owner(gpu)) for gpu in self._machine.view().gpus])
            case "machine":
                return 200, _envelope([{"mach_id": "0x1", "mach_name": OWNER, "grp_id": "0x1", "comp_name": "pcpu0", "p2p": "on"}])
            case _:
                return 404, _envelope([], code=1, errors=["no such resource"])

    def _owner(self, gpu: parts.ModelGpu) -> str:
        return NEIGHBOUR if "pcie.four-view" in self._machine.faults and gpu.slot == NOT_OURS else OWNER


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
        "location": {"rack": 1, "shelf": parts.CHASSIS.index(gpu.chassis) + 1, "node": gpu.port},
        "chassis": gpu.chassis.name,
        "slot": gpu.slot,
        "mach_id": "0x1" if owner == OWNER else "0x2",
        "mname": owner,
    }
