from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import Unreachable
from harness.lab.idrac import names
from harness.lab.model import parts


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"{parts.BMC_USER}:{password}".encode()).decode()


def test_the_service_root_needs_no_login_and_everything_else_does(open_client: Callable[..., Any]) -> None:
    client = open_client(is_logged_in=False)

    assert client.get(names.ROOT)["Oem"]["Dell"]["ServiceTag"] == parts.SERVICE_TAG
    assert client.status == 200
    assert client.ids(client.get(names.SYSTEM)) == ["SYS416"]
    assert client.status == 401
    assert client.ids(client.get("/redfish/v1/NoSuchThing")) == ["SYS416"]


def test_a_session_opens_and_ends(client: Any) -> None:
    session = client.headers["Location"]
    assert client.get(session)["UserName"] == parts.BMC_USER

    client.ask("DELETE", session)
    assert client.status == 204
    assert client.ids(client.get(names.SYSTEM)) == ["SYS415"]


def test_the_ninth_session_is_refused_with_503(client: Any) -> None:
    for _ in range(7):
        client.log_in()
        assert client.status == 201
    kept = client.token

    assert client.ids(client.log_in()) == ["RAC0218"]
    assert client.status == 503
    client.token = kept
    assert len(client.get(names.SESSIONS)["Members"]) == 8


def test_an_unused_session_ends_after_half_an_hour(client: Any) -> None:
    client.wait(1700)
    client.get(names.SYSTEM)
    assert client.status == 200
    client.wait(1801)
    client.get(names.SYSTEM)
    assert client.status == 401


def test_three_wrong_passwords_block_the_address_for_a_minute(open_client: Callable[..., Any]) -> None:
    client = open_client(is_logged_in=False)
    for _ in range(3):
        assert client.ids(client.log_in("guess")) == ["SYS415"]
        assert client.status == 401
        client.wait(1)

    with pytest.raises(Unreachable, match="blocked"):
        client.log_in()
    client.wait(60)
    client.log_in()
    assert client.status == 201


def test_two_wrong_passwords_block_nobody(open_client: Callable[..., Any]) -> None:
    client = open_client(is_logged_in=False)
    client.log_in("guess")
    client.log_in("guess")
    client.log_in()
    assert client.status == 201


def test_basic_is_taken_at_once_but_not_together_with_a_token(client: Any) -> None:
    client.ask("GET", names.SYSTEM, Authorization=basic(parts.BMC_PASSWORD))
    assert client.status == 400
    client.token = ""
    client.ask("GET", names.SYSTEM, Authorization=basic(parts.BMC_PASSWORD))
    assert client.status == 200
    client.ask("GET", names.SYSTEM, Authorization=basic("guess"))
    assert client.status == 401
    client.ask("GET", names.SYSTEM, Authorization="Basic !!!")
    assert client.status == 401


def test_a_login_without_a_password_says_which_property_is_missing(open_client: Callable[..., Any]) -> None:
    client = open_client(is_logged_in=False)
    body = client.ask("POST", names.SESSIONS, {"UserName": "bringup"})
    assert client.status == 400
    assert body["error"]["@Message.ExtendedInfo"][0]["MessageArgs"] == ["Password"]
