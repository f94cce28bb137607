from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness.clock import VirtualClock, WallClock
from harness.errors import AuthRefused, Unreachable, Untrusted
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.serve import serve
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.live.http import RedfishHttp
from harness.ports import HttpQuestion
from harness.secret import SecretReference

pytest.importorskip("cheroot")
pytest.importorskip("cryptography")
pytestmark = pytest.mark.socket

ENTRIES = f"{names.LOG}/Entries"


@dataclass
class Bench:
    """A served machine whose virtual clock the test moves, and a way to make clients."""

    clock: VirtualClock
    machine: Machine
    url: str
    pin: str
    password: SecretReference

    def client(self, pin: str = "") -> RedfishHttp:
        return RedfishHttp(self.url, parts.BMC_USER, self.password, WallClock(), pin=pin or self.pin)

    def raw(self) -> http.client.HTTPSConnection:
        split = urlsplit(self.url)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(str(split.hostname), split.port, context=context, timeout=10)


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("MODEL_PASSWORD", parts.BMC_PASSWORD)
    clock = VirtualClock()
    machine = Machine(clock, frozenset(getattr(request, "param", ())))
    with serve(IdracApplication(machine)) as served:
        yield Bench(clock, machine, served.url, served.pin, SecretReference(env="MODEL_PASSWORD"))


def test_a_live_client_changes_the_bios_through_a_job(bench: Bench) -> None:
    client = bench.client()

    def get(path: str) -> Any:
        return client.ask(HttpQuestion.observe("GET", path)).body

    assert get(names.ROOT)["Oem"]["Dell"]["ServiceTag"] == parts.SERVICE_TAG
    assert get(names.SYSTEM)["PowerState"] == "On"
    wanted = {"MmioAbove4Gb": "Enabled"}
    body = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": wanted}
    staged = client.ask(HttpQuestion.act("PATCH", names.SETTINGS, body))
    assert staged.status == 202
    job = staged.headers["location"].rpartition("/")[2]
    assert get(f"{names.DMTF_JOBS}/{job}")["JobState"] == "Pending"
    reset = client.ask(HttpQuestion.act("POST", f"{names.SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"}))
    assert (reset.status, reset.body) == (204, None)
    bench.clock.sleep(1500)
    assert get(f"{names.DMTF_JOBS}/{job}")["JobState"] == "Completed"
    assert get(names.BIOS)["Attributes"]["MmioAbove4Gb"] == "Enabled"
    assert len(bench.machine.controller.sessions.open) == 1
    client.close()
    assert bench.machine.controller.sessions.open == ()


def test_another_pin_ends_it_before_any_request(bench: Bench) -> None:
    client = bench.client(pin="sha256:" + "00" * 32)
    with pytest.raises(Untrusted):
        client.ask(HttpQuestion.observe("GET", names.SYSTEM))
    client.close()
    assert bench.machine.controller.sessions.open == ()


@pytest.mark.parametrize("bench", [("bmc.auth",)], indirect=True)
def test_a_wrong_password_is_refused_over_the_wire(bench: Bench) -> None:
    client = bench.client()
    with pytest.raises(AuthRefused):
        client.ask(HttpQuestion.observe("GET", names.SYSTEM))
    client.close()


def test_a_restarting_idrac_closes_the_connection_without_a_byte(bench: Bench) -> None:
    client = bench.client()
    client.ask(HttpQuestion.observe("GET", names.SYSTEM))
    client.ask(HttpQuestion.act("POST", f"{names.MANAGER}/Actions/Manager.Reset", {}))
    with pytest.raises(Unreachable):
        client.ask(HttpQuestion.observe("GET", names.SYSTEM))
    bench.clock.sleep(200)
    assert client.ask(HttpQuestion.observe("GET", names.SYSTEM)).status == 200
    client.close()


@pytest.mark.parametrize("bench", [("benign.patch-answer-lost",)], indirect=True)
def test_a_lost_answer_is_lost_over_the_wire_too(bench: Bench) -> None:
    client = bench.client()
    client.ask(HttpQuestion.observe("GET", names.SYSTEM))
    with pytest.raises(Unreachable):
        client.ask(HttpQuestion.act("PATCH", names.SETTINGS, {"Attributes": {"MemTest": "Enabled"}}))
    assert client.ask(HttpQuestion.observe("GET", names.SETTINGS)).body["Attributes"] == {"MemTest": "Enabled"}
    client.close()


def test_one_connection_carries_many_requests_and_head_has_no_body(bench: Bench) -> None:
    connection = bench.raw()
    for method, has_body in (("GET", True), ("HEAD", False), ("GET", True)):
        connection.request(method, names.ROOT)
        answer = connection.getresponse()
        body = answer.read()
        assert (answer.status, bool(body)) == (200, has_body)
        assert answer.getheader("OData-Version") == "4.0"
    connection.request("GET", f"{ENTRIES}?$top=1")
    answer = connection.getresponse()
    assert (answer.status, b"SYS416" in answer.read()) == (401, True)
    connection.close()


def test_a_connection_that_ends_says_so_and_others_stay_open(bench: Bench) -> None:
    connection = bench.raw()
    connection.connect()
    kept = connection.sock
    for wish, answered in ((None, None), (None, None), ("close", "close")):
        connection.request("GET", names.ROOT, headers={"Connection": wish} if wish else {})
        answer = connection.getresponse()
        answer.read()
        assert answer.getheader("Connection") == answered
        assert connection.sock is (None if wish else kept)
    connection.close()


def test_a_body_is_read_whole(bench: Bench) -> None:
    connection = bench.raw()
    body = json.dumps({"UserName": parts.BMC_USER, "Password": parts.BMC_PASSWORD, "Padding": "x" * 50_000})
    connection.request("POST", names.SESSIONS, body)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 201
    assert answer.getheader("X-Auth-Token")
    connection.close()
