"""A modelled machine whose iDRAC fails as one did in the field, and the harness's own procedures at work on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.clock import VirtualClock
from harness.consent import Consent
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.catalogue import find, idrac_catalogue
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.profile import DEFAULT, Profile
from harness.lab.model import parts
from harness.lab.model.host import ModelHost
from harness.lab.model.lanes import ModelBmc
from harness.lab.model.machine import Machine
from harness.limits import exactly
from harness.platform import Platform, load_platform
from harness.ports import Effect, HttpAnswer, HttpQuestion, OnLine
from harness.procedures.bios import BiosStory, bring_bios
from harness.procedures.boot import bring_up
from harness.procedures.handover import Handover

PLATFORM = Path(__file__).parents[2] / "fixtures" / "platforms" / "lqd8360.toml"


@dataclass
class Watched:
    """A lane that keeps every question and its answer, and knows what the machine had queued at each reset."""

    lane: ModelBmc
    machine: Machine
    asked: list[tuple[HttpQuestion, HttpAnswer | None]] = field(default_factory=list)
    queued_at_reset: list[list[str]] = field(default_factory=list)

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        if "ComputerSystem.Reset" in question.path:
            jobs = self.machine.controller.jobs.jobs
            self.queued_at_reset.append([f"{job.type} {job.state}" for job in jobs if not job.is_finished])
        self.asked.append((question, None))
        answer = self.lane.ask(question, on_line)
        self.asked[-1] = (question, answer)
        return answer

    def close(self) -> None:
        self.lane.close()

    def sent(self, method: str, part: str = "") -> list[HttpQuestion]:
        return [each for each, _ in self.asked if each.effect is Effect.ACT and each.method == method and part in each.path]

    def answers(self, part: str) -> list[HttpAnswer | None]:
        return [answer for each, answer in self.asked if part in each.path]


@dataclass
class Failing:
    """The machine with its fault, the lane to it, and what the harness made of it."""

    clock: VirtualClock
    machine: Machine
    lane: Watched
    idrac: Idrac
    platform: Platform
    handover: Handover = field(default_factory=Handover)

    def wanting(self, **attributes: Any) -> Failing:
        """Another set of BIOS attributes."""
        limits = {name: exactly(value) for name, value in attributes.items()}
        bios = self.platform.bios.model_copy(update={"attributes": limits})
        self.platform = self.platform.model_copy(update={"bios": bios})
        return self

    def bring_bios(self) -> BiosStory:
        return bring_bios(self.idrac, self.platform, Consent(apply=True), self.handover, expected_tag=parts.SERVICE_TAG)

    def bring_up(self) -> Any:
        host = Host(ModelHost(self.clock, self.machine), self.clock)
        return bring_up(self.idrac, host, None, self.platform, Consent(apply=True), self.handover, expected_tag=parts.SERVICE_TAG)

    @property
    def patches(self) -> int:
        return len(self.lane.sent("PATCH", names.SETTINGS))

    @property
    def resets(self) -> list[str]:
        return [each.body["ResetType"] for each in self.lane.sent("POST", "ComputerSystem.Reset")]

    @property
    def jobs_asked_for(self) -> int:
        return len(self.lane.sent("POST", "/Jobs"))

    @property
    def pending(self) -> dict[str, object]:
        return dict(self.machine.controller.bios.pending)

    @property
    def open_jobs(self) -> list[str]:
        self.machine.settle()
        return [job.type for job in self.machine.controller.jobs.jobs if not job.is_finished]

    @property
    def current(self) -> dict[str, object]:
        self.machine.settle()
        return dict(self.machine.controller.bios.current)


@pytest.fixture
def failing() -> Callable[..., Failing]:
    def build(fault: str, *more: str, profile: Profile = DEFAULT) -> Failing:
        faults = find([f"idrac.{fault}"], idrac_catalogue()) | find(more)
        clock = VirtualClock()
        machine = Machine(clock, faults, profile=profile)
        lane = Watched(ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD), machine)
        return Failing(clock, machine, lane, Idrac(Redfish(lane, clock)), load_platform(PLATFORM.read_text(), PLATFORM.name))

    return build
