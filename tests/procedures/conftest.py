from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.clock import VirtualClock
from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.console import ModelConsole
from harness.lab.model.host import ModelHost
from harness.lab.model.lanes import ModelBmc
from harness.lab.model.machine import Machine
from harness.platform import Platform, load_platform
from harness.ports import Effect, HttpAnswer, HttpQuestion, OnLine
from harness.procedures.handover import Handover

PLATFORM = Path(__file__).parents[2] / "fixtures" / "platforms" / "lqd8360.toml"


@dataclass
class Counting:
    """A lane that keeps every question, and lets a test step in before one is sent."""

    lane: ModelBmc
    asked: list[HttpQuestion] = field(default_factory=list)
    before: Callable[[HttpQuestion], None] = lambda _: None
    after: Callable[[HttpQuestion, HttpAnswer], HttpAnswer] = lambda _, answer: answer

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        self.asked.append(question)
        self.before(question)
        return self.after(question, self.lane.ask(question, on_line))

    def close(self) -> None:
        self.lane.close()

    @property
    def acts(self) -> list[HttpQuestion]:
        return [question for question in self.asked if question.effect is Effect.ACT]

    def sent(self, method: str, part: str = "") -> list[HttpQuestion]:
        return [question for question in self.acts if question.method == method and part in question.path]

    @property
    def resets(self) -> list[str]:
        return [question.body["ResetType"] for question in self.sent("POST", "ComputerSystem.Reset")]


@dataclass
class Lab:
    """A modelled machine and everything a procedure needs of it."""

    clock: VirtualClock
    machine: Machine
    lane: Counting
    idrac: Idrac
    host: Host
    console: Console
    platform: Platform
    handover: Handover = field(default_factory=Handover)
    apply: Consent = field(default_factory=lambda: Consent(apply=True))
    look: Consent = field(default_factory=Consent)
    tag: str = parts.SERVICE_TAG

    @property
    def pending(self) -> dict[str, object]:
        """What the simulated iDRAC has pending, asked past the lane."""
        return dict(self.machine.controller.bios.pending)

    @property
    def open_jobs(self) -> list[str]:
        self.machine.settle()
        return [job.id for job in self.machine.controller.jobs.jobs if not job.is_finished]

    @property
    def sessions(self) -> int:
        return len(self.machine.controller.sessions.open)


@pytest.fixture
def lab() -> Callable[..., Lab]:
    def build(*faults: str, platform: Platform | None = None) -> Lab:
        clock = VirtualClock()
        machine = Machine(clock, frozenset(faults))
        lane = Counting(ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD))
        return Lab(
            clock,
            machine,
            lane,
            Idrac(Redfish(lane, clock)),
            Host(ModelHost(clock, machine), clock),
            Console(ModelConsole(clock, machine), clock),
            platform or load_platform(PLATFORM.read_text(), PLATFORM.name),
        )

    return build
