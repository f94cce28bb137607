"""A small modelled machine, and the ways from a recording of it to a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.clock import VirtualClock
from harness.ports import HttpAnswer, HttpAsks, HttpQuestion
from harness.tape.format import TapeInfo
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

RESET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
SYSTEM = "/redfish/v1/Systems/1"
POST = "/redfish/v1/Systems/1/Oem/Post"
FIRMWARE = "/redfish/v1/Managers/1"


@dataclass
class World:
    """A machine as a state function of its clock: a reset at 0 s, power On at 37 s, the end of POST at 60 s."""

    clock: VirtualClock
    power_at: float = 37.0
    post_at: float = 60.0
    costs: float = 0.0
    """What an answer takes, in seconds."""
    reset_at: float | None = None
    asked: list[str] = field(default_factory=list)
    fails: Callable[[HttpQuestion, float], Exception | None] = lambda question, now: None

    def ask(self, question: HttpQuestion, on_line: Any = None) -> HttpAnswer:
        began = self.clock.now()
        self.asked.append(question.key)
        if (error := self.fails(question, began)) is not None:
            self.clock.sleep(self.costs)
            raise error
        if question.effect == "act":
            self.reset_at = began
            status, body = 204, None
        else:
            status, body = 200, self._state(question.path, -1.0 if self.reset_at is None else began - self.reset_at)
        self.clock.sleep(self.costs)
        return HttpAnswer(status, {"content-type": "application/json"}, body, self.clock.now(), self.clock.now() - began)

    def close(self) -> None: ...

    def _state(self, path: str, since: float) -> Any:
        if path == SYSTEM:
            return {"PowerState": "Off" if since < 0 else "On" if since >= self.power_at else "PoweringOn"}
        if path == POST:
            state = "None" if since < 0 else "MemInit" if since < self.post_at / 3 else "PCI" if since < self.post_at else "OSBoot"
            return {"PostState": state}
        return {"FirmwareVersion": "7.00.00.00"}


@dataclass
class Bench:
    """One clock, its tracks, and a lane; what a program under test is given."""

    clock: VirtualClock
    tracks: Tracks
    bmc: HttpAsks
    recorder: Recorder | None = None
    player: Player | None = None
    world: World | None = None


INFO = TapeInfo(
    bench="toy",
    platform="toy",
    source="model",
    recorded_at="2026-01-02T03:04:05+00:00",
    harness="0",
    stages=("boot",),
    apply=True,
    lanes=("bmc",),
    identity={"BIOS": "2.10.2"},
)


@pytest.fixture
def info() -> TapeInfo:
    return INFO


@pytest.fixture
def paths() -> dict[str, str]:
    return {"reset": RESET, "system": SYSTEM, "post": POST, "firmware": FIRMWARE}


def open_recording(**world: Any) -> Bench:
    clock = VirtualClock()
    tracks = Tracks(clock)
    recorder = Recorder(tracks, clock, Redactor())
    machine = World(clock, **world)
    return Bench(clock, tracks, recorder.asks("bmc", machine), recorder=recorder, world=machine)


def open_replay(folder: Path) -> Bench:
    clock = VirtualClock()
    tracks = Tracks(clock)
    player = Player(folder, tracks, clock)
    return Bench(clock, tracks, player.http("bmc"), player=player)


@pytest.fixture
def recording() -> Callable[..., Bench]:
    """Open a bench on the modelled machine, recorded."""
    return open_recording


@pytest.fixture
def replay() -> Callable[[Path], Bench]:
    """Open a bench on a tape."""
    return open_replay


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., tuple[Path, Any]]:
    """Run a program on the modelled machine; return the tape and what the program returned."""

    def run(program: Callable[[Bench], Any], **world: Any) -> tuple[Path, Any]:
        bench = open_recording(**world)
        result = program(bench)
        assert bench.recorder is not None
        folder = tmp_path / f"tape-{len(list(tmp_path.iterdir()))}"
        bench.recorder.write(folder, INFO)
        return folder, result

    return run
