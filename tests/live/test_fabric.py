"""The live lane to a fabric's controller, against services on the loopback; where answers matter, the model's."""

from __future__ import annotations

import base64
import socket
import threading

import pytest

from harness.clock import VirtualClock, WallClock
from harness.devices.fabric import GPU_INFO, Fabric
from harness.errors import AuthRefused, Unreachable, Untrusted, UsageMistake
from harness.lab.model.fabric import ModelFabric
from harness.lab.model.machine import Machine
from harness.live.fabric import FabricHttp
from harness.ports import HttpQuestion
from harness.secret import SecretReference

pytestmark = pytest.mark.socket

READ = HttpQuestion.observe("GET", GPU_INFO, timeout=20.0)


@pytest.fixture
def modelled():
    """The answers of the modelled machine's controller, to requests."""
    clock = VirtualClock()
    model = ModelFabric(clock, Machine(clock))

    def answer(request):
        told = model.ask(HttpQuestion.observe(request.method, request.path))
        return told.status, {"Content-Type": "application/json"}, told.body

    return answer, model


def lane(service, certificate=None, **more):
    return FabricHttp(service.url, WallClock(), pin=certificate.pin if certificate else "", **more)


def test_the_list_of_parts_is_the_one_that_the_controller_has(serve, certificate, modelled):
    answer, model = modelled
    service = serve(answer)
    asks = lane(service, certificate)
    assert Fabric(asks).parts() == Fabric(model).parts()
    asks.close()
    assert service.lines == [f"GET {GPU_INFO}"]
    assert "authorization" not in service.requests[0].headers


def test_a_certificate_that_is_not_the_pinned_one_gets_no_question(serve, modelled):
    service = serve(modelled[0])
    with pytest.raises(Untrusted, match="the bench pins sha256:abab"):
        FabricHttp(service.url, WallClock(), pin="sha256:" + "ab" * 32).ask(READ)
    assert service.lines == []


def test_a_certificate_of_another_authority_gets_no_question(serve, modelled, certificates):
    service = serve(modelled[0])
    other = certificates("127.0.0.1", nth=1)
    with pytest.raises(Untrusted, match="nothing was sent"):
        FabricHttp(service.url, WallClock(), ca=str(other.pem)).ask(READ)
    assert service.lines == []


def test_without_pin_and_authority_nothing_is_asked(serve, modelled):
    service = serve(modelled[0])
    with pytest.raises(Untrusted, match="neither pin nor ca"):
        FabricHttp(service.url, WallClock()).ask(READ)
    assert service.connections == 0


def test_an_authority_alone_is_enough(serve, certificate, modelled):
    service = serve(modelled[0])
    assert FabricHttp(service.url, WallClock(), ca=str(certificate.pem)).ask(READ).status == 200


@pytest.mark.parametrize(
    "question",
    [
        HttpQuestion.act("POST", "/liqid/api/v2/fabric/reprogram"),
        HttpQuestion.act("GET", GPU_INFO),
        HttpQuestion.observe("POST", GPU_INFO),
    ],
)
def test_what_could_change_the_fabric_is_never_sent(serve, certificate, modelled, question):
    service = serve(modelled[0])
    with pytest.raises(UsageMistake, match="only read"):
        lane(service, certificate).ask(question)
    assert service.connections == 0


def test_one_wrong_password_is_one_attempt(serve, certificate, monkeypatch):
    monkeypatch.setenv("FABRIC_PASSWORD", "wrong")
    service = serve(lambda _: (401, {}, None))
    asks = lane(service, certificate, user="u", password=SecretReference(env="FABRIC_PASSWORD"))
    for _ in range(2):
        with pytest.raises(AuthRefused, match="none will follow") as refusal:
            asks.ask(READ)
        assert "wrong" not in str(refusal.value)
    assert len(service.requests) == 1


def test_a_login_goes_with_the_question(serve, certificate, monkeypatch):
    monkeypatch.setenv("FABRIC_PASSWORD", "päss")
    service = serve(lambda _: (200, {}, {"response": {"code": 0, "errors": None, "data": []}}))
    lane(service, certificate, user="u", password=SecretReference(env="FABRIC_PASSWORD")).ask(READ)
    sent = service.requests[0].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "u:päss"


def test_a_redirect_is_an_answer_and_not_followed(serve, certificate):
    service = serve(lambda _: (302, {"Location": "https://192.0.2.1/"}, None))
    assert lane(service, certificate).ask(READ).status == 302
    assert len(service.requests) == 1


def test_a_connection_that_drops_is_not_tried_again(serve, certificate):
    service = serve(lambda _: None)
    with pytest.raises(Unreachable):
        lane(service, certificate).ask(READ)
    assert len(service.requests) == 1


def test_a_proxy_of_the_environment_is_not_heeded(serve, certificate, modelled, monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://192.0.2.9:3128")
    assert lane(serve(modelled[0]), certificate).ask(READ).status == 200


def test_a_closed_lane_asks_nothing(serve, certificate, modelled):
    service = serve(modelled[0])
    asks = lane(service, certificate)
    asks.close()
    asks.close()
    with pytest.raises(Unreachable, match="was closed"):
        asks.ask(READ)
    assert service.connections == 0


def test_plain_http_carries_no_login_and_says_when_nobody_is_there(monkeypatch):
    monkeypatch.setenv("FABRIC_PASSWORD", "secret")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        heard = []

        def once():
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=once)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asks = FabricHttp(url, WallClock(), user="u", password=SecretReference(env="FABRIC_PASSWORD"))
        assert asks.ask(READ).body == {}
        thread.join()
    assert b"uthorization" not in heard[0]
    with pytest.raises(Unreachable, match="connection refused"):
        FabricHttp(url, WallClock()).ask(READ)
