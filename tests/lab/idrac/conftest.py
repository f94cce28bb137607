from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.clock import VirtualClock
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.machine import Machine


@dataclass
class Client:
    """A client that logs in when told to, and shows status, body and headers of the last answer."""

    clock: VirtualClock
    machine: Machine
    application: IdracApplication
    token: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        if self.token:
            headers["X-Auth-Token"] = self.token
        payload = b"" if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status, self.headers, answer = self.application.handle(method, path, sent, payload)
        return json.loads(answer) if answer else None

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def ids(self, body: Any) -> list[str]:
        info = body.get("error", body)["@Message.ExtendedInfo"]
        return [entry["MessageId"].rpartition(".")[2] for entry in info]

    def log_in(self, password: str = parts.BMC_PASSWORD) -> Any:
        self.token = ""
        answer = self.ask("POST", names.SESSIONS, {"UserName": parts.BMC_USER, "Password": password})
        self.token = self.headers.get("X-Auth-Token", "")
        return answer

    def patch(self, attributes: dict[str, Any], apply_time: str | None = "OnReset") -> Any:
        body: dict[str, Any] = {"Attributes": attributes}
        if apply_time is not None:
            body["@Redfish.SettingsApplyTime"] = {"ApplyTime": apply_time}
        return self.ask("PATCH", names.SETTINGS, body)

    def job_id(self) -> str:
        return self.headers["Location"].rpartition("/")[2]

    def reset(self, kind: str = "ForceRestart") -> Any:
        return self.ask("POST", f"{names.SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)


@pytest.fixture
def open_client() -> Callable[..., Client]:
    """A client, logged in, of a fresh machine with some faults."""

    def build(*faults: str, is_logged_in: bool = True) -> Client:
        clock = VirtualClock()
        machine = Machine(clock, frozenset(faults))
        client = Client(clock, machine, IdracApplication(machine))
        if is_logged_in:
            client.log_in()
            assert client.status == 201
        return client

    return build


@pytest.fixture
def client(open_client: Callable[..., Client]) -> Client:
    return open_client()
