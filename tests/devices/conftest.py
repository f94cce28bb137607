from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clock import VirtualClock
from harness.devices.redfish import Redfish
from harness.ports import HttpAnswer, HttpQuestion, OnLine


class Script:
    """A Redfish lane with answers by key, the last of each repeated; it keeps every question."""

    def __init__(self, clock: VirtualClock, answers: dict[str, list[tuple[int, Any]]]) -> None:
        self.clock = clock
        self.answers = answers
        self.asked: list[HttpQuestion] = []

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        self.asked.append(question)
        self.clock.sleep(0.1)
        listed = self.answers.get(question.key, [(404, None)])
        status, body = listed.pop(0) if len(listed) > 1 else listed[0]
        if isinstance(body, Exception):
            raise body
        headers = body.pop("headers", {}) if isinstance(body, dict) and "headers" in body else {}
        return HttpAnswer(status, headers, body, self.clock.now(), 0.1)

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def script(clock: VirtualClock) -> Callable[..., tuple[Redfish, Script]]:
    def build(answers: dict[str, Any]) -> tuple[Redfish, Script]:
        listed = {key: (value if isinstance(value, list) else [(200, value)]) for key, value in answers.items()}
        lane = Script(clock, listed)
        return Redfish(lane, clock), lane

    return build


@pytest.fixture
def field_data() -> Path:
    """Recorded public captures, which are not part of the project."""
    folder = os.environ.get("BRINGUP_FIELD_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("BRINGUP_FIELD_DATA names no folder of recorded captures")
    return Path(folder)
