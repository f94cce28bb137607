"""A service that means harm, or is broken as if it did: one line, in time, within bounds, and no credentials for anybody else."""

from __future__ import annotations

import gzip
import resource
import sys
import threading
import time

import pytest

from harness.cli import main
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.errors import BenchError, Unreachable, Unreadable
from harness.ports import HttpQuestion

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
LOOK = HttpQuestion.observe("GET", SYSTEM, timeout=20)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PIECE = b" " * 2**20


def endless(start: bytes, piece: bytes, over: threading.Event):
    """A body or head that never ends, as fast as it is taken."""
    yield start
    while not over.is_set():
        yield piece


def swelling(size: int) -> bytes:
    packed = gzip.compress(b" " * size)
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed


@pytest.fixture
def over():
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize(
    ("start", "piece", "said"),
    [
        (HEAD + b"Content-Length: 100000000000\r\n\r\n", PIECE, "the answer is longer than 64 MiB"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + PIECE + b"\r\n", "the answer is longer than 64 MiB"),
        (HEAD, b"X-Header: and one more\r\n", "the answer is not HTTP"),
        (HEAD + b"X-Header: ", b"x" * 4096, "the answer is not HTTP"),
    ],
    ids=["a huge body", "endless chunks", "endless headers", "one endless header"],
)
def test_what_pours_without_an_end_is_cut_off_within_bounds(serve, sessions, lane, over, start, piece, said):
    service = serve(sessions(lambda request: endless(start, piece, over)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    with pytest.raises(Unreachable, match=said) as caught:
        lane(service).ask(LOOK)
    assert time.monotonic() - began < LOOK.timeout
    assert "\n" not in str(caught.value)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 512 * 1024, f"{grown} KiB of memory for an answer that is thrown away"


def test_a_small_answer_that_swells_is_cut_off_too(serve, sessions, lane):
    service = serve(sessions(lambda request: iter([swelling(200 * 2**20)])))
    with pytest.raises(Unreachable, match="longer than 64 MiB"):
        lane(service).ask(LOOK)


def test_a_packed_answer_of_honest_size_is_read(serve, sessions, lane):
    service = serve(sessions(lambda request: iter([swelling(2**20)])))
    assert len(lane(service).ask(LOOK).body) == 2**20


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_login_that_is_sent_elsewhere_is_not_followed(serve, sessions, lane, status):
    stranger = serve(lambda request: (200, {}, {}))
    service = serve(sessions(login=[(status, {"Location": f"{stranger.url}/redfish/v1/SessionService/Sessions"}, None)]))
    with pytest.raises(BenchError, match=f"no session was opened: HTTP {status}"):
        lane(service).ask(LOOK)
    assert stranger.connections == 0


def test_a_session_that_is_said_to_be_elsewhere_is_ended_here(serve, sessions, lane):
    stranger = serve(lambda request: (204, {}, None))
    token = {"X-Auth-Token": "token-of-this-session", "Location": f"{stranger.url}/redfish/v1/SessionService/Sessions/1"}
    front = sessions(login=[(201, token, None)])
    front.tokens["token-of-this-session"] = "/redfish/v1/SessionService/Sessions/1"
    service = serve(front)
    one = lane(service)
    one.ask(LOOK)
    one.close()
    assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/1"
    assert stranger.connections == 0


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "text/html"}, b"<html>log in</html>"),
        ({"Content-Type": "application/json"}, b"[" * 200_000),
        ({"Content-Type": "application/octet-stream"}, b"\xff\x00" * 100),
        ({"Content-Type": "application/json"}, b'"a word"'),
    ],
    ids=["a web page", "nested without end", "bytes", "a word"],
)
def test_an_answer_that_is_no_redfish_is_unreadable_in_one_line(serve, sessions, lane, clock, headers, body):
    service = serve(sessions(lambda request: (200, headers, body)))
    with pytest.raises(Unreadable) as caught:
        Idrac(Redfish(lane(service), clock)).system()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


BENCH = """
schema = 1
name = "hostile"
platform = "lqd8360"
service_tag = "MODEL01"
[bmc]
url = "{url}"
user = "root"
password = {{ env = "LOOPBACK_PASSWORD" }}
pin = "{pin}"
"""


def half(_):
    return iter([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"])


HOSTILE = {
    "half an answer": half,
    "no HTTP": lambda _: iter([b"SSH-2.0-OpenSSH_9.2\r\n"]),
    "a web page": lambda _: (200, {"Content-Type": "text/html"}, b"<html>log in</html>"),
    "a redirect": lambda _: (302, {"Location": "https://192.0.2.1/redfish/v1"}, None),
    "hangs up": lambda _: None,
    "swells": lambda _: iter([swelling(200 * 2**20)]),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_a_command_ends_with_one_line_that_tells_no_password(
    serve, sessions, certificate, password, tmp_path, monkeypatch, capsys, answer
):
    service = serve(sessions(answer))
    file = tmp_path / "hostile.toml"
    file.write_text(BENCH.format(url=service.url, pin=certificate.pin))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPBACK_PASSWORD", password)
    monkeypatch.setattr(sys, "argv", ["bringup", "bios", "show", "--bench", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code in (1, 3)
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if line.strip()]
    assert line.startswith("bringup: ")
    assert password not in line
